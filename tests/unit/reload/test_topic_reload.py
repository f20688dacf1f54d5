"""How a reload of another internal topic than `__consumer_offsets` begins, and how it ends."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.records.internal_topics import (
    OTHER_TOPICS,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from streaming.kafka.leaders import LogDescription
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import Doubt, LogEnds, find_doubts
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOST_REASON_PREFIX
from streaming.tables.topic_progress import Progress, TopicProgress
from tests.support.logs.log_rows import commit, progress_row, table_of
from tests.support.logs.topic_logs import (
    OF_TOPIC_ID,
    UNKNOWN_TYPE,
    TopicLog,
    follow,
    share_key,
    share_snapshot,
    transaction_key,
    transaction_value,
)
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import Crash, start_apply

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
LOG = LogDescription(
    topic=TRANSACTION_STATE_TOPIC,
    cluster_id="c",
    topic_id=OF_TOPIC_ID,
    leaders={0: (1, 5), 1: (1, 5)},
)
OFFSETS = LogDescription(topic="t", cluster_id="c", topic_id="t", leaders={0: (1, 5)})
LOST = f"{LOST_REASON_PREFIX}some records"
X = transaction_key("x")
COMMIT = [(X, transaction_value(state)) for state in ("Ongoing", "PrepareCommit", "CompleteCommit")]

Logs = dict[tuple[str, int], TopicLog]
Row = dict[str, Any]


def logs() -> Logs:
    """Two log partitions of each topic; the last record of each cannot be decoded."""
    logs_of_topics = {(topic, p): TopicLog(topic, p) for topic in OTHER_TOPICS for p in (0, 1)}
    for (topic, _), log in logs_of_topics.items():
        is_share = topic == SHARE_STATE_TOPIC
        log.append(*([(share_key(), share_snapshot())] * 3 if is_share else COMMIT))
        log.append((UNKNOWN_TYPE, b""))
    return logs_of_topics


class Tables:
    """The tables of these logs, and of a log partition of `__consumer_offsets`."""

    def __init__(self, folder: Path) -> None:
        self.tables = str(folder / "tables")
        self.logs = logs()
        self.start()

    @classmethod
    def loaded(cls, folder: Path) -> Tables:
        """New tables, after a micro-batch of all logs."""
        create(str(folder / "tables"))
        tables = cls(folder)
        tables.micro_batch({place: (0, log.next_offset) for place, log in tables.logs.items()})
        return tables

    def start(self, fault: str = "") -> None:
        """A new process, which is killed after the write of the table of this name."""
        self.apply = start_apply(self.tables, fault=fault)
        follow(self.apply.progress, OTHER_TOPICS)

    def micro_batch(self, ranges: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        """Apply ranges of logs, and one commit with one record that cannot be decoded."""
        at = self.apply.progress.rows[0].next_offset if self.apply.progress.rows else 0
        broken = {**commit(at + 1, 0, log_partition=0), "row_kind": "undecodable", "reason": "r"}
        rows = [self.logs[place].rows(*between) for place, between in ranges.items()]
        own = table_of(
            [commit(at, at, log_partition=0), broken, progress_row(at, at + 2, log_partition=0)]
        )
        self.apply.apply(pa.concat_tables([*rows, own]), 0, "query")

    def reload(self, doubts: dict[int, Doubt], log: LogDescription = LOG) -> None:
        """Begin a reload, and commit it as the start of a query does."""
        progress, writer = self.apply.progress, self.apply.writer
        begin_reload(writer, progress, progress.others[log.topic], doubts, log)
        progress.write_others(writer, NOW)
        progress.write(writer)

    def rows(self, name: str) -> list[Row]:
        rows: list[Row] = TableReader(self.tables).read(name).to_pylist()
        return rows

    def log_partitions(self, name: str) -> list[int]:
        return sorted(row["log_partition"] for row in self.rows(name))

    def events(self, log_partition: int = 0) -> list[tuple[int, str, str]]:
        """The record offset, name and outcome of each event; most have no outcome."""
        return sorted(
            (row["record_offset"], row["event"], row["outcome"] or "")
            for row in self.rows("transaction_events")
            if row["log_partition"] == log_partition
        )

    def quarantined(self) -> list[tuple[str, int, int]]:
        return sorted(
            (row["log_topic"], row["log_partition"], row["record_offset"])
            for row in self.rows("quarantine")
        )

    def progress_row(self, log_partition: int = 0, topic: str = TRANSACTION_STATE_TOPIC) -> Row:
        (row_of_topic,) = (
            row
            for row in self.rows("topic_progress")
            if (row["log_topic"], row["log_partition"]) == (topic, log_partition)
        )
        return row_of_topic


PLACE = (TRANSACTION_STATE_TOPIC, 0)
BEFORE = [(0, "begun", ""), (1, "prepared", ""), (2, "committed", "")]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded")
    assert Tables.loaded(folder).events() == BEFORE
    return folder


@pytest.fixture
def tables(loaded: Path, tmp_path: Path) -> Tables:
    """A copy of the loaded tables."""
    return Tables(Path(shutil.copytree(loaded, tmp_path, dirs_exist_ok=True)))


def test_rows_are_deleted_at_once_and_those_of_other_topics_stay(tables: Tables) -> None:
    unconcerned = ("group_offsets", "offset_commits", "groups", "load_progress", "share_partitions")
    before = {name: tables.rows(name) for name in unconcerned}
    quarantined = tables.quarantined()
    tables.reload({0: Doubt(reason="a reason", kept_below=4)})
    assert tables.log_partitions("transactions") == [1]
    row = tables.progress_row()
    assert (row["state"], row["next_offset"], row["reload_reason"]) == ("loading", 4, "a reason")
    assert (row["reloaded_at"], row["records_read"]) == (None, 0)
    assert tables.progress_row(1)["records_read"] == 4
    assert tables.events() == tables.events(1) == BEFORE
    assert {("__consumer_offsets", 0, 1), (*PLACE, 3), (SHARE_STATE_TOPIC, 0, 3)} < {*quarantined}
    quarantined.remove((*PLACE, 3))
    assert tables.quarantined() == quarantined
    after = {name: tables.rows(name) for name in unconcerned}
    for row in (*before["load_progress"], *after["load_progress"]):
        del row["table_versions"], row["updated_at"], row["writer_epoch"]
    assert after == before
    assert all(before.values())


def test_a_reload_of_offsets_leaves_the_other_topics(tables: Tables) -> None:
    names = ("transactions", "transaction_events", "share_partitions", "topic_progress")
    before = {name: tables.rows(name) for name in names}
    others = [place for place in tables.quarantined() if place[0] != "__consumer_offsets"]
    doubts = {0: Doubt(reason="r", kept_below=0)}
    progress = tables.apply.progress
    begin_reload(tables.apply.writer, progress, progress, doubts, OFFSETS)
    assert {name: tables.rows(name) for name in names} == before
    assert tables.quarantined() == others
    # The end of the reload replaces the quarantine of `__consumer_offsets` only.
    tables.micro_batch({})
    assert tables.quarantined() == [("__consumer_offsets", 0, 1), *others]


def test_events_of_lost_records_are_lost(tables: Tables) -> None:
    tables.reload({0: Doubt(reason="r", kept_below=1, lost=LOST)})
    lost = [(0, "begun", ""), (1, "prepared", "lost"), (2, "committed", "lost")]
    assert tables.events() == lost
    assert tables.events(1) == BEFORE
    # The log goes on with other records.
    log = tables.logs[PLACE] = TopicLog(*PLACE)
    log.append(COMMIT[0], (X, transaction_value("PrepareAbort")))
    tables.micro_batch({PLACE: (0, 2)})
    assert tables.events() == sorted([*lost, (1, "prepared", "")])
    (note,) = (row for row in tables.rows("quarantine") if row["reason"] == LOST)
    assert (note["log_topic"], note["log_partition"], note["record_offset"]) == (*PLACE, -1)


@pytest.mark.parametrize("cuts", [(0, 5), (0, 2, 5), (0, 4, 5), (0, 0, 1, 2, 3, 4, 5)])
def test_events_are_not_repeated(tables: Tables, cuts: tuple[int, ...]) -> None:
    tables.logs[PLACE].append((X, transaction_value("Ongoing", transactionStartTimestampMs=9)))
    tables.reload({0: Doubt(reason="r", kept_below=4)})
    for between in pairwise(cuts):
        tables.micro_batch({PLACE: between})
    assert tables.events() == [*BEFORE, (4, "begun", "")]
    assert tables.log_partitions("transactions") == [0, 1]
    assert tables.quarantined().count((*PLACE, 3)) == 1
    row = tables.progress_row()
    assert (row["state"], row["next_offset"], row["records_read"]) == ("current", 5, 5)
    assert row["reloaded_at"] is not None
    assert row["records_applied"] + row["records_quarantined"] == 5
    assert row["records_unaccounted"] == 0


def test_a_topic_with_fewer_partitions(tables: Tables) -> None:
    log = replace(LOG, topic_id="new", leaders={0: (1, 0)})
    ends = LogEnds(description=log, log_starts={0: 0}, high_watermarks={0: 0}, agreed_ends={})
    of_topic = tables.apply.progress.others[TRANSACTION_STATE_TOPIC]
    doubts = find_doubts(of_topic, ends, delete_retention_ms=1 << 40, now=NOW)
    tables.reload(doubts, log)
    assert tables.log_partitions("transactions") == []
    assert {outcome for p in (0, 1) for _, _, outcome in tables.events(p)} == {"lost"}
    progress = [row for row in tables.rows("topic_progress") if row["log_topic"] == log.topic]
    assert [(row["log_partition"], row["topic_id"]) for row in progress] == [(0, "new")]
    notes = [place for place in tables.quarantined() if place[2] == -1]
    assert notes == [(log.topic, 0, -1), (log.topic, 1, -1)]
    assert tables.log_partitions("share_partitions") == [0, 1]


def test_an_empty_log_ends_its_reload(tables: Tables) -> None:
    tables.reload({0: Doubt(reason="r", kept_below=0, lost=LOST)})
    tables.logs[PLACE] = TopicLog(*PLACE)
    tables.micro_batch({PLACE: (0, 0)})
    row = tables.progress_row()
    assert (row["state"], row["next_offset"], row["records_read"]) == ("current", 0, 0)
    assert row["reloaded_at"] is not None


@pytest.mark.parametrize("fault", ["transactions", "topic_progress", "load_progress"])
def test_a_reload_that_is_interrupted_begins_anew(tables: Tables, fault: str) -> None:
    tables.reload({0: Doubt(reason="a reason", kept_below=2, lost=LOST)})
    tables.micro_batch({PLACE: (0, 1)})
    assert tables.log_partitions("transactions") == [0, 1]
    tables.start(fault)
    with pytest.raises(Crash):
        tables.micro_batch({PLACE: (1, 3)})
    tables.start()
    of_topic = tables.apply.progress.others[TRANSACTION_STATE_TOPIC]
    ends = LogEnds(description=LOG, log_starts={0: 0}, high_watermarks={0: 4}, agreed_ends={})
    doubts = find_doubts(of_topic, ends, delete_retention_ms=1 << 40, now=NOW)
    assert [doubt.reason for doubt in doubts.values()] == ["a reason"]
    tables.reload({0: replace(doubts[0], lost=LOST)})
    assert tables.log_partitions("transactions") == [1]
    tables.micro_batch({PLACE: (0, 4)})
    assert tables.log_partitions("transactions") == [0, 1]
    assert tables.events() == [*BEFORE[:2], (2, "committed", ""), (2, "committed", "lost")]
    row = tables.progress_row()
    assert (row["state"], row["records_read"], row["records_unaccounted"]) == ("current", 4, 0)
    assert [row["reason"] for row in tables.rows("quarantine")].count(LOST) == 1


def test_a_reload_of_share_partitions_leaves_transactions(tables: Tables) -> None:
    tables.reload({1: Doubt(reason="r", kept_below=4, lost=LOST)})
    log = replace(LOG, topic=SHARE_STATE_TOPIC)
    tables.reload({1: Doubt(reason="r", kept_below=0, lost=LOST)}, log)
    assert tables.log_partitions("share_partitions") == [0]
    assert tables.log_partitions("transactions") == [0]
    assert tables.events() == tables.events(1) == BEFORE
    notes = [place for place in tables.quarantined() if place[2] == -1]
    assert notes == [(SHARE_STATE_TOPIC, 1, -1), (TRANSACTION_STATE_TOPIC, 1, -1)]
    tables.micro_batch({(SHARE_STATE_TOPIC, 1): (0, 4)})
    assert tables.log_partitions("share_partitions") == [0, 1]
    assert tables.progress_row(1, SHARE_STATE_TOPIC)["state"] == "current"
    assert tables.progress_row(1)["state"] == "loading"


@pytest.mark.parametrize(
    ("log", "row", "expected"),
    [
        # Deleted before they were read: later snapshots have their state.
        ({"log_starts": {0: 9}}, {}, ("the log starts at 9", False)),
        ({"log_starts": {0: 9}}, {"reload_reason": "because"}, ("because", False)),
        # Read, and then the log was truncated, or it is another one.
        ({"high_watermarks": {0: 4}}, {}, ("the log was truncated to 4", True)),
        ({"log_starts": {0: 3}, "description": replace(LOG, topic_id="n")}, {}, ("its id", True)),
        # It has no tombstones that its cleaner could remove.
        ({}, {"current_at": NOW - timedelta(days=999)}, None),
    ],
)
def test_unread_records_of_a_topic_that_is_not_compacted_are_not_lost(
    log: dict[str, Any], row: dict[str, Any], expected: tuple[str, bool] | None
) -> None:
    known = Progress(next_offset=7, current_at=NOW)
    progress = TopicProgress(
        topic=SHARE_STATE_TOPIC, topic_id=OF_TOPIC_ID, rows={0: replace(known, **row)}
    )
    ends = LogEnds(description=LOG, log_starts={0: 0}, high_watermarks={0: 10}, agreed_ends={})
    doubts = find_doubts(progress, replace(ends, **log), delete_retention_ms=None, now=NOW)
    assert list(doubts) == ([] if expected is None else [0])
    if expected is not None:
        reason, is_lost = expected
        assert reason in doubts[0].reason
        assert bool(doubts[0].lost) is is_lost
