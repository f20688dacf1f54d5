"""Maintenance of bases: a new one from time to time, and deletion of those without history.

The history between two bases is read to rebuild a moment. A new base is made after an hour, or
after so many records that it is small beside their history.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streaming.clock import utc_now
from streaming.tables.bases import BasePlace, bases_of, can_be_base, delete_bases, write_base
from streaming.tables.load_state import begun
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    HISTORY_OFF,
    KEY_TABLES,
    LOAD_PROGRESS,
)
from streaming.tables.writer_epoch import WriterEpoch

MOST_AGE: Final = timedelta(hours=1)
_MIN_RECORDS: Final = 1_000_000
_ONE_AT_A_TIME: Final = Lock()
"""Two jobs of a `run` make bases. delta-rs commits two overwrites of an empty table both."""
_RECORDS_PER_ROW: Final = 10
"""A base has about as many bytes for each row as the history for each record."""


def maintain_bases(epoch: WriterEpoch, history_retention: timedelta, *, now: datetime) -> int:
    """Make a base if one is due, and delete old bases; return how many were deleted.

    Without history there are no bases.

    Raises:
        ConfigurationError: there are no tables, or they cannot be read or written.
        WriterFenced: a newer writer has taken over.
    """
    first_day = (now - history_retention).date()
    kept_since = datetime.combine(first_day, time(), timezone.utc)
    reader = TableReader(epoch.tables)
    if reader.history_mode == HISTORY_OFF:
        return delete_bases(epoch, kept_since=None)
    if reader.written_at >= kept_since:
        make_base(epoch, reader)
    return delete_bases(epoch, kept_since=kept_since)


def make_base(epoch: WriterEpoch, reader: TableReader) -> None:
    """Make a base of the newest snapshot if one is due.

    Raises:
        ConfigurationError: the tables cannot be read or written.
        WriterFenced: a newer writer has taken over.
    """
    with _ONE_AT_A_TIME:
        if reader.history_mode != HISTORY_OFF and _is_due(reader):
            kafka = reader.of_kafka()
            rows = {table: kafka.dataset(table.name) for table in KEY_TABLES}
            progress = reader.read(LOAD_PROGRESS.name)
            write_base(epoch, reader.written_at, rows, progress, reader.properties)


def _is_due(reader: TableReader) -> bool:
    progress = reader.read(LOAD_PROGRESS.name)
    if not can_be_base(progress):
        return False
    complete = (base for base in reversed(bases_of(reader.tables)) if base.is_complete)
    newest = next(complete, None)
    if newest is None:
        return True
    if reader.written_at <= newest.moment:
        return False
    # After the clock was set back, moments hardly grow.
    age = utc_now() - newest.committed_at
    if reader.written_at >= newest.moment + MOST_AGE or not timedelta(0) <= age < MOST_AGE:
        return True
    if begun(progress) - begun(newest.read(LOAD_PROGRESS)):
        # Its older records are in no base.
        return True
    reloaded_at = pc.max(progress["reloaded_at"]).as_py()
    # Rows before a reload do not explain the rows after it.
    return (reloaded_at is not None and reloaded_at > newest.moment) or _is_far(newest, progress)


def _is_far(base: BasePlace, progress: pa.Table) -> bool:
    """Whether so many records follow a base that a new one costs little."""
    then = base.read(LOAD_PROGRESS)
    records = (pc.sum(progress["records_read"]).as_py() or 0) - (
        pc.sum(then["records_read"]).as_py() or 0
    )
    if records < _MIN_RECORDS:
        return False
    rows = sum(base.count(table) for table in KEY_TABLES)
    return bool(records >= _RECORDS_PER_ROW * rows)
