"""What the pods of the Helm chart may do, and how they get secrets.

The long tests need Go, which builds Helm, and are skipped without it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streaming.kafka.secrets import is_secret
from tests.support.deploy.chart import (
    ALL,
    CHART,
    LEAST,
    STORE,
    VALUE_SETS,
    every_value_set,
    helm,
    long,
    manifests,
    of_kind,
    parameters,
    pods,
    values_with,
)

USER = 1000


def test_the_user_of_the_image_is_that_of_the_pods(repository: Path) -> None:
    dockerfile = (repository / "Dockerfile").read_text()
    # Kubernetes cannot tell whether a user with a name is root.
    assert re.findall(r"^USER (.+)$", dockerfile, re.M) == [f"{USER}:{USER}"]
    assert re.search(rf"useradd .*--uid {USER} ", dockerfile)
    for file in ("_helpers.tpl", "tests/health.yaml"):
        template = (CHART / "templates" / file).read_text()
        assert set(re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", template)) == {str(USER)}


@long
@every_value_set
def test_every_pod_has_the_restricted_profile(name: str) -> None:
    """As the pod security standards of Kubernetes define it, with a read-only root besides."""
    found = dict(pods(manifests(VALUE_SETS[name])))
    assert len(found) > 1
    for pod in found.values():
        of_pod = pod["securityContext"]
        assert (of_pod["runAsNonRoot"], of_pod["runAsUser"]) == (True, USER)
        assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "initContainers"}
        for volume in pod.get("volumes", ()):
            kinds = volume.keys() - {"name"}
            assert kinds <= {"emptyDir", "persistentVolumeClaim", "secret", "configMap"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert not any("hostPort" in port for port in container.get("ports", ()))
            assert container["resources"]["limits"]["memory"]


@long
@every_value_set
def test_no_pod_has_a_login_to_kubernetes_or_variables_of_services(name: str) -> None:
    """A Service `coordinator-state` would set COORDINATOR_STATE_PORT, the variable of `--port`."""
    found = manifests(VALUE_SETS[name])
    for _, pod in pods(found):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
    for account in of_kind(found, "ServiceAccount").values():
        assert account["automountServiceAccountToken"] is False


@long
@every_value_set
def test_what_a_part_writes_is_on_a_volume(name: str) -> None:
    deployments = of_kind(manifests(VALUE_SETS[name]), "Deployment")
    for part, deployment in deployments.items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mounts = {
            mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]
        }
        assert mounts["/tmp"] is False  # noqa: S108 - in the pod
        environment = {one["name"]: one.get("value") for one in container["env"]}
        found = parameters(deployment)
        if part == "materializer":
            assert mounts["/data"] is False
            assert environment["NUMBA_CACHE_DIR"].startswith("/data/")
            assert found["checkpoint"].startswith("/data/")
        elif "tables" in VALUE_SETS[name]:
            assert "/data" not in mounts
        else:
            assert mounts["/data"] is (part != "alerts")
        location = VALUE_SETS[name].get("tables", {}).get("location", "/data/tables")
        assert found["tables"] in (location, (location,))
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@long
def test_secrets_are_references() -> None:
    found = manifests(ALL | {"tables": STORE["tables"]})
    assert "Secret" not in {manifest["kind"] for manifest in found}
    deployments = of_kind(found, "Deployment")
    references: dict[str, set[str]] = {}
    for part, deployment in deployments.items():
        text = json.dumps(deployment)
        references[part] = set(
            re.findall(r'"(?:secretName|name)": "(kafka-login|page-token|sinks|store-login)"', text)
        )
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            literal = [one["name"] for one in container["env"] if "value" in one]
            assert set(literal) <= {
                "COORDINATOR_STATE_LOG_FORMAT",
                "AWS_REGION",
                "NUMBA_CACHE_DIR",
            }
    assert references == {
        "materializer": {"kafka-login", "store-login"},
        "dashboard": {"page-token", "store-login"},
        "metrics": {"store-login"},
        "alerts": {"sinks", "store-login"},
    }


@long
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.plain.password", "hush"),
        ("ssl.key.password", "hush"),
        ("sasl.oauthbearer.client.credentials.client.secret", "hush"),
        ("sasl.jaas.config", "hush"),
        ("proxy.url", "http://user:hush@proxy:3128"),
        ("ssl.certfile", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_a_secret_among_the_kafka_properties_is_refused(name: str, value: str) -> None:
    assert is_secret(name, value)
    answer = helm("template", values=values_with({"kafka": {"properties": {name: value}}}))
    assert answer.returncode == 1
    assert "values don't meet the specifications of the schema" in answer.stderr
    assert "hush" not in answer.stderr


@long
def test_outgoing_traffic_is_restricted_on_request_only() -> None:
    for values, kinds in ((LEAST, ["Ingress"]), (ALL, ["Ingress", "Egress"])):
        policies = of_kind(manifests(values), "NetworkPolicy")
        assert policies.keys() == of_kind(manifests(values), "Deployment").keys()
        for policy in policies.values():
            assert policy["spec"]["policyTypes"] == kinds
    dns, brokers = policies["materializer"]["spec"]["egress"]
    assert [port["port"] for port in dns["ports"]] == [53, 53]
    assert brokers == ALL["networkPolicy"]["egress"][0]
