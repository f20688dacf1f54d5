"""Upkeep of a tables folder: files that no snapshot needs are deleted, small ones compacted.

A table of keys is replaced as a whole with every micro-batch that changes it, and a table of
history grows by a file; after a week of a micro-batch a second that is 600,000 files each. So

* files that only snapshots older than the retention of snapshots are made of are deleted, and so
  are the entries of Delta's log that lead to them;
* days of history that are older than the retention of history are deleted;
* small files are compacted, those of history by day: Delta's own MERGE, which writes the change
  data feed, makes small files as well.

The files of the snapshot that `load_progress` names stay, however old they are: a query that was
down for long, or was killed in a micro-batch, continues from it. delta-rs's own clean-up of the log
with each checkpoint does not know of it and is therefore off.

All of this may be done while the query writes. Its commits (deleted days, compaction) may conflict
with a commit of the query; the next round retries them. Files are deleted without a commit: those
of VACUUM only say that it ran, and on a busy table they conflict with the query's.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileInfo, FileSystem

from streaming.tables import delta
from streaming.tables.creation import snapshot_retention
from streaming.tables.file_systems import file_system, local_path
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    DEFAULT_SNAPSHOT_RETENTION,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch

SMALL_FILE_BYTES: Final = 32 * 1024 * 1024
"""Files below this are put together, to up to four times as much."""
_LARGE_FILE_BYTES: Final = 4 * SMALL_FILE_BYTES
UNREFERENCED_KEPT: Final = timedelta(hours=1)
"""For so long a file that no version names is kept, however short the snapshots' retention is."""
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
    error: str = ""
    """Why it could not be done, as a whole or in part; the next time it may."""

    @property
    def is_nothing(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.days_deleted or self.files_compacted or self.files_deleted)


def upkeep(
    epoch: WriterEpoch, history_retention: timedelta, *, now: datetime
) -> Iterator[TableUpkeep]:
    """Do the upkeep of each table.

    How long snapshots are kept is a property of the tables (`creation.retention_properties`).

    Args:
        epoch: the writer epoch of the folder.
        history_retention: how long days of history are kept.
        now: the current time.

    Raises:
        ConfigurationError: there are no tables.
        WriterFenced: a newer writer has taken over.
    """
    for table in ALL_TABLES:
        # Read for each table, because the query writes meanwhile.
        yield _upkeep_of(epoch, table, _pinned(epoch.tables, table), now - history_retention)


def _pinned(tables: str, table: Table) -> int:
    """The version that the newest snapshot has of a table."""
    reader = TableReader(tables)
    if table is LOAD_PROGRESS:
        return reader.version
    if table is LOG_OFFSETS:
        return delta.current_version(tables, table)
    return reader.table_versions.get(table.name, 0)


def _upkeep_of(epoch: WriterEpoch, table: Table, pinned: int, kept_since: datetime) -> TableUpkeep:
    """Each step by itself: the others are done if one fails."""
    path = table.path(epoch.tables)
    done: dict[str, int] = {}
    errors: list[str] = []

    def step(name: str, action: Callable[[], int | None]) -> None:
        try:
            done[name] = action() or 0
        except (DeltaError, OSError) as error:
            errors.append(f"cannot tidy up {path}: {delta.said(error)}")

    if _DAY in table.partition_by:
        step("days_deleted", lambda: _delete_days(epoch, DeltaTable(path), kept_since))
    step("files_compacted", lambda: _compact(epoch, DeltaTable(path)))
    step("files_deleted", lambda: _delete_files(epoch, DeltaTable(path), pinned))
    # Of the version that is named: what leads to it stays.
    step("log_cleaned", lambda: clean_log(path, DeltaTable(path, version=pinned)))
    done.pop("log_cleaned", None)
    return TableUpkeep(table=table.name, error="; ".join(errors), **done)


def clean_log(path: str, opened: DeltaTable) -> None:
    """Delete old entries of a Delta log, once the checkpoints that replace them are on the disk.

    Args:
        path: the table.
        opened: the table at the oldest version that must stay.

    Raises:
        DeltaError: the log cannot be written.
        OSError: the disk fails; no entry is deleted if a checkpoint is not on it.
    """
    folder = local_path(path)
    if folder is not None:
        log = folder / "_delta_log"
        for file in (*log.glob("*.checkpoint*"), log):
            _sync(file)
    opened.cleanup_metadata()


def _sync(file: Path) -> None:
    opened = os.open(file, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _delete_days(epoch: WriterEpoch, opened: DeltaTable, kept_since: datetime) -> int:
    first_kept = kept_since.date().isoformat()
    days = {str(values[_DAY]) for values in opened.partitions()}
    over = {day for day in days if day < first_kept}
    if over:
        # Whole files: no row is read.
        opened.delete(f"{_DAY} < '{first_kept}'", commit_properties=epoch.maintenance(opened))
    return len(over)


def _compact(epoch: WriterEpoch, opened: DeltaTable) -> int:
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
                partition_filters=of_day,
                target_size=_LARGE_FILE_BYTES,
                commit_properties=epoch.maintenance(opened),
            )
            compacted += int(done["numFilesRemoved"])
    return compacted


def _files(opened: DeltaTable) -> list[dict[str, Any]]:
    actions = pa.table(opened.get_add_actions(flatten=True))
    wanted = [n for n in ("size_bytes", f"partition.{_DAY}") if n in actions.column_names]
    return actions.select(wanted).to_pylist()


def _delete_files(epoch: WriterEpoch, opened: DeltaTable, pinned: int) -> int:
    """Delete files that neither the current version nor the pinned one is made of.

    VACUUM names them. Files that Delta's log names as removed go after the table's retention. A
    file that the log does not name may belong to a commit under way, whose duration nothing bounds
    but the fence: it stays for at least an hour. Such files are left behind by killed writers and
    by checkpoints of Delta's log, which forget removed files that may be deleted. delta-rs names
    files that are deleted already, too.
    """
    epoch.last_write(opened)
    retention = snapshot_retention(opened.metadata().configuration) or DEFAULT_SNAPSHOT_RETENTION
    hours = math.ceil(max(retention, UNREFERENCED_KEPT) / timedelta(hours=1))
    named = {
        *opened.vacuum(keep_versions=[pinned]),
        *opened.vacuum(
            full=True,
            keep_versions=[pinned],
            retention_hours=hours,
            enforce_retention_duration=False,
        ),
    }
    folder = file_system(opened.table_uri)
    there = [file for file in folder.get_file_info(sorted(named)) if file.is_file] if named else []
    if there:
        _delete(folder, there)
    return len(there)


def _delete(folder: FileSystem, files: Iterable[FileInfo]) -> None:
    for file in files:
        folder.delete_file(file.path)
