"""The Helm chart in deploy/helm: its values for tests, its manifests, and their command lines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import pytest
from ruamel.yaml import YAML

from tests.support.clients.command_line import COMMANDS
from tests.support.deploy.go_programs import go_programs

Manifest = dict[str, Any]
Values = dict[str, Any]

CHART: Final = Path(__file__).parents[3] / "deploy" / "helm"
RELEASE: Final = "kafka"
NAMESPACE: Final = "monitoring"
USER: Final = 1000
"""The user of the image and of the pods."""

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


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
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
    return of_kind(manifests(values), "Deployment")


def container_of(deployment: Manifest) -> Manifest:
    """The only container of a Deployment."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


def parameters(command: Sequence[str]) -> dict[str, Any]:
    """The parameters of a container's command line, as the program's own parser reads them."""
    name, *words = command
    if isinstance(COMMANDS[name], click.Group):
        name = f"{name} {words.pop(0)}"
    with COMMANDS[name].make_context(name, words) as context:
        return context.params
