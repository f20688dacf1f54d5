"""A record that no count tells of: it is a number in the tables, a metric and a line of the log."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.log_partitions import Applied, apply_collected
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_value
from streaming.dashboard.app import create_app
from streaming.engine.driver import driver_engine
from streaming.engine.progress import ProgressEvent
from streaming.metrics.collector import TablesCollector
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, PENDING_OFFSETS
from tests.support.browser.html import client_of
from tests.support.clients.command_line import call, json_lines
from tests.support.logs.log_rows import (
    LOG_PARTITION,
    Row,
    commit,
    marker,
    progress_row,
    record,
    table_of,
)
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import ENGINES, SPARK_ENGINE, Crash, start_apply

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOST = "a kind of row that nobody counts"


@pytest.fixture
def tables(tmp_path: Path) -> str:
    folder = str(tmp_path / "tables")
    create(folder)
    return folder


def apply_rows(
    tables: str,
    batch_id: int,
    from_offset: int,
    *rows: Row,
    fault: str = "",
    spark: SparkSession | None = None,
) -> ProgressEvent | None:
    """One micro-batch of a new process; `fault` is the table behind which it is killed.

    With a session the engine is `spark`.
    """
    events: list[ProgressEvent] = []
    apply = start_apply(tables, fault=fault, on_progress=events.append, spark=spark)
    report = progress_row(from_offset, from_offset + len(rows))
    try:
        apply.apply(table_of([*rows, report]), batch_id, "query")
    except Crash:
        return None
    return events[-1]


def assert_counted(tables: str, *, read: int, applied: int, unaccounted: int) -> None:
    """By the command line, the metric and the page."""
    (row,) = json_lines(call("show", "progress", "--tables", tables, "--output", "json"))
    counts = (row["records_read"], row["records_applied"], row["records_unaccounted"])
    assert counts == (read, applied, unaccounted)
    registry = CollectorRegistry()
    registry.register(TablesCollector(tables=tables))
    name = "coordinator_state_records_unaccounted_total"
    assert registry.get_sample_value(name, {"cluster_name": "c"}) == unaccounted
    page = client_of(create_app({"c": tables})).get("/c/c/health").text
    wrong = f"record counts of log partitions {LOG_PARTITION} do not add up"
    assert (wrong if unaccounted else 'class="status good">equal') in page


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("engine_session", ENGINES, indirect=True)
def test_what_is_counted_adds_up(
    tables: str, engine_session: SparkSession | None, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = commit(1, 2, producer_id=9)
    apply_rows(tables, 0, 0, commit(0, 1), waiting, spark=engine_session)
    # What waited is counted with its end, not with the marker's micro-batch a second time.
    event = apply_rows(tables, 1, 2, marker(2, 9), commit(3, None), spark=engine_session)

    assert event is not None
    assert event.records_unaccounted_total == 0
    # Of a key, the record that wins is applied.
    assert_counted(tables, read=4, applied=3, unaccounted=0)
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("engine_session", "fault"),
    [
        *(("driver", fault) for fault in ("", PENDING_OFFSETS.name, LOAD_PROGRESS.name)),
        pytest.param(
            "spark", PENDING_OFFSETS.name, marks=(*SPARK_ENGINE.marks, pytest.mark.release)
        ),
    ],
    indirect=["engine_session"],
)
def test_a_record_that_nobody_counts_is_told_once_however_often_it_comes(
    tables: str,
    engine_session: SparkSession | None,
    fault: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lost = [commit(0, 1), {**commit(1, 2), "row_kind": LOST}]
    if fault:
        apply_rows(tables, 0, 0, *lost, fault=fault, spark=engine_session)
        caplog.clear()
    apply_rows(tables, 0, 0, *lost, spark=engine_session)
    # The stream goes on, and says no more of it.
    event = apply_rows(tables, 1, 2, commit(2, 3), spark=engine_session)

    assert event is not None
    assert event.records_unaccounted_total == 1
    assert_counted(tables, read=3, applied=2, unaccounted=1)
    assert TableReader(tables).load_states[LOG_PARTITION].next_offset == 3
    line = (
        f"log partition {LOG_PARTITION}: 2 records read but 1 accounted for, at record offsets "
        "0 to 1"
    )
    # Where it was killed behind load_progress nothing of it is applied again.
    assert said(caplog) == ([] if fault == LOAD_PROGRESS.name else [line])


def test_one_too_many_does_not_make_up_for_one_too_few(
    tables: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_rows(tables, 0, 0, {**commit(0, 2), "row_kind": LOST})

    def counting_one_too_many(*given: Any) -> Applied:
        applied = apply_collected(*given)
        one_more = RecordCounts(applied={LOG_PARTITION: 1})
        return replace(applied, counts=RecordCounts.total([applied.counts, one_more]))

    monkeypatch.setattr(driver_engine, "apply_collected", counting_one_too_many)
    apply_rows(tables, 1, 1, commit(1, 3))

    assert_counted(tables, read=2, applied=2, unaccounted=2)
    assert len(said(caplog)) == 2


def test_records_that_a_broker_would_not_load_do_not_fill_the_log(
    tables: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A client may write any number of them."""
    twice = [{"topicId": UUID(int=1), "partitions": [0]}] * 2
    kind = RECORD_TYPES[7]
    raw_value = encode_value(kind, 0, {"topicPartitions": twice})
    with caplog.at_level(logging.INFO, driver_engine.__name__):
        apply_rows(tables, 0, 0, *(record(n, raw_value, 7, memberId="m") for n in range(1_000)))
    *lines, last = caplog.messages
    assert len(lines) == 10
    assert lines[0].startswith(
        f"log partition {LOG_PARTITION}: a broker would not load record offset 0: Duplicate key "
    )
    assert last == (
        "a broker would not load 990 more records of this micro-batch; their groups have a "
        "replay_warning"
    )
    (group,) = TableReader(tables).read("groups", ["replay_warning"]).to_pylist()
    assert group["replay_warning"].startswith("record offset 999: Duplicate key ")
