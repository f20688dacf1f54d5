"""Tables that nobody writes any more: what is said of them, after how long."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from coordinator_state.insight.group_status import StatusRules
from streaming.lag.freshness import Freshness, freshness_notice
from streaming.lag.group_status import group_statuses, partition_statuses
from streaming.tables.reader import TableReader
from tests.support.tables.status_tables import NOW, at, create_status_tables
from tests.support.tables.tables_folder import Row, apply_micro_batch, write_rows

SINCE = "nothing written since 12:00:00 UTC; is `run` running?"
LATE = NOW + timedelta(seconds=121)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return create_status_tables(tmp_path)


def sample_of(sampled_at: datetime, log_end_offset: int = 0) -> Row:
    return {
        **{"topic": "__consumer_offsets", "partition": 0, "state": "present", "topic_id": "T"},
        **{"sampled_at": sampled_at, "day": sampled_at.date(), "log_start_offset": 0},
        **{"log_end_offset": log_end_offset, "last_stable_offset": log_end_offset},
    }


def test_every_group_of_stale_tables_is_unknown(tables: str) -> None:
    """A loop of rebalances, a group without offsets and lost data are claimed no more, either."""
    found = group_statuses(TableReader(tables), at=LATE).to_pylist()
    assert {row["group_id"] for row in found} == {"back", "idle", "loop", "new", "nothing", "old"}
    assert {(row["status"], row["reason"], row["topic"]) for row in found} == {
        ("UNKNOWN", SINCE, None)
    }
    rows = partition_statuses(TableReader(tables), at=LATE).to_pylist()
    assert {(row["status"], row["reason"]) for row in rows} == {("UNKNOWN", SINCE)}


def test_tables_are_stale_after_the_limit(tables: str) -> None:
    fresh = Freshness.of(TableReader(tables), LATE - timedelta(seconds=1))
    assert fresh.verdict(StatusRules()) is None
    assert fresh.verdict(StatusRules(stale_after_ms=119_999)) is not None


def test_a_past_moment_is_judged_at_that_moment(tables: str) -> None:
    reader = TableReader(tables)
    write_rows(
        tables, "log_offsets", [sample_of(at(3_600)), sample_of(at(1)), sample_of(at(-3_600))]
    )
    assert Freshness.of(reader, at(0)).sampled_at == at(1)
    # Newer samples do not count: at that moment nobody knew of them.
    assert Freshness.of(reader, at(-3_599)).sampled_at == at(1)
    assert Freshness.of(reader, at(-3_600)).sampled_at == at(-3_600)
    assert Freshness.of(reader, at(3_601)).sampled_at is None


def test_a_quiet_cluster_is_not_stale(tables: str) -> None:
    """Nobody commits for a day; `run` confirms the ends of logs each minute."""
    reader = TableReader(tables)
    later = NOW + timedelta(days=1)
    write_rows(tables, "log_offsets", [sample_of(at(1)), sample_of(later)])
    fresh = Freshness.of(reader, later + timedelta(seconds=65))
    assert fresh.written_at == later
    assert fresh.verdict(StatusRules()) is None
    assert freshness_notice(reader, later + timedelta(seconds=65)) is None


@pytest.mark.parametrize("samples", [[], [sample_of(at(600))]], ids=["never", "by an earlier run"])
def test_without_samples_a_quiet_log_is_not_called_stale(tables: str, samples: list[Row]) -> None:
    write_rows(tables, "log_offsets", samples)
    reader = TableReader(tables)
    assert Freshness.of(reader, LATE).verdict(StatusRules()) is None
    assert freshness_notice(reader, LATE) == (
        "Nothing written since 12:00:00 UTC (2 min ago). `run` does not sample the logs "
        "(`--lag-interval off`), so either no group commits or `run` has stopped."
    )


def test_a_notice_says_since_when(tables: str) -> None:
    reader = TableReader(tables)
    assert freshness_notice(reader, NOW) is None
    assert freshness_notice(reader, LATE) == (
        "Nothing written since 12:00:00 UTC (2 min ago). Is `run` running?"
    )
    assert freshness_notice(reader, NOW + timedelta(days=1)) == (
        "Nothing written since 2026-11-21 12:00:00 UTC (24 h ago). Is `run` running?"
    )


def test_a_notice_says_how_far_behind_the_tables_are(tables: str) -> None:
    """Samples go on, micro-batches do not."""
    ends = ((300, 0), (200, 5), (0, 5))
    write_rows(tables, "log_offsets", [sample_of(at(ago), end) for ago, end in ends])
    assert freshness_notice(TableReader(tables), NOW) == (
        "The tables are 5 min behind __consumer_offsets."
    )


def test_tables_that_were_never_written_are_not_stale(tables: str) -> None:
    apply_micro_batch(tables, progress=[])
    write_rows(tables, "log_offsets", [])
    fresh = Freshness.of(TableReader(tables), LATE)
    assert fresh.written_at is None
    assert (fresh.verdict(StatusRules()), fresh.notice(StatusRules())) == (None, None)
