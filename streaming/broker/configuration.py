"""The files and the command line of an embedded broker: properties, logging, ports, JVM."""

from __future__ import annotations

import base64
import random
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path

from streaming.errors import ConfigurationError

HOST = "127.0.0.1"

_HEAP = ("-Xms256m", "-Xmx1g")
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


def broker_properties(
    *, port: int, controller_port: int, log_dir: Path, overrides: Mapping[str, object]
) -> dict[str, object]:
    """Return the properties of a broker that is its own controller and has no other beside it.

    The internal topics get one replica each; `__consumer_offsets` keeps its default partition
    count (50), by which clients and tables are laid out.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
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


def format_command(java: Path, jars: list[Path], folder: Path) -> list[str]:
    """Return the command that gives a new cluster id to the storage, like kafka-storage.sh."""
    # Kafka's Uuid is base64 without padding; a leading dash would be taken for an option.
    cluster_id = base64.urlsafe_b64encode(b"\x40" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    configuration = str(folder / "server.properties")
    arguments = ("format", "--cluster-id", cluster_id, "--config", configuration)
    return [*_jvm(java, jars, folder), "kafka.tools.StorageTool", *arguments]


def broker_command(java: Path, jars: list[Path], folder: Path) -> list[str]:
    """Return the command that runs the broker, like kafka-server-start.sh."""
    return [*_jvm(java, jars, folder), "kafka.Kafka", str(folder / "server.properties")]


def free_port(but_not: int | None = None) -> int:
    """Choose a port that is free now; losing a race for it shows as the broker's bind failure."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port != but_not and is_free(port):
            return port
    raise ConfigurationError(
        f"no free port from {_PORTS.start} to {_PORTS.stop - 1} on {HOST}: end what occupies them"
    )


def is_free(port: int) -> bool:
    """Whether nobody listens on the port; connections of a former listener do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _jvm(java: Path, jars: list[Path], folder: Path) -> list[str]:
    return [
        str(java),
        *_HEAP,
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
        *("-cp", ":".join(map(str, jars))),
    ]
