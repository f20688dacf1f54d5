"""The Helm chart in deploy/helm, by Helm itself, Kubernetes' schemas and the program's own parser.

The tests need Go, which builds Helm in minutes, and are skipped without it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from streaming.alerts.rules import load_rules
from streaming.dashboard.app import create_app
from streaming.http.access import Access
from streaming.kafka.secrets import is_secret
from streaming.run.settings import RunSettings
from tests.support.browser.html import client_of
from tests.support.deploy.chart import CHART, USER, parameters
from tests.support.deploy.go_programs import go_programs
from tests.support.deploy.packages import deploy_packages

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

KUBERNETES_VERSIONS = ("1.25.0", "1.37.0")
"""The oldest that Chart.yaml admits, and a new one."""
# No schema has the Prometheus operator's kinds; two tests below compare their fields.
OPERATOR_KINDS = {"ServiceMonitor", "PrometheusRule"}
EVERY_PART = {"materializer", "dashboard", "metrics", "alerts"}

Manifest = dict[str, Any]
Values = dict[str, Any]

RELEASE: Final = "kafka"
NAMESPACE: Final = "monitoring"

LEAST: Final[Values] = {
    "image": {"repository": "registry.example.org/coordinator-state"},
    "bootstrapServers": "kafka:9092",
    "dashboard": {"token": {"secretName": "page-token"}},
}
"""The values without a default."""
ALL: Final[Values] = {
    "image": {"repository": "registry.example.org/cs", "tag": "1", "pullSecrets": ["pull"]},
    "bootstrapServers": "kafka-1:9093,kafka-2:9093",
    "kafka": {
        "secretName": "kafka-login",
        "properties": {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.plain.username": "materializer",
            "sasl.plain.password.file": "/run/secrets/kafka/password",
            "ssl.check.hostname": True,
        },
    },
    "materializer": {
        "options": {
            "trigger": "5 seconds",
            "max-records-per-trigger": 2_000_000,
            "change-data-feed": True,
            "external": ["orders-etl=spark:s3a://lake/orders", "clicks-etl=spark:/data/clicks"],
        }
    },
    "dashboard": {
        "token": {"secretName": "page-token", "key": "secret"},
        "authHeader": "X-Forwarded-User",
        "allowedHosts": ["page.example.org"],
        "options": {"refresh": "10s"},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "host": "kafka.example.org",
            "tlsSecretName": "page-tls",
            "annotations": {"a": "b"},
        },
    },
    "metrics": {"options": {"by": "topic", "max-series": 20_000}},
    "alerts": {
        "enabled": True,
        "secretName": "sinks",
        "rules": {
            "sinks": {"chat": {"type": "slack", "url": "${file:/run/secrets/alerts/slack_url}"}},
            "rules": [{"name": "stopped", "status": ["STOP", "STALL"], "severity": "critical"}],
        },
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {
        "dashboardFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress-nginx"}}}],
        "metricsFrom": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "p"}}}],
        "egress": [{"ports": [{"port": 9093}]}],
    },
    "serviceAccount": {"name": "account", "annotations": {"eks.amazonaws.com/role-arn": "r"}},
    "extraEnv": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "podAnnotations": {"a": "b"},
}
"""Every part of the chart, and every list and map with a member."""
STORE: Final[Values] = {
    **LEAST,
    "tables": {"location": "s3://bucket/tables", "secretName": "store-login"},
    "dashboard": {"authHeader": "X-Forwarded-User"},
    "metrics": {"enabled": False},
    "networkPolicy": {"enabled": False},
    "serviceAccount": {"create": False},
}
"""Tables in an object store; fewer parts."""
SHARED_VOLUME: Final[Values] = {
    **LEAST,
    "persistence": {"existingClaim": "claim", "accessModes": ["ReadWriteMany"]},
    "dashboard": {"enabled": False},
    "logFormat": "text",
}
VALUE_SETS: Final = {"least": LEAST, "all": ALL, "store": STORE, "shared volume": SHARED_VOLUME}

every_value_set = pytest.mark.parametrize("name", VALUE_SETS)


def values_with(changes: Values) -> Values:
    """The least values with changes."""
    return {**LEAST, **changes}


def helm(*arguments: str | Path, values: Values) -> subprocess.CompletedProcess[str]:
    """Run Helm's command on the chart with values."""
    command, *rest = arguments
    return subprocess.run(
        [go_programs() / "helm", command, *rest, CHART, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rendered(values: Values, kubernetes_version: str = "1.37.0") -> str:
    """The manifests of `helm template`, as YAML."""
    return _rendered(json.dumps(values), kubernetes_version)


@cache
def _rendered(values: str, kubernetes_version: str) -> str:
    answer = helm(
        *("template", RELEASE, "--namespace", NAMESPACE, "--kube-version", kubernetes_version),
        values=json.loads(values),
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def manifests(values: Values) -> list[Manifest]:
    """The manifests, as data."""
    documents = YAML(typ="safe", pure=True).load_all(rendered(values))
    return [document for document in documents if document is not None]


def manifests_by_name(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """The manifests of a kind by their component."""
    return {
        manifest["metadata"]["labels"].get("app.kubernetes.io/component", ""): manifest
        for manifest in manifests
        if manifest["kind"] == kind
    }


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The specification of each pod, by the name of its Deployment or its own."""
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            yield manifest["metadata"]["name"], manifest["spec"]["template"]["spec"]
        elif manifest["kind"] == "Pod":
            yield manifest["metadata"]["name"], manifest["spec"]


def deployments_of(values: Values) -> dict[str, Manifest]:
    """The Deployments by their part."""
    return manifests_by_name(manifests(values), "Deployment")


def container_of(deployment: Manifest) -> Manifest:
    """The only container of a Deployment."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


def load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


# --- manifests -----------------------------------------------------------------------------------


def parameters_of(deployment: Manifest) -> dict[str, Any]:
    return parameters(container_of(deployment)["args"])


@every_value_set
def test_every_manifest_fits_the_schemas_of_kubernetes(name: str, tmp_path: Path) -> None:
    for version in KUBERNETES_VERSIONS:
        text = rendered(VALUE_SETS[name], version)
        files = []
        for number, manifest in enumerate(text.split("\n---\n")):
            if not OPERATOR_KINDS & set(re.findall(r"^kind: (\w+)", manifest, re.M)):
                files.append(tmp_path / f"{number}.yaml")
                files[-1].write_text(manifest)
        command = (deploy_packages() / "kubernetes-validate", "--strict", "--quiet", "-k", version)
        answer = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_command_lines_are_those_of_the_program() -> None:
    deployments = deployments_of(ALL)
    assert deployments.keys() == EVERY_PART
    run = parameters_of(deployments["materializer"])
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
    page = parameters_of(deployments["dashboard"])
    assert page["tables"] == {"tables": "/data/tables"}
    assert (page["browser"], page["refresh"]) == (False, 10.0)
    service = f"{RELEASE}-coordinator-state-dashboard"
    assert page["allowed_host"] == (
        *(service, f"{service}.{NAMESPACE}", f"{service}.{NAMESPACE}.svc"),
        *("kafka.example.org", "page.example.org"),
    )
    metrics = parameters_of(deployments["metrics"])
    assert (metrics["by"], metrics["max_series"]) == ("topic", 20_000)
    alerts = parameters_of(deployments["alerts"])
    assert alerts["rules_file"] == "/etc/coordinator-state/alerts.yaml"


@every_value_set
def test_every_part_listens_for_others_where_its_port_and_probes_are(name: str) -> None:
    for part, deployment in deployments_of(VALUE_SETS[name]).items():
        container = container_of(deployment)
        probes = probes_of(container)
        if part == "alerts":
            assert not probes
            continue
        given = parameters_of(deployment)
        prefix = "http_" if part == "materializer" else ""
        assert given[f"{prefix}host"] == "0.0.0.0"  # noqa: S104 - in a pod
        (port,) = container["ports"]
        assert port["containerPort"] == given[f"{prefix}port"]
        assert len(probes) >= 2
        for probe in probes.values():
            assert probe.get("httpGet", probe.get("tcpSocket"))["port"] == port["name"]


def probes_of(container: Manifest) -> dict[str, Any]:
    return {key: value for key, value in container.items() if key.endswith("Probe")}


def test_the_probes_of_the_materializer_are_its_health_and_readiness() -> None:
    probes = probes_of(container_of(deployments_of(LEAST)["materializer"]))
    assert {name: probe["httpGet"]["path"] for name, probe in probes.items()} == {
        "startupProbe": "/health",
        "livenessProbe": "/health",
        "readinessProbe": "/ready",
    }


def test_the_probes_of_the_page_are_answered_without_a_token(status_tables: str) -> None:
    # With a token, and with a token and a proxy.
    for values in (LEAST, ALL):
        access = Access("0.0.0.0", "t" * 16, values["dashboard"].get("authHeader"))  # noqa: S104
        page = client_of(create_app({"tables": status_tables}, access=access))
        for probe in probes_of(container_of(deployments_of(values)["dashboard"])).values():
            headers = {
                header["name"]: header["value"]
                for header in probe["httpGet"].get("httpHeaders", ())
            }
            # kubelet sends the address of the pod in `Host`.
            path, address = probe["httpGet"]["path"], "http://10.0.0.7:8050"
            assert page.get(f"{address}{path}", headers=headers).status_code == 200
    # Without a token its sign-in page leads to the overview, which reads tables; kubelet follows.
    probes = probes_of(container_of(deployments_of(STORE)["dashboard"]))
    for name in ("livenessProbe", "readinessProbe"):
        assert probes[name]["tcpSocket"] == {"port": "http"}


def test_pods_share_a_node_where_one_node_alone_can_mount_the_volume() -> None:
    for values in (LEAST, SHARED_VOLUME, STORE):
        for deployment in deployments_of(values).values():
            pod = deployment["spec"]["template"]
            assert ("affinity" in pod["spec"]) == (values is LEAST)
            if values is LEAST:
                affinity = pod["spec"]["affinity"]["podAffinity"]
                (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
                # It selects the pod itself, so that the first pod can be scheduled.
                labels = term["labelSelector"]["matchLabels"].items()
                assert labels <= pod["metadata"]["labels"].items()


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


def test_the_prometheus_rule_has_the_rules_of_deploy(repository: Path) -> None:
    """Helm reads only files inside the chart. After a change, copy the file into deploy/helm."""
    (rule,) = (manifest for manifest in manifests(ALL) if manifest["kind"] == "PrometheusRule")
    assert rule["spec"] == load((repository / "deploy" / "prometheus-rules.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"


@every_value_set
def test_services_monitors_and_policies_lead_to_ports_of_pods(name: str) -> None:
    documents = manifests(VALUE_SETS[name])
    labels, ports = {}, {}
    for part, deployment in manifests_by_name(documents, "Deployment").items():
        labels[part] = deployment["spec"]["template"]["metadata"]["labels"].items()
        ports[part] = {port["name"] for port in container_of(deployment).get("ports", ())}
    services = manifests_by_name(documents, "Service")
    for part, service in services.items():
        assert service["spec"]["selector"].items() <= labels[part]
        assert {port["targetPort"] for port in service["spec"]["ports"]} == ports[part]
    for part, policy in manifests_by_name(documents, "NetworkPolicy").items():
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels[part]
        rules = policy["spec"]["ingress"]
        assert {port["port"] for rule in rules for port in rule.get("ports", ())} == ports[part]
    for monitor in manifests_by_name(documents, "ServiceMonitor").values():
        assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
        assert monitor["spec"].keys() == {"selector", "endpoints"}
        assert monitor["spec"]["selector"].keys() == {"matchLabels", "matchExpressions"}
        (choice,) = monitor["spec"]["selector"]["matchExpressions"]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint.keys() == {"port", "interval"}
        for part in choice["values"]:
            assert endpoint["port"] in {port["name"] for port in services[part]["spec"]["ports"]}


def test_the_rules_of_alerts_are_a_rules_file(tmp_path: Path) -> None:
    (config,) = manifests_by_name(manifests(ALL), "ConfigMap").values()
    (tmp_path / "slack_url").write_text("https://hooks.slack.com/x")
    file = tmp_path / "alerts.yaml"
    (text,) = config["data"].values()
    file.write_text(text.replace("/run/secrets/alerts", str(tmp_path)))
    assert [rule.name for rule in load_rules(file).rules] == ["stopped"]
    assert [*config["data"]] == ["alerts.yaml"]
    mounts = container_of(deployments_of(ALL)["alerts"])["volumeMounts"]
    mounted = {mount["name"]: mount["mountPath"] for mount in mounts}
    assert mounted["rules"] == "/etc/coordinator-state"
    assert mounted["secrets"] == "/run/secrets/alerts"


def test_helm_test_asks_the_services() -> None:
    documents = manifests(LEAST)
    (test,) = (manifest for manifest in documents if manifest["kind"] == "Pod")
    (container,) = test["spec"]["containers"]
    compile(container["command"][-1], "test", "exec")
    services = {
        f"{manifest['metadata']['name']}:{port['port']}"
        for manifest in manifests_by_name(documents, "Service").values()
        for port in manifest["spec"]["ports"]
    }
    assert {url.split("/")[2] for url in container["args"]} == services
    # It mounts no volume, and its labels select it for no Service.
    assert test["metadata"]["labels"]["app.kubernetes.io/name"] == "coordinator-state-test"


def test_the_example_of_the_docs_is_what_helm_prints(repository: Path) -> None:
    page = (repository / "docs" / "kubernetes.md").read_text()
    (example,) = re.findall(r"```yaml\n# values\.yaml\n(.*?)```", page, re.DOTALL)
    values = load(example)
    printed = re.findall(r"^(\w+)/(kafka-\S+)$", page, re.MULTILINE)
    assert printed == [
        (manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests(values)
    ]
    answer = helm("lint", "--strict", values=values)
    assert answer.returncode == 0, answer.stdout
    # Helm itself says which release it is.
    (release,) = re.findall(r"Helm (\d+\.\d+)", page)
    version = subprocess.run(
        [go_programs() / "helm", "version", "--short"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith(f"v{release}")


# --- what pods may do, and how they get secrets --------------------------------------------------


@every_value_set
def test_every_pod_has_the_restricted_profile(name: str) -> None:
    """As the pod security standards of Kubernetes define it, with a read-only root besides.

    It has no login to Kubernetes. A Service `coordinator-state` would set COORDINATOR_STATE_PORT,
    the variable of `--port`.
    """
    documents = manifests(VALUE_SETS[name])
    assert len(dict(pods(documents))) > 1
    for _, pod in pods(documents):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        pod_context = pod["securityContext"]
        assert pod_context["runAsNonRoot"] is True
        assert (pod_context["runAsUser"], pod_context["runAsGroup"]) == (USER, USER)
        assert pod_context["seccompProfile"] == {"type": "RuntimeDefault"}
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
    for account in manifests_by_name(documents, "ServiceAccount").values():
        assert account["automountServiceAccountToken"] is False


@every_value_set
def test_a_part_that_writes_has_a_volume_and_one_replica(name: str) -> None:
    for part, deployment in deployments_of(VALUE_SETS[name]).items():
        if part in ("materializer", "alerts"):
            assert deployment["spec"]["replicas"] == 1
            assert deployment["spec"]["strategy"] == {"type": "Recreate"}
        pod = deployment["spec"]["template"]["spec"]
        container = container_of(deployment)
        mounts = {
            mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]
        }
        assert mounts["/tmp"] is False  # noqa: S108 - in the pod
        assert pod["securityContext"]["fsGroup"] == USER
        environment = {variable["name"]: variable.get("value") for variable in container["env"]}
        given = parameters_of(deployment)
        if part == "materializer":
            assert mounts["/data"] is False
            assert environment["NUMBA_CACHE_DIR"].startswith("/data/")
            assert given["checkpoint"].startswith("/data/")
        elif "tables" in VALUE_SETS[name]:
            assert "/data" not in mounts
        else:
            assert mounts["/data"] is (part != "alerts")
        location = VALUE_SETS[name].get("tables", {}).get("location", "/data/tables")
        assert given["tables"] in (location, {"tables": location})
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_secrets_are_references() -> None:
    values = ALL | {"tables": STORE["tables"]}
    assert "Secret" not in {manifest["kind"] for manifest in manifests(values)}
    references: dict[str, set[str]] = {}
    for part, deployment in deployments_of(values).items():
        text = json.dumps(deployment)
        references[part] = set(
            re.findall(r'"(?:secretName|name)": "(kafka-login|page-token|sinks|store-login)"', text)
        )
        literal = {
            variable["name"] for variable in container_of(deployment)["env"] if "value" in variable
        }
        assert literal <= {"COORDINATOR_STATE_LOG_FORMAT", "AWS_REGION", "NUMBA_CACHE_DIR"}
    assert references == {
        "materializer": {"kafka-login", "store-login"},
        "dashboard": {"page-token", "store-login"},
        "metrics": {"store-login"},
        "alerts": {"sinks", "store-login"},
    }


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


def test_outgoing_traffic_is_restricted_on_request_only() -> None:
    for values, kinds in ((LEAST, ["Ingress"]), (ALL, ["Ingress", "Egress"])):
        policies = manifests_by_name(manifests(values), "NetworkPolicy")
        assert policies.keys() == deployments_of(values).keys()
        for policy in policies.values():
            assert policy["spec"]["policyTypes"] == kinds
    dns, brokers = policies["materializer"]["spec"]["egress"]
    assert [port["port"] for port in dns["ports"]] == [53, 53]
    assert brokers == ALL["networkPolicy"]["egress"][0]
