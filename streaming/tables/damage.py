"""Files that a power loss left damaged in a folder of this machine.

delta-rs and Spark do not sync their files to the disk. After a power loss, files of the last
seconds may be missing, empty, cut or full of zeros, in any order. The Delta logs are cut where that
damage begins:

* each log at its first damaged or missing entry. delta-rs would take an empty entry for a commit
  that changed nothing;
* the logs of all tables at the newest snapshot whose data files are all whole. `run` reads the
  later records from Kafka again.

Only entries of the last minutes before the power loss are given up. Older damage has another cause;
a person has to look at it.

A store keeps an object whole or not at all, so nothing is checked there. Damage that keeps the size
and the last bytes of a data file is not noticed.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake.exceptions import DeltaError

from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.creation import create_missing
from streaming.tables.file_systems import local_path
from streaming.tables.reader import pinned_versions
from streaming.tables.schemas import ALL_TABLES, LOAD_PROGRESS, LOG_OFFSETS, TABLES, Table

logger = logging.getLogger(__name__)

MOST_UNSYNCED: Final = timedelta(minutes=10)
"""Entries that are older than the newest one of their table by more are not given up.

Linux writes changed pages to the disk within a minute (`vm.dirty_expire_centisecs`)."""

_PARQUET_MAGIC: Final = b"PAR1"
_ENTRY: Final = re.compile(r"\d{20}\.json")
_CHECKPOINT: Final = re.compile(r"\d{20}\.checkpoint\..*parquet")


def cut_damaged_logs(tables: str) -> None:
    """Cut the Delta logs of a folder to the newest snapshot that is whole.

    The caller has locked the folder (`folder.locked`). Nothing is changed where all is whole, in a
    store, and in a folder without tables.

    Raises:
        TablesUnavailable: no recent snapshot is whole, or a file cannot be read or deleted.
    """
    if local_path(tables) is None:
        return
    with delta.writing(tables):
        logs = {table: _DeltaLog(tables, table) for table in ALL_TABLES}
        for log in logs.values():
            log.cut_at_damage()
        if not logs[LOAD_PROGRESS].entries:
            _require_no_rows(logs.values())
            return
        _cut_to_snapshot(logs)
        logs[LOG_OFFSETS].cut_to_whole()
        if not all(log.entries for log in logs.values()):
            # The tables were being created.
            create_missing(tables)


def cut_damaged_log(tables: str, table: Table) -> None:
    """Cut the Delta log of a table that belongs to no snapshot to its newest whole version.

    As `cut_damaged_logs`; the caller is the only writer of the table.

    Raises:
        TablesUnavailable: no recent version is whole, or a file cannot be read or deleted.
    """
    if local_path(tables) is not None:
        with delta.writing(table.path(tables)):
            log = _DeltaLog(tables, table)
            log.cut_at_damage()
            log.cut_to_whole()


def _cut_to_snapshot(logs: dict[Table, _DeltaLog]) -> None:
    """Cut the logs to the newest whole snapshot, unless all tables are whole now."""
    progress = logs[LOAD_PROGRESS]

    @cache
    def versions_of(version: int) -> dict[Table, int]:
        rows = delta.read(progress.tables, LOAD_PROGRESS, version=version)
        # A table that no snapshot names has the rows that it was created with: none.
        pinned = pinned_versions(rows)
        versions = {table: pinned.get(table.name, 0) for table in TABLES}
        return {**versions, LOAD_PROGRESS: version}

    def is_snapshot_whole(version: int) -> bool:
        return progress.is_whole(version) and all(
            logs[table].is_whole(pinned) for table, pinned in versions_of(version).items()
        )

    snapshot = progress.newest(is_snapshot_whole)
    is_newest = snapshot == progress.newest_version
    if not is_newest or not all(logs[t].is_whole(logs[t].newest_version) for t in TABLES):
        for table, version in versions_of(snapshot).items():
            logs[table].cut_after(version)


def _require_no_rows(logs: Collection[_DeltaLog]) -> None:
    """Refuse tables with rows whose `load_progress` is missing: nothing says how far they are."""
    for log in logs:
        if log.entries and delta.open_table(log.tables, log.table).file_uris():
            raise TablesUnavailable(
                f"{log.tables} has no load_progress, but {log.table.name} has rows: restore "
                "it from a backup, or name another folder with --tables"
            )


class _DeltaLog:
    """The Delta log of a table on this machine: entries and checkpoints."""

    def __init__(self, tables: str, table: Table) -> None:
        self.tables = tables
        self.table = table
        self._folder = local_path(table.path(tables)) or Path()
        self._known_whole: dict[int, bool] = {}
        newest = max((file.stat().st_mtime for file in self.entries), default=0.0)
        self._unsynced_since = newest - MOST_UNSYNCED.total_seconds()

    @property
    def entries(self) -> list[Path]:
        """From the oldest to the newest one."""
        return self._files(_ENTRY)

    @property
    def newest_version(self) -> int:
        """0 where there is no entry: tables are created at that version, without rows."""
        entries = self.entries
        return _version(entries[-1]) if entries else 0

    def is_whole(self, version: int) -> bool:
        """Whether a version can be opened, and its data files have their size and their end."""
        if version not in self._known_whole:
            self._known_whole[version] = self._has_whole_files(version)
        return self._known_whole[version]

    def newest(self, is_sound: Callable[[int], bool]) -> int:
        """The newest sound version.

        Raises:
            TablesUnavailable: no recent one is.
        """
        for entry in reversed(self.entries):
            if is_sound(_version(entry)):
                return _version(entry)
            self._require_unsynced(entry)
        raise _damaged(self._folder)

    def cut_at_damage(self) -> None:
        """Delete damaged checkpoints, and the entries from the first damaged or missing one on.

        Entries before the newest whole checkpoint are not read.

        Raises:
            TablesUnavailable: a damaged entry is not recent.
        """
        checkpoints = self._files(_CHECKPOINT)
        damaged = [file for file in checkpoints if not _is_parquet(file)]
        whole = {_version(file) for file in checkpoints} - {_version(file) for file in damaged}
        entries = self.entries
        versions = {_version(file) for file in entries}
        first = max(whole & versions, default=min(versions, default=0))
        last = first - 1
        while self._is_entry_whole(last + 1):
            last += 1
        for entry in entries:
            if _version(entry) > last:
                self._require_unsynced(entry)
        self._delete(damaged)
        self.cut_after(last)

    def cut_to_whole(self) -> None:
        """Delete the entries after the newest whole version.

        Raises:
            TablesUnavailable: no recent one is whole.
        """
        if self.entries:
            self.cut_after(self.newest(self.is_whole))

    def cut_after(self, version: int) -> None:
        """Delete all entries and checkpoints after a version."""
        files = self.entries + self._files(_CHECKPOINT)
        self._delete([file for file in files if _version(file) > version])

    def _require_unsynced(self, entry: Path) -> None:
        if entry.stat().st_mtime < self._unsynced_since:
            raise _damaged(entry)

    def _delete(self, files: list[Path]) -> None:
        """Delete files of the log, the newest first."""
        for file in sorted(files, reverse=True):
            logger.warning(
                "deleted %(file)s: a power loss damaged it or a file of its snapshot",
                {"file": str(file)},
            )
            file.unlink()
        if files:
            # It may name a checkpoint that is gone; readers find the others without it.
            (self._folder / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)
            self._known_whole.clear()

    def _files(self, name: re.Pattern[str]) -> list[Path]:
        log = self._folder / "_delta_log"
        return sorted(file for file in log.glob("*") if name.fullmatch(file.name))

    def _is_entry_whole(self, version: int) -> bool:
        """Whether there is a log entry, not empty, and each of its lines is a JSON object."""
        try:
            lines = (self._folder / "_delta_log" / f"{version:020}.json").read_bytes().splitlines()
            return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
        except (FileNotFoundError, ValueError):
            return False

    def _has_whole_files(self, version: int) -> bool:
        if not self.entries:
            return version == 0
        try:
            opened = delta.open_table(self.tables, self.table, version)
            files = pa.table(opened.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
            return all(_is_parquet(self._folder / f["path"], f["size_bytes"]) for f in files)
        except (DeltaError, TablesUnavailable, FileNotFoundError):
            return False


def _damaged(where: Path) -> TablesUnavailable:
    return TablesUnavailable(
        f"{where}, or a file that it names, is damaged, and it is too old to be given up as lost "
        "in a power loss: restore the folder from a backup, or move it away and let `run` load "
        "the log again"
    )


def _version(file: Path) -> int:
    return int(file.name.split(".")[0])


def _is_parquet(file: Path, size_bytes: int | None = None) -> bool:
    """Whether a file has its size and ends as Parquet files do."""
    with file.open("rb") as opened:
        found_bytes = opened.seek(0, os.SEEK_END)
        if found_bytes < len(_PARQUET_MAGIC) or size_bytes not in (None, found_bytes):
            return False
        opened.seek(-len(_PARQUET_MAGIC), os.SEEK_END)
        return opened.read() == _PARQUET_MAGIC
