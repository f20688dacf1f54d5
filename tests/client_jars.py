"""Jars of Kafka's own applications, beside those of the broker."""

from __future__ import annotations

from pathlib import Path

from streaming.jars import KAFKA_VERSION, Dependency, JarSet, cached_jars

# Their own dependencies are left out: RocksDB, which an application without state does not load,
# and Connect's web server.
_MODULES = ("kafka-streams", "connect-api", "connect-runtime")
_CLIENTS = JarSet(
    name=f"kafka-clients-of-{KAFKA_VERSION}",
    title=f"Kafka Streams and Connect {KAFKA_VERSION}",
    dependencies=tuple(
        Dependency(
            organisation="org.apache.kafka",
            module=module,
            revision=KAFKA_VERSION,
            transitive=False,
        )
        for module in _MODULES
    ),
)


def client_jars() -> list[Path]:
    """The jars of Kafka Streams and of Kafka Connect."""
    return cached_jars(_CLIENTS)
