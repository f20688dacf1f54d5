"""The times of the last writes of a tables folder: the last micro-batch and the newest sample."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import pyarrow.compute as pc

from streaming.lag.sample_runs import CONFIRM_EVERY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, LOG_OFFSETS

SAMPLED_WITHIN: Final = 2 * CONFIRM_EVERY
"""With samples, the last micro-batch is at most this much newer than the last sample."""


def last_micro_batch(reader: TableReader, at: datetime) -> datetime | None:
    """The time of the last micro-batch; None without one."""
    updated_at: datetime | None = pc.max(
        reader.read(LOAD_PROGRESS.name, ["updated_at"])["updated_at"]
    ).as_py()
    if updated_at is not None and updated_at > at:
        # The clock was set back since: moments always grow.
        return min(updated_at, reader.committed_at)
    return updated_at


def newest_sample(reader: TableReader, at: datetime) -> datetime | None:
    """The time of the newest sample up to `at`; None without one."""
    recent = _last_between(reader, at - SAMPLED_WITHIN, at)
    return _newest_by_statistics(reader, at) if recent is None else recent


def _newest_by_statistics(reader: TableReader, at: datetime) -> datetime | None:
    """The same, from the statistics of files where they suffice."""
    first, last = reader.file_ranges(LOG_OFFSETS, "sampled_at").columns
    whole: datetime | None = pc.max(last.filter(pc.less_equal(last, at))).as_py()
    partly = first.filter(pc.and_(pc.less_equal(first, at), pc.greater(last, at)))
    if not len(partly):
        return whole
    since = max(filter(None, (whole, pc.min(partly).as_py())))
    return _last_between(reader, since, at)


def _last_between(reader: TableReader, since: datetime, at: datetime) -> datetime | None:
    rows = reader.read(
        LOG_OFFSETS.name,
        ["sampled_at"],
        [
            *(("day", ">=", since.date()), ("day", "<=", at.date())),
            *(("sampled_at", ">=", since), ("sampled_at", "<=", at)),
        ],
    )
    newest: datetime | None = pc.max(rows["sampled_at"]).as_py()
    return newest
