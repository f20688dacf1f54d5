"""Upkeep of a tables folder: what nobody reads any more goes, and small files become large ones.

A table of keys is replaced as a whole with every micro-batch that changes it, and a table of
history grows by a file; after a week of a micro-batch a second that is 600,000 files each. So

* files that only snapshots older than the snapshots' retention are made of are deleted, and so are
  the entries of Delta's log that lead to them;
* days of history that are over for longer than the history's retention are deleted;
* small files are put together, of history those of each day: Delta's own MERGE, which tells the
  change data feed, makes them as well.

Whatever the snapshot that `load_progress` names is made of stays, however old it is: a query that
was down for long, or was killed in the middle of a micro-batch, goes on from there. delta-rs's own
clean-up of the log with each checkpoint does not know of it and is therefore off.

All of it may be done while the query writes: nothing of it takes part in a commit's conflicts but
with deletions of the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileType

from streaming.errors import ConfigurationError
from streaming.tables import delta
from streaming.tables.file_systems import file_system
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALL_TABLES, LOAD_PROGRESS, LOG_OFFSETS, Table

SMALL_FILE_BYTES: Final = 32 * 1024 * 1024
"""Files below this are put together, to up to four times as much."""
_LARGE_FILE_BYTES: Final = 4 * SMALL_FILE_BYTES
MOST_SMALL_FILES: Final = 16
"""So many are left alone."""
_DAY: Final = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What was done to a table."""

    table: str
    days_deleted: int = 0
    files_compacted: int = 0
    files_deleted: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.days_deleted or self.files_compacted or self.files_deleted)


def upkeep(tables: str, history_retention: timedelta, *, now: datetime) -> Iterator[TableUpkeep]:
    """Do it for each table.

    How long snapshots are kept is a property of the tables (`creation.retention_properties`).

    Args:
        tables: the folder, or an address that delta-rs can open.
        history_retention: how long days of history are kept.
        now: the current time.

    Raises:
        ConfigurationError: there are no tables, or they cannot be written.
    """
    for table in ALL_TABLES:
        # Asked for each anew: the query goes on meanwhile.
        pinned = _pinned(tables, table)
        try:
            yield _upkeep_of(tables, table, pinned, now - history_retention)
        except (DeltaError, OSError) as error:
            raise ConfigurationError(
                f"cannot tidy up {table.path(tables)}: {delta.said(error)}"
            ) from error


def _pinned(tables: str, table: Table) -> int:
    """The version that the newest snapshot has of a table."""
    reader = TableReader(tables)
    if table is LOAD_PROGRESS:
        return reader.version
    if table is LOG_OFFSETS:
        return delta.current_version(tables, table)
    return reader.table_versions.get(table.name, 0)


def _upkeep_of(tables: str, table: Table, pinned: int, kept_since: datetime) -> TableUpkeep:
    opened = DeltaTable(table.path(tables))
    days_deleted = _delete_days(opened, kept_since) if _DAY in table.partition_by else 0
    files_compacted = _compact(opened)
    files_deleted = _delete_files(opened, table.path(tables), pinned)
    # Of the version that is named: what leads to it stays.
    DeltaTable(table.path(tables), version=pinned).cleanup_metadata()
    return TableUpkeep(
        table=table.name,
        days_deleted=days_deleted,
        files_compacted=files_compacted,
        files_deleted=files_deleted,
    )


def _delete_days(opened: DeltaTable, kept_since: datetime) -> int:
    first_kept = kept_since.date().isoformat()
    days = {str(values[_DAY]) for values in opened.partitions()}
    over = {day for day in days if day < first_kept}
    if over:
        # Whole files: no row is read.
        opened.delete(f"{_DAY} < '{first_kept}'")
    return len(over)


def _compact(opened: DeltaTable) -> int:
    """Put small files together where they are many, those of each day."""
    small = Counter(
        file.get(f"partition.{_DAY}")
        for file in _files(opened)
        if file["size_bytes"] < SMALL_FILE_BYTES
    )
    compacted = 0
    for day, count in small.items():
        if count > MOST_SMALL_FILES:
            of_day = None if day is None else [(_DAY, "=", str(day))]
            done: Mapping[str, Any] = opened.optimize.compact(
                partition_filters=of_day, target_size=_LARGE_FILE_BYTES
            )
            compacted += int(done["numFilesRemoved"])
    return compacted


def _files(opened: DeltaTable) -> list[dict[str, Any]]:
    actions = pa.table(opened.get_add_actions(flatten=True))
    wanted = [n for n in ("size_bytes", f"partition.{_DAY}") if n in actions.column_names]
    return actions.select(wanted).to_pylist()


def _delete_files(opened: DeltaTable, path: str, pinned: int) -> int:
    """Delete files that neither the current version nor the one that is named is made of.

    All files are listed, for a checkpoint of Delta's log forgets what was removed as soon as it may
    be deleted; this also finds what a killed writer left behind. delta-rs goes on to name what is
    deleted already, and a VACUUM of nothing is a commit, too.
    """
    named = opened.vacuum(full=True, keep_versions=[pinned])
    found = file_system(path).get_file_info(named) if named else []
    there = sum(file.type is not FileType.NotFound for file in found)
    if there:
        opened.vacuum(dry_run=False, full=True, keep_versions=[pinned])
    return there
