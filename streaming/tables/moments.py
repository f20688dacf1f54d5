"""The moment of each version of `load_progress`, from the contents of its Delta log.

Delta resolves a time by the modification times of the log's files. A copy, a backup or `touch`
changes them. Therefore every commit of `load_progress` carries its moment in its commit info, and
moments of successive commits always grow, even if the clock is set back. A moment is found by
bisection: about 12 small files are read, and the log is not listed. Delta's own in-commit
timestamps would do the same, but need a table feature that writers of the plain protocol lack.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from pyarrow.fs import FileSystem

from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.file_systems import file_system

MOMENT: Final = "coordinator_state.updated_at"
"""The field in the commit info of `load_progress` that has the moment, in ISO 8601."""
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The form of a time in UTC in errors and notes."""

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


@dataclass(slots=True)
class CommitMoments:
    """The moments of the versions of a table up to `newest`; each log entry is read once.

    Args:
        path: the path of the table.
        newest: the newest version.
    """

    path: str
    newest: int
    _entries: dict[int, _Entry | None] = field(default_factory=dict)
    _files: FileSystem | None = None

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
    def _versions(self) -> range:
        return range(self.newest + 1)

    def _entry(self, version: int) -> _Entry | None:
        if version not in self._entries:
            self._entries[version] = self._read(version)
        return self._entries[version]

    def _read(self, version: int) -> _Entry | None:
        if self._files is None:
            self._files = file_system(self.path)
        with delta.reading(self.path):
            try:
                with self._files.open_input_file(f"_delta_log/{version:020}.json") as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                return None
        try:
            return _entry([json.loads(line) for line in lines])
        except ValueError as error:
            raise TablesUnavailable(
                f"cannot read {self.path}: entry {version} of its Delta log is damaged"
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
