"""The snapshots of a folder: the versions of its `load_progress`, and the moment of each.

Delta resolves a time by the modification times of the log's files. A copy, a backup or `touch`
changes them. Therefore every commit of `load_progress` carries its moment in its commit info, and
moments of successive commits always grow, even if the clock is set back. A moment is found by
bisection: about 12 small files are read, and the log is not listed. Delta's own in-commit
timestamps would do the same, but need a table feature that writers of the plain protocol lack.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.fs import FileSystem

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables import delta
from streaming.tables.as_of import TIME, AsOf
from streaming.tables.bases import bases_of
from streaming.tables.clock import utc_now
from streaming.tables.file_systems import file_system
from streaming.tables.properties import snapshot_retention
from streaming.tables.schemas import LOAD_PROGRESS

MOMENT: Final = "coordinator_state.updated_at"
"""The field in the commit info of `load_progress` that has the moment, in ISO 8601."""
CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""The clocks of two machines may differ by this."""

_NEVER: Final = datetime.min.replace(tzinfo=timezone.utc)
_RESOLUTION: Final = timedelta(microseconds=1)


def next_moment(previous: datetime, now: datetime) -> datetime:
    """The moment of a commit: now, or just after the previous moment if that is later."""
    return max(now, previous + _RESOLUTION)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A commit by its log entry; `moment` is by the writer's clock if the commit carries none."""

    moment: datetime
    changes_rows: bool
    committed_at: datetime


class Snapshots:
    """The snapshots of a folder, up to the newest one when the folder was opened.

    Each log entry is read once.

    Args:
        tables: the folder.
        opened: its `load_progress`, opened at the newest version.
    """

    def __init__(self, tables: str, opened: DeltaTable) -> None:
        self.tables = tables
        self.newest = opened.version()
        self.properties: Mapping[str, str] = opened.metadata().configuration
        """The current properties."""
        self.opened_at = utc_now()
        self._opened = opened
        self._entries: dict[int, _Entry | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads the newest rows from here.
        state = self.__dict__ | {"progress": self.progress}
        return {name: value for name, value in state.items() if name not in {"_opened", "_files"}}

    @cached_property
    def progress(self) -> pa.Table:
        """The rows of `load_progress` in the newest snapshot.

        Raises:
            TablesUnavailable: they cannot be read.
        """
        return delta.rows_of(self._opened, self.tables, LOAD_PROGRESS)

    def read(self, version: int) -> tuple[pa.Table, Mapping[str, str]]:
        """The rows and the properties of `load_progress` at a version.

        Raises:
            ConfigurationError: the version or its files are deleted, or cannot be read.
        """
        if version == self.newest:
            return self.progress, self.properties
        opened = delta.open_version(LOAD_PROGRESS.path(self.tables), self.tables, version)
        rows = delta.rows_of(opened, self.tables, LOAD_PROGRESS)
        return rows, opened.metadata().configuration

    def of(self, version: int) -> datetime | None:
        """When the rows of a version were written; None if the log has no entry of it any more.

        A version that changes no rows (a fence, new properties, compaction) has the moment of the
        version before it.
        """
        change = self._last_change(version)
        return None if change is None else change.moment

    def committed_at(self, version: int) -> datetime | None:
        """The same by the writer's clock; earlier than the moment if the clock was set back."""
        change = self._last_change(version)
        return None if change is None else change.committed_at

    def _last_change(self, version: int) -> _Entry | None:
        entry = own = self._entry(version)
        while entry is not None and not entry.changes_rows and version > 0:
            version -= 1
            entry = self._entry(version)
        return entry or own

    def version_at(self, moment: datetime) -> int | None:
        """The newest version at a moment; None if the log has no entry as old as the moment."""
        version = bisect_right(self._versions, moment, key=lambda v: self.of(v) or _NEVER) - 1
        return None if version < 0 or self.of(version) is None else version

    @property
    def oldest(self) -> int:
        """The oldest version that has a log entry; entries are deleted oldest first."""
        return bisect_right(self._versions, False, key=lambda v: self._entry(v) is not None)

    def newest_first(self, newest: int) -> Iterator[tuple[int, datetime]]:
        """The versions up to `newest` that have a log entry, newest first, and their moments."""
        for version in range(newest, -1, -1):
            moment = self.of(version)
            if moment is None:
                return
            yield version, moment

    @property
    def begin_at(self) -> datetime:
        """The earliest time that can be read: that of the oldest base, or else snapshot."""
        bases = (base.moment for base in bases_of(self.tables) if base.is_complete)
        return min(next(bases, self.snapshots_begin_at), self.snapshots_begin_at)

    @property
    def snapshots_begin_at(self) -> datetime:
        """The earliest time for which the tables are sure to have a snapshot."""
        first, newest = (self.of(v) or self.opened_at for v in (self.oldest, self.newest))
        # The current retention counts for all versions.
        retention = snapshot_retention(self.properties)
        if retention is None:
            return first
        # Versions that were replaced within the retention are kept, and so is the newest version.
        return max(first, min(utc_now() - retention, newest))

    def is_before_snapshots(self, as_of: AsOf) -> bool:
        """Whether the snapshot of a version or time may be deleted."""
        begins_at = self.snapshots_begin_at
        if isinstance(as_of, datetime):
            return as_of < begins_at
        return as_of >= self.oldest and as_of < (self.version_at(begins_at) or 0)

    def version_of(self, as_of: AsOf) -> int:
        """The version of `load_progress` at a time, or the given version.

        Raises:
            ConfigurationError: there is none, the time is in the future, or the clock of `run` was
                ahead at that time.
        """
        now = utc_now()
        if isinstance(as_of, datetime):
            is_future = as_of > max(now, self.of(self.newest) or as_of)
            version = None if is_future else self.version_at(as_of)
        else:
            version = as_of if self.oldest <= as_of <= self.newest else None
        if version is None:
            raise self.no_snapshot(as_of)
        next_at = self.of(min(version + 1, self.newest))
        is_between = isinstance(as_of, datetime) and self.of(version) != as_of <= now
        if is_between and next_at is not None and next_at > now + CLOCKS_DIFFER:
            # No clock can say whether the next version was written before that time.
            raise ConfigurationError(
                f"{self.tables} cannot say which snapshot is of {as_of:{TIME}}: the clock of `run` "
                f"was ahead, or this one is behind, so version {version + 1} has the time "
                f"{next_at:{TIME}}; name a version from {version} to {self.newest}"
            )
        return version

    def no_snapshot(self, as_of: AsOf, more: str = "") -> ConfigurationError:
        """The error for a version or time without a snapshot; it names those that have one."""
        shown = str(as_of)
        if isinstance(as_of, datetime):
            shown = f"{as_of.astimezone(timezone.utc):{TIME}}"
        begin_at, newest_at = self.snapshots_begin_at, self.of(self.newest)
        return ConfigurationError(
            f"{self.tables} has no snapshot as of {shown}{more}: the tables reach from "
            f"{self.begin_at:{TIME}} to now; versions {self.version_at(begin_at)} "
            f"(of {begin_at:{TIME}}) to {self.newest} (of {newest_at:{TIME}}) can be read"
        )

    @property
    def _versions(self) -> range:
        return range(self.newest + 1)

    @cached_property
    def _files(self) -> FileSystem:
        return file_system(LOAD_PROGRESS.path(self.tables))

    def _entry(self, version: int) -> _Entry | None:
        if version not in self._entries:
            self._entries[version] = self._read(version)
        return self._entries[version]

    def _read(self, version: int) -> _Entry | None:
        path = LOAD_PROGRESS.path(self.tables)
        with delta.reading(path):
            try:
                with self._files.open_input_file(f"_delta_log/{version:020}.json") as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                return None
        try:
            return _entry([json.loads(line) for line in lines])
        except ValueError as error:
            raise TablesUnavailable(
                f"cannot read {path}: entry {version} of its Delta log is damaged"
            ) from error


def _entry(actions: list[dict[str, Any]]) -> _Entry:
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), None)
    if info is None:
        # Another program, or a power loss: the version before it has the moment.
        return _Entry(_NEVER, changes_rows=False, committed_at=_NEVER)
    moment = info.get(MOMENT)
    committed_at = datetime.fromtimestamp(info["timestamp"] / 1000, timezone.utc)
    return _Entry(
        committed_at if moment is None else datetime.fromisoformat(moment),
        any(
            changed.get("dataChange", True)
            for action in actions
            for name in ("add", "remove")
            if (changed := action.get(name)) is not None
        ),
        committed_at,
    )
