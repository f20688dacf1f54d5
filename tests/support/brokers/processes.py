"""Processes of a test, as Linux tells of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def children(of: int | None = None) -> set[int]:
    """What a process started, this one by default; what ended unnoticed is included."""
    pids: set[int] = set()
    for thread in Path(f"/proc/{of or os.getpid()}/task").iterdir():
        with suppress(OSError):
            pids.update(map(int, (thread / "children").read_text().split()))
    return pids


def open_file_count() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def open_files(pid: int) -> Iterator[str]:
    for file in Path(f"/proc/{pid}/fd").iterdir():
        # It opens and closes some while it starts.
        with suppress(OSError):
            yield str(file.readlink())


def is_there(pid: int) -> bool:
    """Whether a process runs; one whose end nobody asked for does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
