"""Spark's own Thrift server and Hive's beeline, both from pyspark's jars: SQL over JDBC."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streaming.jvm.jars import delta_jars
from streaming.local.broker.configuration import HOST, free_port
from tests.support.brokers.spark_daemon import SPARK_BIN, configure, daemon, environment_of

_LIMIT_S = 120
_UP = "ThriftBinaryCLIService on port"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(frozen=True)
class Metastore:
    """A folder of Spark's configuration with a Hive metastore of its own (Derby, one process)."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Metastore:
        """Write hive-site.xml; the database is made by who opens it first."""
        configure(folder, "org.apache.hive.service.cli.thrift")
        address = f"jdbc:derby:;databaseName={folder / 'metastore_db'};create=true"
        (folder / "hive-site.xml").write_text(
            "<configuration><property><name>javax.jdo.option.ConnectionURL</name>"
            f"<value>{address}</value></property></configuration>"
        )
        (folder / "spark-defaults.conf").write_text(f"spark.sql.warehouse.dir {folder / 'wh'}\n")
        return cls(folder)

    @property
    def environment(self) -> dict[str, str]:
        """For processes that are to use it."""
        return environment_of(self.folder)


@dataclass(frozen=True)
class ThriftServer:
    """A server that accepts connections."""

    port: int
    metastore: Metastore

    def sql(self, statement: str) -> list[dict[str, str]]:
        """What a JDBC session of its own gets for a statement."""
        done = subprocess.run(
            [
                *(str(SPARK_BIN / "beeline"), "--silent=true", "--outputformat=csv2"),
                *("-u", f"jdbc:hive2://{HOST}:{self.port}/", "-e", statement),
            ],
            env=self.metastore.environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # The prompt is printed before the first line.
        lines = [line.rpartition("/> ")[2] for line in done.stdout.splitlines()]
        return list(csv.DictReader(line for line in lines if line.strip()))


@contextmanager
def thrift_server(metastore: Metastore) -> Iterator[ThriftServer]:
    """Start a server as an operator would, with Delta's jars on its class path."""
    port = free_port()
    command = [
        *(str(SPARK_BIN / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"),
        *("--driver-class-path", ":".join(str(jar) for jar in delta_jars())),
        *(part for name, value in _CONF.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
        *("--hiveconf", f"hive.server2.thrift.port={port}"),
        *("--hiveconf", f"hive.server2.thrift.bind.host={HOST}"),
    ]
    with daemon(command, _UP, env=metastore.environment, folder=metastore.folder):
        yield ThriftServer(port, metastore)
