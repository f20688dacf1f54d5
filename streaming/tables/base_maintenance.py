"""Maintenance of bases: a new one from time to time, and deletion of those without history.

The history between two bases is read to rebuild a moment. A new base is made after an hour, or
after so many records that it is small beside their history.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, time, timedelta, timezone
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake
from pyarrow.dataset import Dataset
from pyarrow.fs import FileSelector

from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.bases import FOLDER, BasePlace, bases_of
from streaming.tables.clock import earliest_now, utc_now
from streaming.tables.creation import create_table
from streaming.tables.file_systems import file_system
from streaming.tables.load_state import begun, is_reloading
from streaming.tables.locations import local_path, sync_file
from streaming.tables.moments import MOMENT, Snapshots
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    HISTORY_OFF,
    KEY_TABLES,
    LOAD_PROGRESS,
    STATE_LOADING,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch

MOST_AGE: Final = timedelta(hours=1)
_MIN_RECORDS: Final = 1_000_000
_ONE_AT_A_TIME: Final = Lock()
"""Two jobs of a `run` make bases. delta-rs commits two overwrites of an empty table both."""
_WRITTEN_WITHIN: Final = timedelta(hours=1)
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
    if not _can_be_base(progress):
        return False
    complete = (base for base in reversed(bases_of(reader.tables)) if base.is_complete)
    newest = next(complete, None)
    if newest is None:
        return True
    if reader.written_at <= newest.moment:
        return False
    base = Snapshots(newest.path, delta.open_table(newest.path, LOAD_PROGRESS))
    # After the clock was set back, moments hardly grow.
    age = utc_now() - (base.committed_at(base.newest) or newest.moment)
    if reader.written_at >= newest.moment + MOST_AGE or not timedelta(0) <= age < MOST_AGE:
        return True
    if begun(progress) - begun(base.progress):
        # Its older records are in no base.
        return True
    reloaded_at = pc.max(progress["reloaded_at"]).as_py()
    # Rows before a reload do not explain the rows after it.
    return (reloaded_at is not None and reloaded_at > newest.moment) or _is_far(
        newest, base.progress, progress
    )


def _is_far(base: BasePlace, then: pa.Table, now: pa.Table) -> bool:
    """Whether so many records follow a base that a new one costs little, by both progresses."""
    before, after = (pc.sum(progress["records_read"]).as_py() or 0 for progress in (then, now))
    records = after - before
    if records < _MIN_RECORDS:
        return False
    rows = sum(base.count(table) for table in KEY_TABLES)
    return bool(records >= _RECORDS_PER_ROW * rows)


def _can_be_base(progress: pa.Table) -> bool:
    """Whether a snapshot, by its `load_progress`, is a base.

    While a log partition is loading, records are read whose timestamps may be of any time.
    """
    rows = progress.select(["state", "reload_reason", "reloaded_at"]).to_pylist()
    return bool(rows) and not any(
        row["state"] == STATE_LOADING or is_reloading(row["reload_reason"], row["reloaded_at"])
        for row in rows
    )


def write_base(
    epoch: WriterEpoch,
    moment: datetime,
    rows: Mapping[Table, Dataset],
    progress: pa.Table,
    properties: Mapping[str, str],
) -> BasePlace:
    """Write a base, table by table; rows pass through the memory in batches.

    Args:
        epoch: the writer epoch of the tables folder.
        moment: the moment of the snapshot.
        rows: the rows of `KEY_TABLES`.
        progress: the rows of `load_progress`.
        properties: the properties of `load_progress`.

    Raises:
        TablesUnavailable: a table cannot be written.
        WriterFenced: a newer writer has taken over; the base is not complete.
    """
    base = BasePlace(moment, epoch.tables)
    try:
        versions = [
            (table.name, _write(base, table, rows[table].scanner().to_reader(), {}))
            for table in KEY_TABLES
        ]
        index = progress.schema.get_field_index("table_versions")
        column = pa.array([versions] * progress.num_rows, LOAD_PROGRESS.schema.field(index).type)
        progress = progress.set_column(index, LOAD_PROGRESS.schema.field(index), column)
        # After a power loss, a base with `load_progress` must be whole.
        _sync(base)
        epoch.require_current()
        _write(base, LOAD_PROGRESS, progress.to_reader(), properties)
        _sync(base)
    except TablesUnavailable:
        # A full disk needs the space.
        with suppress(TablesUnavailable, OSError):
            if not base.is_complete:
                file_system(epoch.tables).delete_dir(base.name)
        raise
    return base


def delete_bases(epoch: WriterEpoch, *, kept_since: datetime | None) -> int:
    """Delete the bases before a moment (all if None) and interrupted ones; return their number.

    Raises:
        TablesUnavailable: a file cannot be read or deleted.
        WriterFenced: a newer writer has taken over.
    """
    tables = epoch.tables
    # An incomplete base younger than this may be written right now.
    abandoned = earliest_now() - _WRITTEN_WITHIN
    expired = [
        base
        for base in bases_of(tables)
        if kept_since is None
        or base.moment < kept_since
        or (base.moment < abandoned and not base.is_complete and _written_at(base) < abandoned)
    ]
    with delta.writing(f"{tables.rstrip('/')}/{FOLDER}"):
        for base in expired:
            epoch.require_current()
            folder = file_system(tables)
            # Another maintenance may delete it at the same time.
            with suppress(FileNotFoundError):
                # Without its `load_progress` a base is an incomplete one.
                if base.is_complete:
                    folder.delete_dir(f"{base.name}/{LOAD_PROGRESS.name}")
                folder.delete_dir(base.name)
    return len(expired)


def _written_at(base: BasePlace) -> datetime:
    """When the newest file of a base was written."""
    with delta.reading(base.path):
        files = file_system(base.tables).get_file_info(
            FileSelector(base.name, allow_not_found=True, recursive=True)
        )
    times = [file.mtime for file in files if file.is_file and file.mtime is not None]
    return max((time.astimezone(timezone.utc) for time in times), default=base.moment)


def _write(
    base: BasePlace, table: Table, rows: pa.RecordBatchReader, properties: Mapping[str, str]
) -> int:
    """Replace the rows of a table; return the version with them."""
    path = table.path(base.path)
    create_table(base.path, table, properties)
    with delta.writing(path):
        write_deltalake(
            path,
            rows.cast(table.schema),
            mode="overwrite",
            commit_properties=CommitProperties(custom_metadata={MOMENT: base.moment.isoformat()}),
        )
    return delta.current_version(base.path, table)


def _sync(base: BasePlace) -> None:
    """Sync the files of a local base to the disk."""
    folder = local_path(base.path)
    if folder is None:
        return
    with delta.writing(base.path):
        for file in (*folder.rglob("*"), folder, folder.parent):
            sync_file(file)
