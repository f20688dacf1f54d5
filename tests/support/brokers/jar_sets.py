"""Sets of jars that only tests use; `make lock-jars` locks every set anew."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from streaming.jvm.jars import (
    KAFKA_VERSION,
    JarSet,
    cached_jars,
    delta_jar_set,
    kafka_jar_set,
    kafka_jars,
    lock_jars,
    s3_jar_set,
)
from streaming.jvm.maven import Dependency

SCALA_VERSION: Final = "3.9.1"
"""The Kafka whose coordinator is the Scala one."""

_LOCKS: Final = Path(__file__).parent / "jar_locks"
_KAFKA: Final = "org.apache.kafka"


def _alone(organisation: str, revision: str, *modules: str) -> tuple[Dependency, ...]:
    """Modules without their own dependencies."""
    return tuple(
        Dependency(organisation=organisation, module=module, revision=revision, transitive=False)
        for module in modules
    )


# Left out are RocksDB, which an application without state does not load, and Connect's web server.
CLIENTS: Final = JarSet(
    name=f"kafka-clients-of-{KAFKA_VERSION}",
    title=f"Kafka Streams and Connect {KAFKA_VERSION}",
    dependencies=_alone(_KAFKA, KAFKA_VERSION, "kafka-streams", "connect-api", "connect-runtime"),
    locks=_LOCKS,
)
CSV: Final = JarSet(
    name="jackson-dataformat-csv-2.21.7",
    title="Jackson's CSV, with which Kafka's tools read plan files",
    dependencies=_alone("com.fasterxml.jackson.dataformat", "2.21.7", "jackson-dataformat-csv"),
    locks=_LOCKS,
)
"""A broker of Kafka 4.4 has the other parts of Jackson, in this version."""
# Their own dependencies are Spark's, too.
SPARK_KAFKA: Final = JarSet(
    name="spark-sql-kafka-4.2.0",
    title="Spark's connector for Kafka 4.2.0",
    dependencies=(
        *_alone(
            "org.apache.spark",
            "4.2.0",
            "spark-sql-kafka-0-10_2.13",
            "spark-token-provider-kafka-0-10_2.13",
        ),
        *_alone(_KAFKA, "3.9.1", "kafka-clients"),
        *_alone("org.apache.commons", "2.12.1", "commons-pool2"),
    ),
    locks=_LOCKS,
)

RELEASES: Final = (SCALA_VERSION, "4.0.0", "4.1.2", "4.2.0", "4.3.1", KAFKA_VERSION)
"""The Kafka releases whose records the program knows, the newest last."""


def coordinator_jar_set(release: str) -> JarSet:
    """The jars of a release that have the definitions of its coordinators' records."""
    coordinators = ["group", "transaction", *([] if release == SCALA_VERSION else ["share"])]
    return JarSet(
        name=f"kafka-coordinators-{release}",
        title=f"the coordinators of Kafka {release}",
        dependencies=_alone(
            _KAFKA, release, *(f"kafka-{name}-coordinator" for name in coordinators)
        ),
        locks=_LOCKS,
    )


ALL_JAR_SETS: Final = (
    *map(kafka_jar_set, RELEASES),
    delta_jar_set(),
    CLIENTS,
    CSV,
    SPARK_KAFKA,
    s3_jar_set(),
    *map(coordinator_jar_set, RELEASES),
)


def client_jars() -> list[Path]:
    """The jars of Kafka Streams and of Kafka Connect."""
    return cached_jars(CLIENTS)


def tool_jars() -> list[Path]:
    """The jars of Kafka's command line tools."""
    return [*kafka_jars(), *cached_jars(CSV)]


if __name__ == "__main__":
    for jar_set in ALL_JAR_SETS:
        sys.stdout.write(f"{jar_set.lock_file.name}: {lock_jars(jar_set)} jars\n")
