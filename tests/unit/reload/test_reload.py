"""When log partitions are loaded again, how it is asked for, and how it begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from streaming.errors import ConfigurationError
from streaming.kafka.leaders import LogDescription
from streaming.kafka.loader_rules import LoaderRules
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import (
    Doubt,
    LogEnds,
    decodable_log_partitions,
    find_doubts,
    upgrade_reason,
)
from streaming.reload.requests import forget_requests, request_reload, requested
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS, QUARANTINE
from streaming.tables.topic_progress import Progress
from tests.support.logs.log_rows import commit, progress_row, table_of
from tests.support.logs.logs import offset_key, offset_value
from tests.support.tables.tables_folder import start_apply

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
DAY_MS = 24 * 60 * 60 * 1000
TOPIC = LogDescription(topic="t", cluster_id="c", topic_id="id", leaders={0: (1, 5), 1: (1, 5)})
RULES = LoaderRules(semantics=Semantics.COORDINATOR)
LOG = LogEnds(
    description=TOPIC, log_starts={0: 0, 1: 0}, high_watermarks={0: 10, 1: 10}, agreed_ends={}
)


def doubts_of(
    log: LogEnds, rules: LoaderRules = RULES, *, topic_id: str = "id", **row: Any
) -> dict[int, Doubt]:
    """Of tables that have log partition 0 up to record offset 7, an hour ago."""
    progress = LoadProgress(cluster_id="c", topic_id=topic_id, semantics=Semantics.COORDINATOR)
    known = {"next_offset": 7, "current_at": NOW - timedelta(hours=1), "leader_epoch": 5}
    progress.rows[0] = Progress(**{**known, **row})
    upgrade = upgrade_reason(progress, rules)
    return find_doubts(progress, log, upgrade=upgrade, delete_retention_ms=DAY_MS, now=NOW)


OLDER = replace(RULES, release=Release.KAFKA_4_2)
WITHOUT_LEADER = replace(LOG, log_starts={1: 0}, high_watermarks={1: 10})
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
TRUNCATED = ("the log was truncated to 4", 4, "gone from the log: record offsets 4 to 6 were read")
UPGRADED = (
    "by the rules coordinator of Kafka 4.2, and the tables were loaded by the rules coordinator of "
    "Kafka 4.4"
)


@pytest.mark.parametrize(
    ("log", "facts", "expected"),
    [
        # The log goes on.
        (LOG, {}, None),
        (replace(LOG, agreed_ends={0: 7}), {}, None),
        (replace(LOG, log_starts={0: 7, 1: 0}), {}, None),
        (
            replace(LOG, log_starts={0: 9, 1: 0}),
            {},
            (
                *("", 7),
                "gone from the log: record offsets 7 to 8 were deleted before they were read",
            ),
        ),
        # The epoch ended earlier, or the log ends earlier.
        (replace(LOG, agreed_ends={0: 4}), {}, TRUNCATED),
        (replace(LOG, high_watermarks={0: 4, 1: 10}), {}, TRUNCATED),
        # The topic was created again.
        (LOG, {"topic_id": "older"}, ("its id was older and is id", 0, "record offsets 0 to 6")),
        (LOG, {"topic_id": "older", "next_offset": 0}, ("its id was older and is id", 0, "")),
        # The tables were behind for longer than tombstones are kept.
        (LOG, {"current_at": NOW - 23 * HOUR}, None),
        (
            LOG,
            {"current_at": NOW - 25 * HOUR},
            ("25.0 h ago, which is longer than delete.retention.ms (24.0 h)", 7, ""),
        ),
        (LOG, {"current_at": NOW - 25 * HOUR, "next_offset": 10}, None),
        # The clock of this machine is behind by a day and more: the brokers' clock counts too.
        (replace(LOG, newest_at={0: NOW + DAY}), {}, ("25.0 h ago", 7, "")),
        (replace(LOG, newest_at={0: NOW - 9 * DAY}), {}, None),
        # Nothing is known of the log, or nothing was loaded.
        (WITHOUT_LEADER, {"current_at": NOW - 9 * DAY}, None),
        (LOG, {"next_offset": 0, "current_at": None}, None),
        # An interrupted reload begins again.
        (LOG, {"reload_reason": "because"}, ("because", 7, "")),
        (LOG, {"reload_reason": "because", "reloaded_at": NOW}, None),
        # An upgrade also concerns log partitions without a leader.
        (LOG, {"rules": OLDER}, (UPGRADED, 7, "")),
        (WITHOUT_LEADER, {}, None),
        (WITHOUT_LEADER, {"rules": OLDER}, ("the cluster was upgraded", 7, "")),
    ],
)
def test_when_a_log_partition_is_doubted(
    log: LogEnds, facts: dict[str, Any], expected: tuple[str, int, str] | None
) -> None:
    doubts = doubts_of(log, **facts)
    assert list(doubts) == ([] if expected is None else [0])
    if expected is not None:
        reason, kept_below, lost = expected
        assert reason in doubts[0].reason
        assert (doubts[0].kept_below, bool(doubts[0].lost)) == (kept_below, bool(lost))
        assert lost in doubts[0].lost


def test_releases_with_the_same_rules_do_not_differ() -> None:
    scala = replace(OLDER, semantics=Semantics.SCALA)
    assert scala.differ_from(RULES)
    assert not scala.differ_from(replace(scala, release=Release.KAFKA_4_3))


def test_the_end_is_kept_by_the_brokers_clock() -> None:
    progress = LoadProgress(cluster_id="c", topic_id="id", semantics=Semantics.COORDINATOR)
    ahead = timedelta(hours=5)

    def read_to(end: int, written_at: datetime) -> datetime | None:
        report = progress_row(end - 1, end, log_partition=0, records_superseded=1)
        progress.advance([report], RecordCounts(), newest_timestamps={0: written_at}, read_at=NOW)
        return progress.rows[0].current_at

    # Before the first time at the end, records may be old.
    assert read_to(1, NOW - timedelta(hours=9)) == NOW
    assert read_to(2, NOW + ahead) == NOW + ahead
    # Nobody's clock says that.
    assert read_to(3, NOW + timedelta(days=400)) == NOW + ahead


class Tables:
    """The tables of two log partitions with a commit each."""

    def __init__(self, folder: Path) -> None:
        self.tables = str(folder / "tables")
        nothing = LoadProgress(cluster_id="c", topic_id="id", semantics=Semantics.COORDINATOR)
        tables_folder.create(self.tables, nothing, log_partitions=2)
        self.apply = start_apply(self.tables)
        rows = [commit(0, 0, log_partition=p) for p in TOPIC.leaders]
        reports = [progress_row(0, 1, log_partition=p) for p in TOPIC.leaders]
        self.apply.apply(table_of([*rows, *reports]), 0, "query")

    def reload(self, doubts: dict[int, Doubt], topic: LogDescription = TOPIC) -> None:
        progress = self.apply.progress
        begin_reload(self.apply.writer, progress, progress, doubts, topic)

    def history(self) -> list[tuple[int, int, str]]:
        rows = TableReader(self.tables).read(OFFSET_COMMITS.name).to_pylist()
        return sorted((r["log_partition"], r["record_offset"], r["outcome"]) for r in rows)


def test_a_log_partition_that_is_not_there_any_more_loses_its_rows(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    topic = replace(TOPIC, topic_id="new", leaders={0: (1, 5)})
    log = LogEnds(description=topic, log_starts={0: 0}, high_watermarks={0: 1}, agreed_ends={})
    progress = tables.apply.progress
    doubts = find_doubts(progress, log, delete_retention_ms=DAY_MS, now=NOW)
    tables.reload(doubts, topic)
    reader = TableReader(tables.tables)
    assert (reader.topic_id, set(reader.load_states)) == ("new", {0})
    assert reader.read("group_offsets")["log_partition"].to_pylist() == [0]
    assert tables.history() == [(0, 0, "lost"), (1, 0, "lost")]
    gone = reader.read("quarantine")
    assert sorted(gone["log_partition"].to_pylist()) == [0, 1]
    tables.reload({0: doubts[0]}, topic)
    assert TableReader(tables.tables).read("quarantine").num_rows == 2, "said twice"


@pytest.mark.parametrize(
    ("kept_below", "entries"),
    [(9, "[[4, 0], [5, 8]]"), (8, "[[4, 0]]"), (0, None)],
)
def test_a_reload_keeps_the_leader_epochs_of_the_records_that_are_right(
    tmp_path: Path, kept_below: int, entries: str | None
) -> None:
    tables = Tables(tmp_path)
    row = tables.apply.progress.rows[0]
    row.next_offset, row.epoch_entries = 10, "[[4, 0], [5, 8]]"
    tables.reload({0: Doubt(reason="r", kept_below=kept_below)})
    row = tables.apply.progress.rows[0]
    assert (row.next_offset, row.epoch_entries) == (kept_below, entries)


@pytest.mark.parametrize(
    ("row", "is_decodable"),
    [
        ({}, True),
        ({"raw_value": None}, True),
        ({"raw_value": b"?"}, False),
        ({"raw_key": b"\0\x63"}, False),
        # A damaged batch has neither key nor value.
        ({"raw_key": None, "raw_value": None}, False),
        # The log no longer has it, or has no leader.
        ({"record_offset": 4}, False),
        ({"log_partition": 1}, False),
        ({"log_topic": "__transaction_state"}, False),
    ],
)
def test_quarantined_records_that_this_release_can_decode(
    tmp_path: Path, row: dict[str, Any], is_decodable: bool
) -> None:
    tables = Tables(tmp_path)
    quarantined = {
        "log_topic": OFFSETS_TOPIC,
        "log_partition": 0,
        "record_offset": 5,
        "raw_key": offset_key("g", "t", 0),
        "raw_value": offset_value(1),
        "reason": "unknown version",
        **row,
    }
    tables.apply.writer.append(QUARANTINE, pa.Table.from_pylist([quarantined]))
    expected = {0} if is_decodable else set()
    assert decodable_log_partitions(tables.tables, {0: 5}) == expected


def test_requests(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    assert requested(tables.tables) == set()
    assert request_reload(tables.tables, [1]) == [1]
    assert request_reload(tables.tables) == [0, 1]
    assert requested(tables.tables) == {0, 1}
    forget_requests(tables.tables, [0])
    assert requested(tables.tables) == {1}
    assert request_reload(f"file://{tables.tables}", [0]) == [0, 1]
    with pytest.raises(ConfigurationError, match="no rows of log partition 7; it has 0 to 1"):
        request_reload(tables.tables, [7])
    with pytest.raises(ConfigurationError, match="there is no folder"):
        request_reload(str(tmp_path / "none"))
