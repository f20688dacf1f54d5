"""The evidence that recent commits give about a committed offset."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from streaming.lag.recent_commits import COMMIT_WINDOWS, commit_windows

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
Attempt = tuple[int, str]


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def commits(*attempts: Attempt, partition: int = 0) -> list[dict[str, Any]]:
    """An attempt to commit an offset in each second, with its outcome."""
    return [
        {
            **{"group_id": "g", "topic": "t", "partition": partition, "record_offset": number},
            **{"committed_offset": offset, "commit_timestamp": at(number), "outcome": outcome},
        }
        for number, (offset, outcome) in enumerate(attempts)
    ]


def windows(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    types = {"partition": pa.int32()}
    table = pa.table({name: pa.array([r[name] for r in rows], types.get(name)) for name in rows[0]})
    rows_by_window = commit_windows(table)
    assert rows_by_window.schema == COMMIT_WINDOWS
    return {row["partition"]: row for row in rows_by_window.to_pylist()}


C, A, S = "committed", "aborted", "superseded"


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        (
            [(1, C), (2, C), (3, C)],
            {"commits": 3, "first_commit": at(0), "same_commits": 1, "moved_at": at(2)},
        ),
        (
            [(1, C), (5, C), (5, C), (5, C)],
            {"commits": 4, "same_commits": 3, "moved_at": at(1), "aborted": 0},
        ),
        # It was at this offset before, too.
        ([(5, C), (1, C), (5, C)], {"same_commits": 1, "moved_at": at(2)}),
        # It is not known when it came there.
        ([(5, C), (5, C)], {"same_commits": 2, "moved_at": None}),
        (
            [(1, A), (2, C), (3, A), (3, A)],
            {"commits": 1, "aborted": 2, "first_aborted": at(2), "last_aborted": at(3)},
        ),
        ([(1, A), (2, C)], {"aborted": 0, "first_aborted": None, "last_aborted": None}),
        # All of them.
        ([(1, A), (1, A)], {"commits": 0, "first_commit": None, "same_commits": 0, "aborted": 2}),
        ([(1, C), (2, S), (3, S)], {"first_superseded": at(1), "commits": 1}),
        # These transactions have ended.
        ([(2, S), (3, C)], {"first_superseded": None}),
        ([(1, C), (2, S), (3, A), (4, S)], {"first_superseded": at(3), "aborted": 1}),
    ],
)
def test_evidence(attempts: list[Attempt], expected: dict[str, Any]) -> None:
    window = windows(commits(*attempts))[0]
    assert {name: window[name] for name in expected} == expected


def test_each_partition_has_its_own() -> None:
    rows = commits((1, C), (2, A)) + commits((7, C), (7, C), partition=1)
    by_partition = windows(rows[::-1])
    assert [by_partition[p]["commits"] for p in (0, 1)] == [1, 2]
    assert [by_partition[p]["aborted"] for p in (0, 1)] == [1, 0]
    assert [by_partition[p]["same_commits"] for p in (0, 1)] == [1, 2]


def test_no_commits() -> None:
    empty = {"group_id": "g", "topic": "t", "partition": 0, "record_offset": 0}
    assert commit_windows(pa.Table.from_pylist([empty]).slice(1)).num_rows == 0
