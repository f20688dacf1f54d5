"""The files and the command line of an embedded broker: properties, logging, ports, JVM."""

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
_HEAP_OF_SEVERAL = ("-Xms64m", "-Xmx384m")
# Below the ephemeral range of Linux (32768) and macOS (49152): while the broker is down, no
# client's own end can occupy the port that the broker will need again.
_PORTS = range(20_000, 32_000)

# Everything goes to standard output, where the JVM's own messages go too.
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
    """Which node of a cluster of several a process is.

    Attributes:
        cluster_id: Kafka's text of the id that all nodes have in common.
        node_id: its own.
        role: `broker` or `controller`.
        controller_id: the node id of the cluster's one controller.
        controller_port: where that listens.
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

    Without a `node` it is its own controller and has no other beside it. The internal topics get
    one replica each; `__consumer_offsets` keeps its default partition count (50), by which clients
    and tables are laid out.
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
        # After a crash the controller takes the dead broker for alive that long (default 9 s).
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
    """A random id as Kafka writes ids: base64 without padding."""
    # A leading dash would be taken for an option.
    return base64.urlsafe_b64encode(b"\x40" + uuid.uuid4().bytes[1:]).decode().rstrip("=")


def format_command(
    java: Path, jars: list[Path], folder: Path, node: ClusterNode | None = None
) -> list[str]:
    """Return the command that gives a cluster id to the storage, like kafka-storage.sh."""
    cluster_id = new_cluster_id() if node is None else node.cluster_id
    configuration = str(folder / "server.properties")
    arguments = ("format", "--cluster-id", cluster_id, "--config", configuration)
    return [*_jvm(java, jars, folder, node), "kafka.tools.StorageTool", *arguments]


def broker_command(
    java: Path, jars: list[Path], folder: Path, node: ClusterNode | None = None
) -> list[str]:
    """Return the command that runs the broker, like kafka-server-start.sh."""
    return [*_jvm(java, jars, folder, node), "kafka.Kafka", str(folder / "server.properties")]


def free_port(but_not: Collection[int] = ()) -> int:
    """Choose a port that is free now; losing a race for it shows as the broker's bind failure."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in but_not and is_free(port):
            return port
    raise ConfigurationError(
        f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {HOST}: end what occupies them"
    )


def free_ports(count: int) -> list[int]:
    """Choose several, all different."""
    ports: list[int] = []
    while len(ports) < count:
        ports.append(free_port(but_not=ports))
    return ports


def is_free(port: int) -> bool:
    """Whether nobody listens on the port; connections of a former listener do not count."""
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
        *(_HEAP if node is None else _HEAP_OF_SEVERAL),
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        *("-cp", ":".join(map(str, jars))),
    ]
