"""The Helm chart in deploy/helm, by Helm itself, Kubernetes' schemas and the program's own parser.

The long tests need Go, which builds Helm, and are skipped without it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streaming.alerts.rules_file import load_rules
from streaming.dashboard.app import create_app
from streaming.http.access import Access
from streaming.run.settings import RunSettings
from tests.support.deploy.chart import (
    ALL,
    CHART,
    LEAST,
    NAMESPACE,
    RELEASE,
    SHARED_VOLUME,
    STORE,
    VALUE_SETS,
    Values,
    every_value_set,
    helm,
    long,
    manifests,
    of_kind,
    parameters,
    pod_of,
    rendered,
    values_with,
)
from tests.support.deploy.go_programs import go_programs
from tests.support.deploy.packages import deploy_packages
from tests.support.tables.status_tables import create_status_tables

KUBERNETES_VERSIONS = ("1.25.0", "1.37.0")
"""The oldest that Chart.yaml admits, and a new one."""
# The schemas of the Prometheus operator's kinds are in Go only.
OPERATOR_KINDS = {"ServiceMonitor", "PrometheusRule"}
EVERY_PART = {"materializer", "dashboard", "metrics", "alerts"}


def load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_the_chart_has_the_alert_rules_of_deploy(repository: Path) -> None:
    """Helm reads only files inside the chart. After a change, copy the file into deploy/helm."""
    ours = repository / "deploy" / "prometheus-rules.yaml"
    assert (CHART / ours.name).read_bytes() == ours.read_bytes()


def test_the_chart_has_the_version_of_the_program(repository: Path) -> None:
    (version,) = re.findall(
        r'^version = "(.+)"$', (repository / "pyproject.toml").read_text(), re.M
    )
    assert load((CHART / "Chart.yaml").read_text())["appVersion"] == version


def test_values_and_their_schema_have_the_same_keys() -> None:
    values = load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert differences(values, schema, "") == []


def differences(values: Any, schema: Any, path: str) -> list[str]:
    if schema.get("additionalProperties") is not False:
        return []
    known = schema["properties"].keys() - {"global"}  # Helm adds it to the values
    found = [f"{path}.{name}" for name in known ^ values.keys()]
    for name in known & values.keys():
        found += differences(values[name], schema["properties"][name], f"{path}.{name}")
    return found


@long
@every_value_set
def test_helm_lint_is_content(name: str) -> None:
    answer = helm("lint", "--strict", "--quiet", values=VALUE_SETS[name])
    assert answer.returncode == 0, answer.stdout + answer.stderr


@long
@every_value_set
def test_every_manifest_fits_the_schemas_of_kubernetes(name: str, tmp_path: Path) -> None:
    for version in KUBERNETES_VERSIONS:
        text = rendered(VALUE_SETS[name], version)
        files = []
        for number, manifest in enumerate(text.split("\n---\n")):
            if not OPERATOR_KINDS & set(re.findall(r"^kind: (\w+)", manifest, re.M)):
                files.append(tmp_path / f"{number}.yaml")
                files[-1].write_text(manifest)
        answer = validate(version, *files)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@long
@every_value_set
def test_every_manifest_is_one_of_the_types_in_go(name: str) -> None:
    found = manifests(VALUE_SETS[name])
    answer = decode_strictly(rendered(VALUE_SETS[name]))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == [manifest["kind"] for manifest in found]
    assert (set(answer.stdout.split()) >= OPERATOR_KINDS) == (VALUE_SETS[name] is ALL)


@long
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("replicas:", "replikas:"), ("interval:", "intervall:"), ("expr:", "exp:")],
)
def test_a_misspelt_field_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    text = rendered(ALL)
    assert right in text
    answer = decode_strictly(text.replace(right, wrong))
    assert answer.returncode == 1
    assert "unknown field" in answer.stderr
    if right == "replicas:":
        file = tmp_path / "deployment.yaml"
        (deployment,) = (one for one in text.split("\n---\n") if "- --port=9308" in one)
        file.write_text(deployment.replace(right, wrong))
        assert validate(KUBERNETES_VERSIONS[-1], file).returncode != 0


def validate(version: str, *files: Path) -> subprocess.CompletedProcess[str]:
    command = (deploy_packages() / "kubernetes-validate", "--strict", "--quiet", "-k", version)
    return subprocess.run([*command, *files], capture_output=True, text=True, check=False)


def decode_strictly(text: str) -> subprocess.CompletedProcess[str]:
    program = go_programs() / "strict"
    return subprocess.run([program], input=text, capture_output=True, text=True, check=False)


@long
@every_value_set
def test_the_parts_that_write_have_one_replica_and_no_overlap(name: str) -> None:
    deployments = of_kind(manifests(VALUE_SETS[name]), "Deployment")
    for part in deployments.keys() & {"materializer", "alerts"}:
        assert deployments[part]["spec"]["replicas"] == 1
        assert deployments[part]["spec"]["strategy"] == {"type": "Recreate"}
    assert "materializer" in deployments


@long
def test_the_command_lines_are_those_of_the_program() -> None:
    deployments = of_kind(manifests(ALL), "Deployment")
    assert deployments.keys() == EVERY_PART
    run = parameters(deployments["materializer"])
    given = {name: value for name, value in run.items() if name in RunSettings.model_fields}
    settings = RunSettings.checked(**given)
    assert settings.bootstrap_servers == ALL["bootstrapServers"]
    assert (settings.tables, settings.checkpoint) == ("/data/tables", "/data/checkpoints/tables")
    assert (settings.trigger, settings.max_records_per_trigger) == ("5 seconds", 2_000_000)
    assert settings.change_data_feed
    assert settings.kafka == {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in ALL["kafka"]["properties"].items()
    }
    page = parameters(deployments["dashboard"])
    assert (page["tables"], page["browser"], page["refresh"]) == (("/data/tables",), False, 10.0)
    service = f"{RELEASE}-coordinator-state-dashboard"
    assert page["allowed_host"] == (
        *(service, f"{service}.{NAMESPACE}", f"{service}.{NAMESPACE}.svc"),
        *("kafka.example.org", "page.example.org"),
    )
    metrics = parameters(deployments["metrics"])
    assert (metrics["by"], metrics["max_series"]) == ("topic", 20_000)
    alerts = parameters(deployments["alerts"])
    assert alerts["rules_file"] == "/etc/coordinator-state/alerts.yaml"


@long
@every_value_set
def test_every_part_listens_for_others_where_its_port_and_probes_are(name: str) -> None:
    deployments = of_kind(manifests(VALUE_SETS[name]), "Deployment")
    for part, deployment in deployments.items():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        probes = [value for key, value in container.items() if key.endswith("Probe")]
        if part == "alerts":
            assert not probes
            continue
        found = parameters(deployment)
        prefix = "http_" if part == "materializer" else ""
        assert found[f"{prefix}host"] == "0.0.0.0"  # noqa: S104 - in a pod
        (port,) = container["ports"]
        assert port["containerPort"] == found[f"{prefix}port"]
        assert len(probes) >= 2
        for probe in probes:
            assert probe.get("httpGet", probe.get("tcpSocket"))["port"] == port["name"]


@long
def test_the_probes_of_the_materializer_are_its_health_and_readiness() -> None:
    (container,) = pod_of(LEAST, "materializer")["containers"]
    paths = {
        key: value["httpGet"]["path"] for key, value in container.items() if key.endswith("Probe")
    }
    assert paths == {
        "startupProbe": "/health",
        "livenessProbe": "/health",
        "readinessProbe": "/ready",
    }


@long
@pytest.mark.parametrize("values", [LEAST, ALL], ids=["token", "token and proxy"])
def test_the_probes_of_the_page_are_answered_without_a_token(
    values: Values, tmp_path: Path
) -> None:
    folder = create_status_tables(tmp_path / "tables")
    (container,) = pod_of(values, "dashboard")["containers"]
    access = Access("0.0.0.0", "t" * 16, values["dashboard"].get("authHeader"))  # noqa: S104
    page = create_app({"tables": folder}, access=access).test_client()
    for name in ("livenessProbe", "readinessProbe"):
        probe = container[name]["httpGet"]
        headers = {one["name"]: one["value"] for one in probe.get("httpHeaders", ())}
        # kubelet sends the address of the pod in `Host`.
        answer = page.get(probe["path"], headers=headers, base_url="http://10.0.0.7:8050")
        assert answer.status_code == 200


@long
def test_the_probes_of_a_page_without_a_token_read_no_table() -> None:
    """Its sign-in page leads to the overview, and kubelet follows."""
    (container,) = pod_of(STORE, "dashboard")["containers"]
    for name in ("livenessProbe", "readinessProbe"):
        assert container[name]["tcpSocket"] == {"port": "http"}


@long
@pytest.mark.parametrize(
    ("values", "is_together"), [(LEAST, True), (SHARED_VOLUME, False), (STORE, False)]
)
def test_pods_share_a_node_where_one_node_alone_can_mount_the_volume(
    values: Values, is_together: bool
) -> None:
    for deployment in of_kind(manifests(values), "Deployment").values():
        pod = deployment["spec"]["template"]
        assert ("affinity" in pod["spec"]) == is_together
        if is_together:
            affinity = pod["spec"]["affinity"]["podAffinity"]
            (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
            # It selects the pod itself, so that the first pod can be scheduled.
            wanted = term["labelSelector"]["matchLabels"].items()
            assert wanted <= pod["metadata"]["labels"].items()


@long
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bootstrapServers": ""}, "bootstrapServers: the brokers"),
        ({"image": {}}, "image.repository: the image that you built"),
        ({"dashboard": {}}, "openssl rand -hex 16"),
        ({"dashboard": {**LEAST["dashboard"], "ingress": {"enabled": True}}}, "ingress.host"),
        ({"alerts": {"enabled": True}}, "alerts.rules: the rules file"),
        ({"materialiser": {}}, "materialiser"),
        ({"materializer": {"options": {"tables": "/x"}}}, "tables"),
        ({"materializer": {"options": {"Trigger": "1s"}}}, "Trigger"),
        ({"tables": {"location": "/data/elsewhere"}}, "/data/elsewhere"),
        ({"persistence": {"accessModes": ["ReadWriteOncePod"]}}, "accessModes"),
    ],
)
def test_values_that_cannot_work_are_refused(changes: Values, message: str) -> None:
    answer = helm("template", "--kube-version", "1.37.0", values=values_with(changes))
    assert answer.returncode == 1
    assert message in answer.stderr


@long
def test_the_prometheus_rule_has_the_rules_of_deploy(repository: Path) -> None:
    (rule,) = (one for one in manifests(ALL) if one["kind"] == "PrometheusRule")
    assert rule["spec"] == load((repository / "deploy" / "prometheus-rules.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"


@long
@every_value_set
def test_services_monitors_and_policies_lead_to_ports_of_pods(name: str) -> None:
    found = manifests(VALUE_SETS[name])
    deployments = of_kind(found, "Deployment")
    ports = {
        part: {
            port["name"]
            for container in deployment["spec"]["template"]["spec"]["containers"]
            for port in container.get("ports", ())
        }
        for part, deployment in deployments.items()
    }
    services = of_kind(found, "Service")
    for part, service in services.items():
        labels = deployments[part]["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports[part]
    for part, policy in of_kind(found, "NetworkPolicy").items():
        labels = deployments[part]["spec"]["template"]["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        allowed = {
            port["port"] for rule in policy["spec"]["ingress"] for port in rule.get("ports", ())
        }
        assert allowed == ports[part]
    for monitor in of_kind(found, "ServiceMonitor").values():
        (choice,) = monitor["spec"]["selector"]["matchExpressions"]
        (endpoint,) = monitor["spec"]["endpoints"]
        for part in choice["values"]:
            assert endpoint["port"] in {port["name"] for port in services[part]["spec"]["ports"]}


@long
def test_the_rules_of_alerts_are_a_rules_file(tmp_path: Path) -> None:
    (config,) = of_kind(manifests(ALL), "ConfigMap").values()
    (tmp_path / "slack_url").write_text("https://hooks.slack.com/x")
    file = tmp_path / "alerts.yaml"
    (text,) = config["data"].values()
    file.write_text(text.replace("/run/secrets/alerts", str(tmp_path)))
    assert [rule.name for rule in load_rules(file).rules] == ["stopped"]
    pod = pod_of(ALL, "alerts")
    (name,) = config["data"]
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted["rules"] == "/etc/coordinator-state"
    assert name == "alerts.yaml"
    assert mounted["secrets"] == "/run/secrets/alerts"


@long
def test_helm_test_asks_the_services() -> None:
    found = manifests(LEAST)
    (test,) = (one for one in found if one["kind"] == "Pod")
    (container,) = test["spec"]["containers"]
    compile(container["command"][-1], "test", "exec")
    services = {
        f"{one['metadata']['name']}:{port['port']}"
        for one in of_kind(found, "Service").values()
        for port in one["spec"]["ports"]
    }
    assert {url.split("/")[2] for url in container["args"]} == services
    # It mounts no volume, and its labels select it for no Service.
    assert test["metadata"]["labels"]["app.kubernetes.io/name"] == "coordinator-state-test"


@long
def test_the_example_of_the_docs_is_what_helm_prints(repository: Path) -> None:
    page = (repository / "docs" / "kubernetes.md").read_text()
    (example,) = re.findall(r"```yaml\n# values\.yaml\n(.*?)```", page, re.DOTALL)
    values = load(example)
    told = re.findall(r"^(\w+)/(kafka-\S+)$", page, re.MULTILINE)
    assert told == [(one["kind"], one["metadata"]["name"]) for one in manifests(values)]
    answer = helm("lint", "--strict", values=values)
    assert answer.returncode == 0, answer.stdout
    # Helm itself says which release it is.
    (release,) = re.findall(r"Helm (\d+\.\d+)", page)
    version = subprocess.run(
        [go_programs() / "helm", "version", "--short"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith(f"v{release}")
