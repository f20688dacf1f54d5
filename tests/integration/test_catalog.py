"""Tables in a schema of a Hive metastore: `run` makes and writes them, others read them by name."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from streaming.jvm.jars import delta_jars
from streaming.local.broker.configuration import HOST, free_port
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.spark_daemon import SPARK_BIN, configure, daemon, environment_of
from tests.support.clients.installed_command import run_command

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(900)]

SCHEMA = "spark_catalog.kafka"
GROUP, TOPIC = "catalog-payments", "catalog-orders"

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


def run(broker: EmbeddedBroker, metastore: Metastore, *options: str) -> str:
    """Run to the end of the log; return its log lines."""
    done = run_command(
        *("run", "--bootstrap-servers", broker.bootstrap_servers, "--available-now"),
        *("--verbose", *options),
        env=metastore.environment,
    )
    assert done.returncode == 0, done.stderr
    assert "does not match the tables" not in done.stderr
    return done.stderr


def last_writer(table: str) -> str:
    """The engine that wrote the newest version of a table with rows."""
    (newest, *_) = (
        action
        for action in DeltaTable(table).history()
        if action["operation"] in ("MERGE", "WRITE")
    )
    return str(newest["engineInfo"])


def read_with_duckdb(tables: str) -> list[tuple[int]]:
    files = DeltaTable(f"{tables}/group_offsets").file_uris()
    rows: list[tuple[int]] = duckdb.execute(
        "SELECT committed_offset FROM read_parquet($files) WHERE group_id = $group",
        {"files": files, "group": GROUP},
    ).fetchall()
    return rows


def test_tables_of_a_metastore(broker: EmbeddedBroker, tmp_path: Path) -> None:
    metastore = Metastore.create(tmp_path / "metastore")
    tables = str(metastore.folder / "wh" / "kafka.db")
    create_topic(broker, TOPIC)

    for number, engine in enumerate(("auto", "driver"), 1):
        commit(broker, GROUP, TOPIC, number)
        log = run(broker, metastore, "--tables", SCHEMA, "--engine", engine)
        assert f"the tables of {SCHEMA} are in {tables}" in log
        assert ("engine spark: the tables are in a catalog" in log) == (engine == "auto")
        by_spark = "Apache-Spark" in last_writer(f"{tables}/group_offsets")
        assert by_spark == (engine == "auto")
        assert read_with_duckdb(tables) == [(number,)]
    history = DeltaTable(f"{tables}/offset_commits").to_pyarrow_table(
        filters=[("group_id", "=", GROUP)]
    )
    assert sorted(history["committed_offset"].to_pylist()) == [1, 2]
    assert (metastore.folder / "wh" / "checkpoints" / "kafka.db").is_dir()

    folder = str(tmp_path / "folder")
    run(broker, metastore, "--tables", folder, "--catalog", "monitoring")
    with thrift_server(metastore) as server:
        # Tables and a view of both databases.
        select = " UNION ALL ".join(
            f"SELECT committed_offset FROM {database}.group_offsets "  # noqa: S608
            f"JOIN {database}.simple_groups USING (group_id) WHERE group_id = '{GROUP}'"
            for database in ("kafka", "monitoring")
        )
        assert server.sql(select) == [{"committed_offset": "2"}] * 2
        # A view that one session makes for all.
        server.sql(
            "CREATE GLOBAL TEMPORARY VIEW group_lag USING coordinator_state "
            f"OPTIONS (path '{folder}', view 'group_lag')"
        )
        select = "SELECT committed_offset, lag FROM global_temp.group_lag"
        (row,) = server.sql(f"{select} WHERE group_id = '{GROUP}'")
        assert row == {"committed_offset": "2", "lag": "0"}
