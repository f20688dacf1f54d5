"""Recovery of a local tables folder from damage by a power loss.

delta-rs and Spark do not sync their files to the disk. After a power loss, files of the last
seconds may be missing, empty, cut or full of zeros, in any order. The next process that locks the
folder cuts the Delta logs where the damage begins:

* It cuts each log at its first damaged or missing entry. delta-rs would read an empty entry as a
  commit without changes.
* It cuts the logs of all tables at the newest snapshot whose data files are all whole. `run` then
  reads the later records from Kafka again.

Another program may have compacted a table and deleted the files that the compaction replaced. Then
a later version with the same rows stands for that of the snapshot (`writer_epoch.with_same_rows`).

Only entries of the last minutes before the power loss are deleted. Older damage has another cause
and is reported as an error.

Stores are not checked: a store keeps an object whole or not at all. Damage that keeps the size and
the last bytes of a data file is not detected.
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
from pyarrow.parquet import read_table

from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.creation import create_missing
from streaming.tables.load_state import pinned_versions
from streaming.tables.locations import local_path
from streaming.tables.schemas import ALL_TABLES, BESIDE_TABLES, LOAD_PROGRESS, TABLES, Table
from streaming.tables.writer_epoch import with_same_rows

logger = logging.getLogger(__name__)

MOST_UNSYNCED: Final = timedelta(minutes=10)
"""Entries that are more than this older than the newest entry of their table are never deleted.

Linux writes changed pages to the disk within a minute (`vm.dirty_expire_centisecs`)."""

_PARQUET_MAGIC: Final = b"PAR1"
_ENTRY: Final = re.compile(r"\d{20}\.json")
_CHECKPOINT: Final = re.compile(r"\d{20}\.checkpoint\..*parquet")


def cut_damaged_logs(tables: str) -> None:
    """Cut the Delta logs of a folder to the newest whole snapshot.

    The caller has locked the folder (`folder.locked`). Whole tables, stores and folders without
    tables are not changed.

    Raises:
        TablesUnavailable: no recent snapshot is whole, or a file cannot be read or deleted. No
            entry is deleted then.
    """
    if local_path(tables) is None:
        return
    with delta.writing(tables):
        logs = {table: _DeltaLog(tables, table) for table in ALL_TABLES}
        for log in logs.values():
            log.plan_cut_at_damage()
        progress = logs[LOAD_PROGRESS]
        if progress.newest_version is None:
            _require_no_rows(logs.values())
        else:
            _plan_cut_to_snapshot(logs)
            for table in BESIDE_TABLES:
                logs[table].plan_cut_to_whole()
        for log in logs.values():
            log.cut()
        if progress.newest_version is not None and not all(log.entries for log in logs.values()):
            # The power loss hit the creation of the tables.
            create_missing(tables)


def cut_damaged_log(tables: str, table: Table) -> None:
    """Cut the Delta log of a table that belongs to no snapshot to its newest whole version.

    Like `cut_damaged_logs`. The caller is the only writer of the table.

    Raises:
        TablesUnavailable: no recent version is whole, or a file cannot be read or deleted.
    """
    if local_path(tables) is not None:
        with delta.writing(table.path(tables)):
            log = _DeltaLog(tables, table)
            log.plan_cut_at_damage()
            log.plan_cut_to_whole()
            log.cut()


def _plan_cut_to_snapshot(logs: dict[Table, _DeltaLog]) -> None:
    """Plan a cut of the logs to the newest whole snapshot, unless all tables are whole."""
    progress = logs[LOAD_PROGRESS]

    @cache
    def whole_versions(version: int) -> dict[Table, int | None]:
        rows = delta.read(progress.tables, LOAD_PROGRESS, version=version)
        # A table that no snapshot names is still at version 0, without rows.
        pinned = pinned_versions(rows)
        versions = {table: logs[table].whole(pinned.get(table.name, 0)) for table in TABLES}
        return {**versions, LOAD_PROGRESS: version}

    def is_snapshot_whole(version: int) -> bool:
        return progress.is_whole(version) and None not in whole_versions(version).values()

    try:
        snapshot = progress.newest(is_snapshot_whole)
    except TablesUnavailable as error:
        newest = progress.newest_version
        if newest is None or not progress.is_whole(newest):
            raise
        lost = [table.name for table, version in whole_versions(newest).items() if version is None]
        if not lost:
            raise
        raise TablesUnavailable(
            f"{progress.tables}: files of the last snapshots are missing or damaged "
            f"({', '.join(lost)}), and no power loss is the cause. VACUUM without a retention "
            "deletes them if a micro-batch is unfinished: restore the folder from a backup, or "
            "move it away and start `run`, which loads the log from its start"
        ) from error
    is_newest = snapshot == progress.newest_version
    if not is_newest or not all(logs[t].is_whole(logs[t].newest_version or 0) for t in TABLES):
        for table, version in whole_versions(snapshot).items():
            logs[table].newest_version = version


def _require_no_rows(logs: Collection[_DeltaLog]) -> None:
    """Refuse tables that have rows but no `load_progress`: their next offsets are unknown."""
    for log in logs:
        version = log.newest_version
        if version is not None and delta.open_table(log.tables, log.table, version).file_uris():
            raise TablesUnavailable(
                f"{log.tables} has no load_progress, but {log.table.name} has rows: restore "
                "load_progress from a backup, or name another folder with --tables"
            )


class _DeltaLog:
    """The Delta log of a local table: entries and checkpoints.

    `newest_version` is the last version that the cut keeps; None if it keeps none.
    """

    def __init__(self, tables: str, table: Table) -> None:
        self.tables = tables
        self.table = table
        self._folder = local_path(table.path(tables)) or Path()
        self._log = self._folder / "_delta_log"
        self._is_missing = not self.entries
        self._whole_by_version: dict[int, bool] = {}
        self._whole_checkpoints: set[int] = set()
        newest = max((file.stat().st_mtime for file in self.entries), default=0.0)
        self._unsynced_since = newest - MOST_UNSYNCED.total_seconds()
        self.newest_version = _version(self.entries[-1]) if self.entries else None

    @property
    def entries(self) -> list[Path]:
        """The entries, oldest first."""
        return self._files(_ENTRY)

    def is_whole(self, version: int) -> bool:
        """Whether each data file of a version has its size and its last bytes.

        Raises:
            TablesUnavailable: the version cannot be read, although no file of it is damaged.
        """
        if version not in self._whole_by_version:
            self._whole_by_version[version] = self._has_whole_files(version)
        return self._whole_by_version[version]

    def whole(self, version: int) -> int | None:
        """The version, or else the newest one with the same rows; None if neither is whole.

        Raises:
            TablesUnavailable: a version cannot be read, although no file of it is damaged.
        """
        if self.is_whole(version):
            return version
        if self.newest_version is None or not self._has_whole_entries(version):
            return None
        later = with_same_rows(self.tables, self.table, version, self.newest_version)
        return next(filter(self.is_whole, later), None)

    def newest(self, is_sound: Callable[[int], bool]) -> int:
        """The newest sound version up to `newest_version`.

        Raises:
            TablesUnavailable: no recent version is sound.
        """
        for entry in reversed(self.entries):
            if self.newest_version is not None and _version(entry) <= self.newest_version:
                if is_sound(_version(entry)):
                    return _version(entry)
                self._require_unsynced(entry)
        raise _damaged(self._folder)

    def plan_cut_at_damage(self) -> None:
        """Delete damaged checkpoints, and find the first damaged or missing entry.

        Readers without a checkpoint use the entries that it repeats. Entries before the newest
        whole checkpoint are not read, unless its own entry is damaged.

        Raises:
            TablesUnavailable: a damaged entry is not recent.
        """
        checkpoints = self._files(_CHECKPOINT)
        damaged = [file for file in checkpoints if not _is_readable(file)]
        whole = {_version(file) for file in checkpoints} - {_version(file) for file in damaged}
        if self._hinted_checkpoint() not in whole:
            self._delete_checkpoint_hint()
        self._delete(damaged)
        entries = self.entries
        versions = {_version(file) for file in entries}
        if not versions:
            return
        self._whole_checkpoints = whole
        for first in (*sorted(whole & versions, reverse=True), min(versions)):
            last = first - 1
            while self._is_entry_whole(last + 1):
                last += 1
            if last >= first:
                break
        for entry in entries:
            if _version(entry) > last:
                self._require_unsynced(entry)
        self.newest_version = last if last in versions else None

    def plan_cut_to_whole(self) -> None:
        """Find the newest whole version.

        Raises:
            TablesUnavailable: no recent version is whole.
        """
        if self.newest_version is not None:
            self.newest_version = self.newest(self.is_whole)

    def cut(self) -> None:
        """Delete all entries and checkpoints after `newest_version`, newest first."""
        last = -1 if self.newest_version is None else self.newest_version
        files = self.entries + self._files(_CHECKPOINT)
        self._delete([file for file in files if _version(file) > last])

    def _require_unsynced(self, entry: Path) -> None:
        if entry.stat().st_mtime < self._unsynced_since:
            raise _damaged(entry)

    def _hinted_checkpoint(self) -> int:
        """The version in `_last_checkpoint`, where readers begin; -1 if missing or damaged."""
        try:
            return int(json.loads((self._log / "_last_checkpoint").read_bytes())["version"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return -1

    def _delete_checkpoint_hint(self) -> None:
        """Delete `_last_checkpoint`.

        Readers fail if it names a deleted checkpoint. Without it they find the other checkpoints.
        """
        (self._log / "_last_checkpoint").unlink(missing_ok=True)

    def _delete(self, files: list[Path]) -> None:
        """Delete files of the log, newest first."""
        if files:
            self._delete_checkpoint_hint()
        for file in sorted(files, reverse=True):
            logger.warning(
                "deleted %(file)s: a power loss damaged it or a file of its snapshot",
                {"file": str(file)},
            )
            file.unlink()

    def _files(self, name: re.Pattern[str]) -> list[Path]:
        return sorted(file for file in self._log.glob("*") if name.fullmatch(file.name))

    def _is_entry_whole(self, version: int) -> bool:
        """Whether a log entry exists, is not empty, and has a JSON object in each line."""
        try:
            lines = (self._log / f"{version:020}.json").read_bytes().splitlines()
            return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
        except (FileNotFoundError, ValueError):
            return False

    def _has_whole_entries(self, version: int) -> bool:
        """Whether all entries that a reader of a version needs are whole."""
        checkpoint = max(
            (number for number in self._whole_checkpoints if number <= version), default=-1
        )
        needed = range(min(checkpoint + 1, version), version + 1)
        return all(self._is_entry_whole(number) for number in needed)

    def _has_whole_files(self, version: int) -> bool:
        if self.newest_version is None and version == 0:
            # The power loss hit the creation of the table, which has no rows.
            return True
        if self._is_missing:
            raise delta.missing(self._folder, self.tables)
        if self.newest_version is None or version > self.newest_version:
            return False
        if not self._has_whole_entries(version):
            return False
        opened = delta.open_table(self.tables, self.table, version)
        files = pa.table(opened.get_add_actions()).select(["path", "size_bytes"]).to_pylist()
        if not all(_is_parquet(self._folder / f["path"], f["size_bytes"]) for f in files):
            return False
        # The cut itself reads `load_progress`, so all bytes of its files must be readable.
        is_read = self.table is LOAD_PROGRESS
        return not is_read or all(_is_readable(self._folder / file["path"]) for file in files)


def _damaged(where: Path) -> TablesUnavailable:
    return TablesUnavailable(
        f"{where} is damaged, or lacks a file that it names, and is older than the files that a "
        "power loss damages: restore the folder from a backup, or move it away and start `run`, "
        "which loads the log from its start"
    )


def _version(file: Path) -> int:
    return int(file.name.split(".")[0])


def _is_parquet(file: Path, size_bytes: int) -> bool:
    """Whether a file has its size and the last bytes of a Parquet file."""
    try:
        with file.open("rb") as opened:
            found_bytes = opened.seek(0, os.SEEK_END)
            if found_bytes < len(_PARQUET_MAGIC) or size_bytes != found_bytes:
                return False
            opened.seek(-len(_PARQUET_MAGIC), os.SEEK_END)
            return opened.read() == _PARQUET_MAGIC
    except FileNotFoundError:
        return False


def _is_readable(file: Path) -> bool:
    """Whether all of a Parquet file can be read.

    Raises:
        OSError: the operating system cannot read the file; it may still be whole.
    """
    try:
        read_table(file, partitioning=None)
    except (FileNotFoundError, pa.ArrowInvalid):
        return False
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow raises this without an `errno` for bytes that are not Parquet.
        return False
    return True
