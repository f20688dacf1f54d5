"""The configuration files, ports and command lines of an embedded broker."""

from __future__ import annotations

import base64
import random
import socket
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from streaming.errors import ConfigurationError

HOST = "127.0.0.1"

BROKER = "broker"
CONTROLLER = "controller"

_HEAP = ("-Xms256m", "-Xmx1g")
_CLUSTER_HEAP = ("-Xms64m", "-Xmx1g")
# Below the ephemeral ports of Linux (32768) and macOS (49152): while the broker is down, no client
# socket can occupy the port that the broker needs at its next start.
_PORTS = range(20_000, 32_000)

# Kafka logs to standard output, together with the messages of the JVM.
_LOG4J_2 = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
_LOG4J_1 = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """One node of a cluster with several nodes.

    Attributes:
        cluster_id: the cluster id in Kafka's text form, the same for all nodes.
        node_id: the id of this node.
        role: `broker` or `controller`.
        controller_id: the node id of the only controller.
        controller_port: the port of the controller.
    """

    cluster_id: str
    node_id: int
    role: str
    controller_id: int
    controller_port: int


def broker_properties(
    *,
    port: int,
    controller_port: int,
    log_dir: Path,
    overrides: Mapping[str, object],
    node: ClusterNode | None = None,
) -> dict[str, object]:
    """Return the properties of a broker.

    Without `node` the broker is its own controller and the only node. Internal topics get one
    replica each. `__consumer_offsets` keeps its default of 50 partitions, because clients and
    tables depend on that count.
    """
    client_listener = f"PLAINTEXT://{HOST}:{port}"
    controller_listener = f"CONTROLLER://{HOST}:{controller_port}"
    if node is None:
        own: dict[str, object] = {
            "process.roles": f"{BROKER},{CONTROLLER}",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"{client_listener},{controller_listener}",
            "advertised.listeners": client_listener,
        }
    else:
        is_broker = node.role == BROKER
        own = {
            "process.roles": node.role,
            "node.id": node.node_id,
            "controller.quorum.voters": f"{node.controller_id}@{HOST}:{node.controller_port}",
            "listeners": client_listener if is_broker else controller_listener,
        }
    return {
        **own,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": log_dir,
        "num.partitions": 2,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 2,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 2,
        # After a crash the controller considers the broker alive for this time (default 9 s).
        "broker.session.timeout.ms": 6_000,
        "group.initial.rebalance.delay.ms": 0,
        **overrides,
    }


def write_configuration(folder: Path, properties: Mapping[str, object]) -> None:
    """Write server.properties and the logging configuration of Kafka 4 and of Kafka 3."""
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    (folder / "server.properties").write_text(lines)
    (folder / "log4j2.properties").write_text(_LOG4J_2)
    (folder / "log4j.properties").write_text(_LOG4J_1)


def new_cluster_id() -> str:
    """A random id in Kafka's text form: base64 without padding."""
    # The fixed first byte avoids a leading dash, which would be parsed as an option.
    return base64.urlsafe_b64encode(b"\x40" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


def format_command(
    java: Path,
    jars: list[Path],
    folder: Path,
    node: ClusterNode | None,
    features: Mapping[str, int],
) -> list[str]:
    """Return the command that formats the storage with a cluster id, like kafka-storage.sh."""
    cluster_id = new_cluster_id() if node is None else node.cluster_id
    configuration = str(folder / "server.properties")
    arguments = ["format", "--cluster-id", cluster_id, "--config", configuration]
    for name, level in features.items():
        arguments += ["--feature", f"{name}={level}"]
    return [*_jvm(java, jars, folder, node), "kafka.tools.StorageTool", *arguments]


def broker_command(
    java: Path, jars: list[Path], folder: Path, node: ClusterNode | None = None
) -> list[str]:
    """Return the command that runs the broker, like kafka-server-start.sh."""
    return [*_jvm(java, jars, folder, node), "kafka.Kafka", str(folder / "server.properties")]


def free_port(exclude: Collection[int] = ()) -> int:
    """Choose a port that is free now. If another process takes it first, the broker cannot bind."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in exclude and is_free(port):
            return port
    raise ConfigurationError(
        f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {HOST}: stop the programs that "
        "use them"
    )


def is_free(port: int) -> bool:
    """Whether no process listens on the port; connections of an earlier listener are ignored."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _jvm(java: Path, jars: list[Path], folder: Path, node: ClusterNode | None) -> list[str]:
    return [
        str(java),
        *(_HEAP if node is None else _CLUSTER_HEAP),
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        *("-cp", ":".join(map(str, jars))),
    ]
