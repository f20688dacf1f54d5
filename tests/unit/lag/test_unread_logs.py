"""Partitions that are sampled and that no group reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.lag.group_lag import group_lag
from streaming.lag.unread_logs import unread_logs
from streaming.tables.reader import TableReader
from streaming.views.snapshot import Snapshot
from tests.support.tables.status_tables import NOW
from tests.support.tables.topic_tables import PARTLY, SILENT, UNREAD, create_topic_tables


@pytest.mark.parametrize(
    ("with_unread", "expected"),
    [
        (True, {(UNREAD, 0): 10, (UNREAD, 1): 5, (SILENT, 0): 10, (PARTLY, 2): 5}),
        (False, {(SILENT, 0): 10}),
    ],
)
def test_logs_without_a_committed_offset(
    tmp_path: Path, with_unread: bool, expected: dict[tuple[str, int], int]
) -> None:
    """The log ends and the records that are produced per second."""
    reader = TableReader(create_topic_tables(tmp_path, NOW, with_unread=with_unread))
    lags = group_lag(reader, at=NOW)
    rows = unread_logs(reader, NOW, lags).to_pylist()
    rates = {(row["topic"], row["partition"]): row["produce_rate_per_s"] for row in rows}
    assert rates == pytest.approx(expected)
    assert {(row["state"], row["log_end_offset"]) for row in rows} == {("present", 1_000)}
    assert unread_logs(reader, NOW.replace(year=2025), lags).num_rows == 0


def test_samples_of_other_logs_change_neither_lag_nor_status(tmp_path: Path) -> None:
    snapshots = []
    for with_unread in (True, False):
        folder = create_topic_tables(tmp_path / str(with_unread), NOW, with_unread=with_unread)
        reader = TableReader(folder)
        snapshot = Snapshot(reader, at=NOW)
        snapshots.append((snapshot.lags, list(snapshot.groups)))
    assert snapshots[0] == snapshots[1]
