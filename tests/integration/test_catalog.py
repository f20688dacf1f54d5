"""Tables in a schema of a Hive metastore: `run` makes and writes them, others read them by name."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.verify.verify import verify_cluster
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.thrift_server import Metastore, thrift_server
from tests.support.clients.admin_client import admin_of
from tests.support.clients.installed_command import run_command

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(900)]

SCHEMA = "spark_catalog.kafka"
SELECT = "SELECT committed_offset FROM kafka.group_offsets WHERE group_id = 'payments'"


class Runs:
    """Runs of one broker and one metastore, each to the end of the log."""

    def __init__(self, broker: EmbeddedBroker, metastore: Metastore) -> None:
        self._broker = broker
        self._metastore = metastore
        self.tables = str(metastore.folder / "wh" / "kafka.db")

    def run(self, engine: str) -> str:
        """Run with an engine; return the log."""
        done = run_command(
            *("run", "--bootstrap-servers", self._broker.bootstrap_servers, "--tables", SCHEMA),
            *("--engine", engine, "--available-now", "--verbose"),
            env=self._metastore.environment,
        )
        assert done.returncode == 0, done.stderr
        assert f"the tables of {SCHEMA} are in {self.tables}" in done.stderr
        assert "does not match the tables" not in done.stderr
        return done.stderr

    def last_writer(self, table: str) -> str:
        """The engine that wrote the newest version of a table with rows."""
        (newest, *_) = (
            action
            for action in DeltaTable(f"{self.tables}/{table}").history()
            if action["operation"] in ("MERGE", "WRITE")
        )
        return str(newest["engineInfo"])


def commit(admin: KafkaAdminClient, committed_offset: int) -> None:
    target = TopicPartition("orders", 0)
    admin.alter_group_offsets("payments", {target: OffsetAndMetadata(committed_offset, "", -1)})


def read_with_duckdb(tables: str) -> list[tuple[int]]:
    files = DeltaTable(f"{tables}/group_offsets").file_uris()
    rows: list[tuple[int]] = duckdb.execute(
        "SELECT committed_offset FROM read_parquet($files)", {"files": files}
    ).fetchall()
    return rows


def test_tables_of_a_metastore(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    metastore = Metastore.create(tmp_path / "metastore")
    runs = Runs(broker, metastore)
    with admin_of(broker) as admin:
        admin.create_topics(
            {"orders": {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
        )
        for number, engine in enumerate(("auto", "spark", "driver", "spark"), 1):
            commit(admin, number)
            log = runs.run(engine)
            assert ("engine spark: the tables are in a catalog" in log) == (engine == "auto")
            by_spark = "Apache-Spark" in runs.last_writer("group_offsets")
            assert by_spark == (engine != "driver")
            assert read_with_duckdb(runs.tables) == [(number,)]
    verified = verify_cluster(broker.bootstrap_servers, runs.tables, timeout_s=120)
    assert list(verified.differences) == []
    history = DeltaTable(f"{runs.tables}/offset_commits").to_pyarrow_table()
    assert sorted(history["committed_offset"].to_pylist()) == [1, 2, 3, 4]
    with thrift_server(metastore) as server:
        assert server.sql(SELECT) == [{"committed_offset": "4"}]
        assert {"group_id": "payments"} in server.sql("SELECT group_id FROM kafka.simple_groups")
    assert (metastore.folder / "wh" / "checkpoints" / "kafka.db").is_dir()
