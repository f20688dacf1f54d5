"""How much memory a process and all that it started took at most."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

_INTERVAL_S = 0.25
_PROC = Path("/proc")


class PeakMemory:
    """Watches a process and its descendants inside a `with` block.

    Resident memory is looked at now and then and added up, so pages that processes share count for
    each of them. `peak_bytes` is None on systems other than Linux.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes: int | None = None
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            memory_bytes = sum(map(_resident_bytes, _with_descendants(self._pid)))
            if memory_bytes:
                self.peak_bytes = max(memory_bytes, self.peak_bytes or 0)


def _with_descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        # The name of the program, in parentheses, may hold anything; state and parent follow it.
        parent = int(text.rpartition(")")[2].split()[1])
        children[parent].append(int(stat.parent.name))
    found = [pid]
    for process in found:
        found += children[process]
    return found


def _resident_bytes(pid: int) -> int:
    try:
        pages = (_PROC / str(pid) / "statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
