"""Tables in a schema of a Hive metastore: `run` makes and writes them, others read them by name."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.thrift_server import Metastore, thrift_server
from tests.support.clients.installed_command import run_command

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(900)]

SCHEMA = "spark_catalog.kafka"
GROUP, TOPIC = "catalog-payments", "catalog-orders"


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
