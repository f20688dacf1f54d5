"""docker-compose.yml, the Dockerfile and the chart, as far as no engine and no Helm is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streaming.jvm.jars import cache_folder
from streaming.jvm.java import MINIMUM_JAVA_VERSION
from tests.support.brokers.jar_sets import RELEASES
from tests.support.deploy.chart import CHART, USER, parameters
from tests.support.deploy.schemas import COMPOSE, schema_errors

TOKEN = "COORDINATOR_STATE_TOKEN"  # noqa: S105 - its name


def load(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file)


@pytest.fixture(scope="module")
def compose(repository: Path) -> dict[str, Any]:
    return dict(load(repository / "docker-compose.yml"))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return dict(compose["services"])


@pytest.fixture(scope="module")
def dockerfile(repository: Path) -> str:
    return (repository / "Dockerfile").read_text()


def test_the_compose_file_fits_the_compose_schema(compose: dict[str, Any]) -> None:
    assert schema_errors(COMPOSE, compose) == []


def test_images_of_others_are_pinned_by_digest_and_the_broker_is_tested(
    services: dict[str, Any], dockerfile: str
) -> None:
    broker, _, _ = services["kafka"]["image"].partition("@")
    assert broker in {f"apache/kafka:{release}" for release in RELEASES}
    images = {service["image"] for service in services.values()} - {"coordinator-state"}
    images |= set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE))
    assert len(images) == 2
    for image in images:
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image), image


def test_the_listeners_fit_together(services: dict[str, Any]) -> None:
    environment = services["kafka"]["environment"]
    bound = listeners(environment["KAFKA_LISTENERS"])
    advertised = listeners(environment["KAFKA_ADVERTISED_LISTENERS"])
    controller = environment["KAFKA_CONTROLLER_LISTENER_NAMES"]
    protocols = dict(
        pair.split(":") for pair in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )
    assert set(protocols) == set(bound) == {controller, *advertised}
    assert environment["KAFKA_INTER_BROKER_LISTENER_NAME"] in advertised
    assert {name: port for name, (_, port) in advertised.items()} == {
        name: port for name, (_, port) in bound.items() if name != controller
    }
    voter_id, _, voter = environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].partition("@")
    assert voter_id == environment["KAFKA_NODE_ID"]
    assert tuple(voter.split(":")) == bound[controller]
    # What containers use is named after the service; what this machine uses is published.
    assert advertised["INSIDE"][0] == "kafka"
    host, port = advertised["HOST"]
    assert host == "localhost"
    assert services["kafka"]["ports"] == [f"127.0.0.1:{port}:{port}"]


def listeners(value: str) -> dict[str, tuple[str, str]]:
    """Name to host and port of `NAME://host:port,…`."""
    addresses = re.findall(r"(\w+)://([^:,]*):(\d+)", value)
    return {name: (host, port) for name, host, port in addresses}


def test_the_materializer_reads_the_broker_and_writes_to_volumes(services: dict[str, Any]) -> None:
    service = services["materializer"]
    given = parameters(service["command"])
    advertised = listeners(services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    assert given["bootstrap_servers"] == ":".join(advertised["INSIDE"])
    mounted = {volume.partition(":")[2] for volume in service["volumes"]}
    for option in ("tables", "checkpoint"):
        assert any(Path(given[option]).is_relative_to(folder) for folder in mounted), option
    *_, program = service["healthcheck"]["test"]
    asked = re.findall(r'urlopen\("([^"]+)"', program)
    assert asked == [f"http://{given['http_host']}:{given['http_port']}/health"]
    compile(program, "healthcheck", "exec")


def test_the_page_is_open_to_this_machine_and_changes_nothing(services: dict[str, Any]) -> None:
    given = parameters(services["dashboard"]["command"])
    assert given["tables"] == {"tables": "/data/tables"}
    assert services["dashboard"]["ports"] == [f"127.0.0.1:{given['port']}:8050"]
    assert services["dashboard"]["volumes"] == ["tables:/data/tables:ro"]
    # No token, no page: compose says how to make one, and knows none itself.
    assert services["dashboard"]["environment"].keys() == {TOKEN}
    token = services["dashboard"]["environment"][TOKEN]
    assert re.fullmatch(rf"\$\{{{TOKEN}:\?[^${{}}]*openssl rand -hex 16[^${{}}]*\}}", token)


def test_the_image_copies_files_that_exist_and_are_sent_to_the_builder(
    repository: Path, dockerfile: str
) -> None:
    sent = (repository / ".dockerignore").read_text().splitlines()
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", dockerfile, re.M)).split()
    assert copied
    for source in copied:
        assert (repository / source).exists(), source
        assert f"!{source}" in sent, source


def test_the_image_has_what_a_run_in_it_needs(
    services: dict[str, Any], dockerfile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders that its user owns, a Java for Spark, and the jars that the build fetched."""
    (made,) = re.findall(r"install --directory .*", dockerfile)
    for volume in services["materializer"]["volumes"]:
        assert volume.partition(":")[2] in made.split()
    (version,) = re.findall(r"openjdk-(\d+)-jre", dockerfile)
    assert int(version) >= MINIMUM_JAVA_VERSION
    (variable, folder) = re.findall(r"^ENV (\w+)=(\S+)$", dockerfile, re.M)[0]
    monkeypatch.setenv(variable, folder)
    assert cache_folder() == Path(folder)
    assert dockerfile.index(f"ENV {variable}") < dockerfile.index("delta_jars()")


# --- files of the chart: `test_helm.py` renders it


def test_the_chart_has_the_version_of_the_program_and_the_user_of_the_image(
    repository: Path, dockerfile: str
) -> None:
    project = (repository / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.+)"$', project, re.MULTILINE)
    assert load(CHART / "Chart.yaml")["appVersion"] == version
    # Kubernetes cannot tell whether a user with a name is root.
    assert re.findall(r"^USER (.+)$", dockerfile, re.M) == [f"{USER}:{USER}"]
    assert re.search(rf"useradd .*--uid {USER} ", dockerfile)


def test_values_of_the_chart_and_their_schema_have_the_same_keys() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert differences(load(CHART / "values.yaml"), schema, "") == []


def differences(values: Any, schema: Any, path: str) -> list[str]:
    if schema.get("additionalProperties") is not False:
        return []
    known = schema["properties"].keys() - {"global"}  # Helm adds it to the values
    wrong = [f"{path}.{name}" for name in known ^ values.keys()]
    for name in known & values.keys():
        wrong += differences(values[name], schema["properties"][name], f"{path}.{name}")
    return wrong
