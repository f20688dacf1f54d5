"""The whole query on a real broker: a kill, a lost checkpoint, refusals, other readers."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.folder import locked
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.verify.verify import verify_cluster
from streaming.views.offset_fetch import offset_fetch
from tests.support.brokers.commits import commit, committed, create_topic, rows_of_group
from tests.support.brokers.live_run import START_S, live_run
from tests.support.brokers.running_query import run_to_end
from tests.support.clients.admin_client import admin_of
from tests.support.eventually import Eventually
from tests.support.tables.tables_folder import create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TOPIC = "query-orders"


def _answer(tables: Path, group: str) -> int:
    (answer,) = offset_fetch(str(tables), group, [(TOPIC, 0)])
    assert answer.error == "NONE"
    return answer.committed_offset


def test_killed_and_restarted_then_without_its_checkpoint(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    create_topic(broker, TOPIC)
    tables, checkpoint = tmp_path / "tables", tmp_path / "checkpoint"
    commit(broker, "query-a", TOPIC, 1)
    with live_run(tmp_path, "--bootstrap-servers", broker.bootstrap_servers) as run:
        eventually(lambda: committed(tables, "query-a") == [1], START_S)
        commit(broker, "query-a", TOPIC, 2)
        run.kill()
    commit(broker, "query-b", TOPIC, 3)
    run_to_end(broker, spark, tmp_path)
    assert (_answer(tables, "query-a"), _answer(tables, "query-b")) == (2, 3)

    shutil.rmtree(checkpoint)
    commit(broker, "query-a", TOPIC, 4)
    with admin_of(broker) as admin:
        admin.delete_groups(["query-b"])
    run_to_end(broker, spark, tmp_path)
    assert (_answer(tables, "query-a"), _answer(tables, "query-b")) == (4, -1)
    _assert_history_is_whole(tables)
    _assert_other_engines_agree(tables)
    assert verify_cluster(broker.bootstrap_servers, str(tables), timeout_s=120).is_equal

    # Other tables may have the checkpoint: theirs begin at the log start.
    run_to_end(broker, spark, tmp_path / "new", checkpoint=str(checkpoint))
    assert _answer(tmp_path / "new" / "tables", "query-a") == 4


def _assert_history_is_whole(tables: Path) -> None:
    history = [
        row
        for group in ("query-a", "query-b")
        for row in rows_of_group(tables, "offset_commits", group)
    ]
    places = [(row["log_partition"], row["record_offset"]) for row in history]
    assert len(set(places)) == len(places)
    commits = [
        (row["group_id"], row["committed_offset"] or 0, row["is_tombstone"]) for row in history
    ]
    assert sorted(commits) == [
        ("query-a", 1, False),
        ("query-a", 2, False),
        ("query-a", 4, False),
        ("query-b", 0, True),
        ("query-b", 3, False),
    ]
    for row in TableReader(tables).read(LOAD_PROGRESS.name).to_pylist():
        outcomes = ("applied", "superseded", "ignored", "quarantined", "pending")
        assert row["records_read"] == sum(row[f"records_{outcome}"] for outcome in outcomes)


def _assert_other_engines_agree(tables: Path) -> None:
    """DuckDB, over the Parquet files that delta-rs says are the table."""
    opened = DeltaTable(str(tables / "group_offsets"))
    assert (opened.protocol().min_reader_version, opened.protocol().min_writer_version) == (1, 2)
    rows = duckdb.execute(
        "SELECT committed_offset, log_partition FROM read_parquet($files) WHERE group_id = $group",
        {"files": opened.file_uris(), "group": "query-a"},
    ).fetchall()
    assert rows == [(4, partition_for("query-a"))]


@pytest.mark.parametrize(
    ("properties", "settings", "is_locked", "complaint"),
    [
        ({}, {}, True, "another run is writing to"),
        ({"cluster_id": "another"}, {}, False, "cluster"),
        ({"format_version": "1"}, {}, False, "format version 1"),
        ({}, {"semantics": "scala"}, False, "--semantics coordinator"),
        ({}, {"log_partitions": (50,)}, False, "partitions, but no 50"),
    ],
)
def test_a_run_that_does_not_fit_its_tables_is_refused(
    broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    properties: dict[str, str],
    settings: dict[str, Any],
    is_locked: bool,
    complaint: str,
) -> None:
    tables = str(tmp_path / "tables")
    if settings:
        run_to_end(broker, spark, tmp_path)
    else:
        create_tables(Path(tables), **properties)
    with (
        locked(f"file://{tables}") if is_locked else nullcontext(),
        pytest.raises(ConfigurationError, match=complaint) as refused,
    ):
        run_to_end(broker, spark, tmp_path, **settings)
    assert "\n" not in str(refused.value)
