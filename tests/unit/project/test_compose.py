"""docker-compose.yml and the Dockerfile, as far as no container engine is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streaming.jvm.jars import cache_folder
from streaming.jvm.java import MINIMUM_JAVA_VERSION
from tests.support.brokers.jar_sets import RELEASES
from tests.support.clients.command_line import COMMANDS
from tests.support.deploy.compose_schema import check_schema

TOKEN = "COORDINATOR_STATE_TOKEN"  # noqa: S105 - its name
COMPOSE_CLIENTS = (("docker-compose",), ("docker", "compose"))


@pytest.fixture(scope="module")
def services(repository: Path) -> dict[str, Any]:
    loaded = YAML(typ="safe", pure=True).load(repository / "docker-compose.yml")
    services: dict[str, Any] = loaded["services"]
    return services


@pytest.fixture(scope="module")
def dockerfile(repository: Path) -> str:
    return (repository / "Dockerfile").read_text()


def test_compose_file_fits_the_compose_schema(repository: Path) -> None:
    answer = check_schema(repository / "docker-compose.yml")
    assert answer.returncode == 0, answer.stdout


def test_a_misspelt_property_does_not_fit_the_compose_schema(
    repository: Path, tmp_path: Path
) -> None:
    text = (repository / "docker-compose.yml").read_text()
    misspelt = tmp_path / "docker-compose.yml"
    misspelt.write_text(text.replace("depends_on:", "depend_on:"))
    answer = check_schema(misspelt)
    assert answer.returncode == 1
    assert "depend_on" in answer.stdout


def test_every_compose_client_at_hand_accepts_the_file_with_a_token(repository: Path) -> None:
    file = repository / "docker-compose.yml"
    without = {name: value for name, value in os.environ.items() if name != TOKEN}
    for client in filter(is_at_hand, COMPOSE_CLIENTS):
        command = (*client, "--file", str(file), "config", "--quiet")
        for env, is_accepted in (({**without, TOKEN: "0" * 16}, True), (without, False)):
            answer = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
            assert (answer.returncode == 0) == is_accepted, answer.stderr
            assert is_accepted or "openssl rand" in answer.stderr


def is_at_hand(client: tuple[str, ...]) -> bool:
    if shutil.which(client[0]) is None:
        return False
    answer = subprocess.run([*client, "version"], capture_output=True, check=False)
    return answer.returncode == 0


def test_the_broker_is_a_version_that_is_tested(services: dict[str, Any]) -> None:
    image, _, _ = services["kafka"]["image"].partition("@")
    assert image in {f"apache/kafka:{release}" for release in RELEASES}


def test_every_image_of_others_is_pinned_by_digest(
    services: dict[str, Any], dockerfile: str
) -> None:
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
    found = re.findall(r"(\w+)://([^:,]*):(\d+)", value)
    return {name: (host, port) for name, host, port in found}


def test_the_materializer_is_started_with_options_that_exist(services: dict[str, Any]) -> None:
    command, *arguments = services["materializer"]["command"]
    known = {name for option in COMMANDS[command].params for name in option.opts}
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert set(given) <= known
    advertised = listeners(services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    assert given["--bootstrap-servers"] == ":".join(advertised["INSIDE"])
    mounted = {volume.partition(":")[2] for volume in services["materializer"]["volumes"]}
    for option in ("--tables", "--checkpoint"):
        assert any(Path(given[option]).is_relative_to(folder) for folder in mounted), option


def test_the_health_of_the_materializer_is_asked_where_it_answers(
    services: dict[str, Any],
) -> None:
    command, *arguments = services["materializer"]["command"]
    with COMMANDS[command].make_context(command, arguments) as context:
        host, port = context.params["http_host"], context.params["http_port"]
    *_, program = services["materializer"]["healthcheck"]["test"]
    asked = re.findall(r'urlopen\("([^"]+)"', program)
    assert asked == [f"http://{host}:{port}/health"]
    compile(program, "healthcheck", "exec")


def test_the_page_is_open_to_this_machine_and_changes_nothing(services: dict[str, Any]) -> None:
    command, *arguments = services["dashboard"]["command"]
    with COMMANDS[command].make_context(command, arguments) as context:
        assert context.params["tables"] == ("/data/tables",)
        assert services["dashboard"]["ports"] == [f"127.0.0.1:{context.params['port']}:8050"]
    assert services["dashboard"]["volumes"] == ["tables:/data/tables:ro"]
    # No token, no page: compose says how to make one, and knows none itself.
    assert services["dashboard"]["environment"].keys() == {TOKEN}
    given = services["dashboard"]["environment"][TOKEN]
    assert re.fullmatch(rf"\$\{{{TOKEN}:\?[^${{}}]*openssl rand -hex 16[^${{}}]*\}}", given)


def test_the_image_mounts_folders_that_its_user_owns(
    services: dict[str, Any], dockerfile: str
) -> None:
    (made,) = re.findall(r"install --directory .*", dockerfile)
    for volume in services["materializer"]["volumes"]:
        assert volume.partition(":")[2] in made.split()


def test_the_image_copies_files_that_exist_and_are_sent_to_the_builder(
    repository: Path, dockerfile: str
) -> None:
    sent = (repository / ".dockerignore").read_text().splitlines()
    copied = " ".join(re.findall(r"^COPY (.*) \S+$", dockerfile, re.M)).split()
    assert copied
    for source in copied:
        assert (repository / source).exists(), source
        assert f"!{source}" in sent, source


def test_the_image_has_a_java_that_spark_runs_on(dockerfile: str) -> None:
    (version,) = re.findall(r"openjdk-(\d+)-jre", dockerfile)
    assert int(version) >= MINIMUM_JAVA_VERSION


def test_a_run_in_the_image_finds_the_jars_the_build_fetched(
    dockerfile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (variable, folder) = re.findall(r"^ENV (\w+)=(\S+)$", dockerfile, re.M)[0]
    monkeypatch.setenv(variable, folder)
    assert cache_folder() == Path(folder)
    assert dockerfile.index(f"ENV {variable}") < dockerfile.index("delta_jars()")
