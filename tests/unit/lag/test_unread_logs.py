"""Partitions that are sampled and that no group reads."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from streaming.lag.group_lag import group_lag
from streaming.lag.unread_logs import unread_logs
from streaming.tables.reader import TableReader
from streaming.views.snapshot import Snapshot
from tests.support.tables.topic_tables import PARTLY, SILENT, UNREAD, create_topic_tables

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("with_unread", "expected"),
    [
        (True, [(UNREAD, 0, 1_000), (UNREAD, 1, 1_000), (SILENT, 0, 1_000), (PARTLY, 2, 1_000)]),
        (False, [(SILENT, 0, 1_000)]),
    ],
)
def test_logs_without_a_committed_offset(
    tmp_path: Path, with_unread: bool, expected: list[tuple[str, int, int]]
) -> None:
    reader = TableReader(create_topic_tables(tmp_path, NOW, with_unread=with_unread))
    rows = unread_logs(reader, NOW, group_lag(reader, at=NOW)).to_pylist()
    unread = [(row["topic"], row["partition"], row["log_end_offset"]) for row in rows]
    assert sorted(unread) == sorted(expected)
    assert {row["state"] for row in rows} == {"present"}


def test_produce_rates_are_those_of_logs_that_are_read(tmp_path: Path) -> None:
    reader = TableReader(create_topic_tables(tmp_path, NOW))
    rows = unread_logs(reader, NOW, group_lag(reader, at=NOW)).to_pylist()
    rates = {(row["topic"], row["partition"]): row["produce_rate_per_s"] for row in rows}
    assert rates[UNREAD, 0] == pytest.approx(10)
    assert rates[UNREAD, 1] == rates[PARTLY, 2] == pytest.approx(5)


def test_samples_of_other_logs_change_neither_lag_nor_status(tmp_path: Path) -> None:
    snapshots = []
    for with_unread in (True, False):
        folder = create_topic_tables(tmp_path / str(with_unread), NOW, with_unread=with_unread)
        reader = TableReader(folder)
        snapshot = Snapshot(reader, at=NOW)
        snapshots.append((snapshot.lags, list(snapshot.groups)))
    assert snapshots[0] == snapshots[1]


def test_tables_without_samples_have_none(tmp_path: Path) -> None:
    reader = TableReader(create_topic_tables(tmp_path, NOW))
    lags = group_lag(reader, at=NOW)
    before = NOW.replace(year=2025)
    assert unread_logs(reader, before, lags).num_rows == 0
