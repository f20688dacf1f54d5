"""Recent commits, from the history, and the evidence that they give about each committed offset."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP, nullable, with_columns
from coordinator_state.insight.lag import Bools, Int64s
from coordinator_state.replay.offsets import Outcome
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS

KEY = ["group_id", "topic", "partition"]
_COLUMNS = [*KEY, "record_offset", "committed_offset", "commit_timestamp", "outcome"]
# The record of a commit is written shortly after its commit timestamp.
_SLACK = timedelta(minutes=1)
COMMITS_WITHIN: Final = timedelta(minutes=10)
"""The time before a moment whose commits count as recent."""
ATTEMPTS = (Outcome.COMMITTED, Outcome.ABORTED, Outcome.SUPERSEDED)
"""The outcomes of commits that show that a group is active."""


def recent_commits(
    reader: TableReader,
    since: datetime,
    until: datetime,
    wanted: pc.Expression | None = None,
    outcomes: Collection[Outcome] = (Outcome.COMMITTED,),
    *,
    group_ids: Collection[str] | None = None,
) -> pa.Table:
    """Commits with these outcomes and a commit timestamp between two times; unsorted.

    Both times, and the timestamps of the result, are by the clock of `run`.
    """
    since, until = since + reader.clock_skew, until + reader.clock_skew
    during = [
        ("day", ">=", (since - _SLACK).date()),
        ("record_timestamp", ">=", since - _SLACK),
        ("commit_timestamp", ">=", since),
        ("commit_timestamp", "<=", until),
        ("outcome", "in", [outcome.value for outcome in outcomes]),
        ("is_tombstone", "=", False),
    ]
    if group_ids is not None:
        # Files without these groups are skipped, and other rows are not kept in memory.
        during.append(("group_id", "in", sorted(group_ids)))
    rows = reader.read(OFFSET_COMMITS.name, _COLUMNS, during).select(_COLUMNS)
    rows = rows.cast(nullable(rows.schema))
    rows = with_columns(rows, {"commit_timestamp": reader.own_times(rows["commit_timestamp"])})
    return rows if wanted is None else rows.filter(wanted)


COMMIT_WINDOWS = pa.schema(
    [
        *((name, pa.int32() if name == "partition" else pa.string()) for name in KEY),
        ("commits", pa.int64()),
        ("first_commit", TIMESTAMP),
        ("same_commits", pa.int64()),
        ("moved_at", TIMESTAMP),
        ("aborted", pa.int64()),
        ("first_aborted", TIMESTAMP),
        ("last_aborted", TIMESTAMP),
        ("first_superseded", TIMESTAMP),
    ]
)
"""The evidence of recent commits about each key.

`same_commits` of the last commits have the same committed offset; the first of them was committed
at `moved_at`, which is null if the earlier commits are not recent. `aborted` and the times after it
are those of commits after the last applied commit. A superseded commit belongs to a transaction
that has committed the key again."""


def commit_windows(commits: pa.Table) -> pa.Table:
    """The evidence of `ATTEMPTS` about each key (`COMMIT_WINDOWS`)."""
    if not commits.num_rows:
        return COMMIT_WINDOWS.empty_table()
    commits, keys, first = by_key(commits)
    outcome = commits["outcome"]
    is_committed, is_aborted, is_superseded = (
        pc.equal(outcome, attempt.value).to_numpy(zero_copy_only=False) for attempt in ATTEMPTS
    )
    count = first.size
    rows = np.arange(keys.size)
    last = _last_where(is_committed, keys, count)
    offsets = commits["committed_offset"].to_numpy()
    has_commit = last >= 0
    is_same = is_committed & has_commit[keys] & (offsets == offsets[np.maximum(last, 0)][keys])
    last_other = _last_where(is_committed & ~is_same, keys, count)
    is_same &= rows > last_other[keys]
    is_later = rows > last[keys]
    # A superseded commit says nothing any more if a commit of its key was aborted after it.
    last_aborted = _last_where(is_aborted, keys, count)
    is_aborted &= is_later
    is_superseded &= is_later & (rows > last_aborted[keys])
    times = commits["commit_timestamp"]
    moved = np.where(last_other >= 0, _first_where(is_same, keys, count), -1)
    columns = [
        *(commits[name].take(pa.array(first)) for name in KEY),
        np.bincount(keys[is_committed], minlength=count),
        _times(times, _first_where(is_committed, keys, count)),
        np.bincount(keys[is_same], minlength=count),
        _times(times, moved),
        np.bincount(keys[is_aborted], minlength=count),
        _times(times, _first_where(is_aborted, keys, count)),
        _times(times, _last_where(is_aborted, keys, count)),
        _times(times, _first_where(is_superseded, keys, count)),
    ]
    return pa.table(columns, names=COMMIT_WINDOWS.names).cast(COMMIT_WINDOWS)


def by_key(commits: pa.Table) -> tuple[pa.Table, Int64s, Int64s]:
    """Commits sorted by key and record offset, the number of each one's key, each key's first."""
    if not commits.num_rows:
        return commits, np.empty(0, np.int64), np.empty(0, np.int64)
    codes = np.zeros(commits.num_rows, np.int64)
    for name in KEY:
        column = commits[name].combine_chunks().dictionary_encode()
        codes = codes * max(len(column.dictionary), 1) + column.indices.to_numpy()
    order = np.lexsort((commits["record_offset"].to_numpy(), codes))
    codes = codes[order]
    is_first = np.append(True, codes[1:] != codes[:-1])
    return commits.take(pa.array(order)), np.cumsum(is_first) - 1, np.flatnonzero(is_first)


def _last_where(mask: Bools, keys: Int64s, count: int) -> Int64s:
    """The last row of each key where the mask holds, -1 without one."""
    last_rows = np.full(count, -1)
    rows = np.flatnonzero(mask)
    last_rows[keys[rows]] = rows
    return last_rows


def _first_where(mask: Bools, keys: Int64s, count: int) -> Int64s:
    first_rows = np.full(count, -1)
    rows = np.flatnonzero(mask)[::-1]
    first_rows[keys[rows]] = rows
    return first_rows


def _times(times: pa.ChunkedArray, rows: Int64s) -> Any:
    return times.take(pa.array(rows, mask=rows < 0))
