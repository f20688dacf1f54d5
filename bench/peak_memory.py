"""How much memory a process and all that it started took at most."""

from __future__ import annotations

import threading
from types import TracebackType

from bench.processes import memory_bytes

_INTERVAL_S = 0.25


class PeakMemory:
    """Watches a process and its descendants inside a `with` block.

    Memory is looked at now and then; pages that processes share are parted among them (Linux's
    PSS). `peak_bytes` is None on systems other than Linux.
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
            found_bytes = memory_bytes(self._pid)
            if found_bytes:
                self.peak_bytes = max(found_bytes, self.peak_bytes or 0)
