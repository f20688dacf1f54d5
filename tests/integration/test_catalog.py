"""Tables in a schema of a Hive metastore: `run` makes and writes them, others read them by name."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.thrift_server import Metastore, thrift_server
from tests.support.clients.installed_command import run_command

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(900)]

SCHEMA = "spark_catalog.kafka"
GROUP, TOPIC = "catalog-payments", "catalog-orders"
QUESTIONS = [
    (
        f"SELECT committed_offset FROM {database}.group_offsets WHERE group_id = '{GROUP}'",  # noqa: S608
        f"SELECT group_id FROM {database}.simple_groups",  # noqa: S608
    )
    for database in ("kafka", "monitoring")
]


class Runs:
    """Runs of one broker and one metastore, each to the end of the log."""

    def __init__(self, broker: EmbeddedBroker, metastore: Metastore) -> None:
        self._broker = broker
        self._metastore = metastore
        self.tables = str(metastore.folder / "wh" / "kafka.db")

    def run(self, engine: str) -> str:
        """Run into the schema with an engine; return the log."""
        log = self._run("--tables", SCHEMA, "--engine", engine)
        assert f"the tables of {SCHEMA} are in {self.tables}" in log
        return log

    def register(self, folder: str, database: str) -> None:
        """Run into a folder, and name its tables in a database of the metastore."""
        self._run("--tables", folder, "--catalog", database)

    def _run(self, *options: str) -> str:
        done = run_command(
            *("run", "--bootstrap-servers", self._broker.bootstrap_servers, "--available-now"),
            *("--verbose", *options),
            env=self._metastore.environment,
        )
        assert done.returncode == 0, done.stderr
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


def read_with_duckdb(tables: str) -> list[tuple[int]]:
    files = DeltaTable(f"{tables}/group_offsets").file_uris()
    rows: list[tuple[int]] = duckdb.execute(
        "SELECT committed_offset FROM read_parquet($files) WHERE group_id = $group",
        {"files": files, "group": GROUP},
    ).fetchall()
    return rows


def test_tables_of_a_metastore(broker: EmbeddedBroker, tmp_path: Path) -> None:
    metastore = Metastore.create(tmp_path / "metastore")
    runs = Runs(broker, metastore)
    create_topic(broker, TOPIC)
    for number, engine in enumerate(("auto", "driver", "spark"), 1):
        commit(broker, GROUP, TOPIC, number)
        log = runs.run(engine)
        assert ("engine spark: the tables are in a catalog" in log) == (engine == "auto")
        by_spark = "Apache-Spark" in runs.last_writer("group_offsets")
        assert by_spark == (engine != "driver")
        assert read_with_duckdb(runs.tables) == [(number,)]
    verified = verify_cluster(broker.bootstrap_servers, runs.tables, timeout_s=120)
    assert list(verified.differences) == []
    history = DeltaTable(f"{runs.tables}/offset_commits").to_pyarrow_table(
        filters=[("group_id", "=", GROUP)]
    )
    assert sorted(history["committed_offset"].to_pylist()) == [1, 2, 3]
    assert (metastore.folder / "wh" / "checkpoints" / "kafka.db").is_dir()

    folder = str(tmp_path / "folder")
    runs.register(folder, "monitoring")
    with thrift_server(metastore) as server:
        for offsets, groups in QUESTIONS:
            assert server.sql(offsets) == [{"committed_offset": "3"}]
            assert {"group_id": GROUP} in server.sql(groups)
        # A view that one session makes for all.
        server.sql(
            "CREATE GLOBAL TEMPORARY VIEW group_lag USING coordinator_state "
            f"OPTIONS (path '{folder}', view 'group_lag')"
        )
        select = "SELECT committed_offset, lag FROM global_temp.group_lag"
        (row,) = server.sql(f"{select} WHERE group_id = '{GROUP}'")
        assert row == {"committed_offset": "3", "lag": "0"}
