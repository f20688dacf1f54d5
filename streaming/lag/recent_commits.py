"""Recent commits, from the history."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.replay.offsets import Outcome
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS

KEY = ["group_id", "topic", "partition"]
_COLUMNS = [*KEY, "record_offset", "committed_offset", "commit_timestamp"]
# The record of a commit is written shortly after its commit timestamp.
_SLACK = timedelta(minutes=1)


def recent_commits(
    reader: TableReader,
    since: datetime,
    until: datetime,
    wanted: pc.Expression | None = None,
) -> pa.Table:
    """Commits that were applied, with a commit timestamp between two times; unsorted."""
    during = [
        ("day", ">=", (since - _SLACK).date()),
        ("record_timestamp", ">=", since - _SLACK),
        ("commit_timestamp", ">=", since),
        ("commit_timestamp", "<=", until),
        ("outcome", "=", Outcome.COMMITTED.value),
    ]
    rows = reader.read(OFFSET_COMMITS.name, [*_COLUMNS, "is_tombstone"], during)
    rows = rows.filter(pc.invert(rows["is_tombstone"])).drop_columns("is_tombstone")
    return rows if wanted is None else rows.filter(wanted)


COMMIT_WINDOWS = pa.schema(
    [
        *((name, pa.int32() if name == "partition" else pa.string()) for name in KEY),
        ("commits", pa.int64()),
        ("first_commit", TIMESTAMP),
        ("least_offset", pa.int64()),
        ("greatest_offset", pa.int64()),
    ]
)


def commit_windows(commits: pa.Table) -> pa.Table:
    """The number, first time, and least and greatest offset of the commits of each key."""
    found = commits.group_by(KEY).aggregate(
        [
            ("record_offset", "count"),
            ("commit_timestamp", "min"),
            ("committed_offset", "min"),
            ("committed_offset", "max"),
        ]
    )
    return found.rename_columns(COMMIT_WINDOWS.names).cast(COMMIT_WINDOWS)
