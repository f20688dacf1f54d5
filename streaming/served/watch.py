"""Finds new versions of the tables of a cluster, for all open pages together."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pyarrow.fs import FileSystem, FileType

from streaming.errors import ConfigurationError
from streaming.tables.clock import utc_now
from streaming.tables.delta import open_version
from streaming.tables.file_systems import file_system
from streaming.tables.schemas import (
    ALERTS,
    EXTERNAL_OFFSETS,
    GROUP_STATUS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    Table,
)

_WATCHED: Final[Sequence[Table]] = (
    *(LOAD_PROGRESS, LOG_OFFSETS, EXTERNAL_OFFSETS, ALERTS, GROUP_STATUS),
)
"""`load_progress` has the versions of most tables; the others are read at their newest version."""
_NONE: Final = -1
_LOOKS_EVERY_S: Final = 1.0


class Watch:
    """The time of the last change of the tables.

    A look asks for the existence of the next log entry of each table, which costs about 0.1 ms in a
    local folder and one request per table in an object store. Nobody looks while nobody asks.

    Args:
        tables: the tables folder, or an address that delta-rs can open.
    """

    def __init__(self, tables: str) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._versions: dict[Table, int] = {}
        self._changed_at = utc_now()
        self._next_look = 0.0

    def changed_at(self) -> datetime:
        """When a look last found a change; a snapshot that was opened later has it.

        Looks at most once a second, unless another thread is looking.
        """
        if time.monotonic() >= self._next_look and self._lock.acquire(blocking=False):
            try:
                self._look()
                self._next_look = time.monotonic() + _LOOKS_EVERY_S
            finally:
                self._lock.release()
        return self._changed_at

    def _look(self) -> None:
        for table in _WATCHED:
            path = table.path(self._tables)
            known = self._versions.get(table)
            newest = _newest_version(path) if known is None else _later(file_system(path), known)
            self._versions[table] = newest
            if newest != known:
                self._changed_at = utc_now()


def _newest_version(path: str) -> int:
    try:
        return open_version(path, path).version()
    except ConfigurationError:
        return _NONE


def _later(files: FileSystem, version: int) -> int:
    """The newest version from a known one on; the known one while the store is unreachable."""
    try:
        while _has(files, version + 1):
            version += 1
    except OSError:
        pass
    return version


def _has(files: FileSystem, version: int) -> bool:
    return bool(files.get_file_info(f"_delta_log/{version:020}.json").type == FileType.File)
