"""The machine may be suspended while a run lives: a paused VM, a hibernated node.

`time.monotonic` stops meanwhile, so a run does not notice that it was away. Kafka's cleaner may
have removed tombstones in that time, as if the run had been down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from streaming.errors import LogChanged
from streaming.tables.clock import clock_s


class Suspension:
    """Refuses micro-batches after a suspend that was longer than `delete.retention.ms`.

    Args:
        delete_retention_s: `delete.retention.ms` in seconds.
        suspended_s: for how long the machine was suspended since its start, all times together.
    """

    def __init__(
        self,
        delete_retention_s: float,
        suspended_s: Callable[[], float] = lambda: clock_s() - time.monotonic(),
    ) -> None:
        self._delete_retention_s = delete_retention_s
        self._suspended_s = suspended_s
        self._lock = threading.Lock()
        self._seen_s = suspended_s()
        self._longest_s = 0.0

    def begin(self) -> None:
        """A query starts: the start has compared the tables with the log."""
        with self._lock:
            self._longest_s = 0.0

    def require_none(self) -> None:
        """Refuse to go on after a long suspend since the query began.

        Called before the rows of a micro-batch are read and after it, and beside the query.

        Raises:
            LogChanged: the machine was suspended for too long.
        """
        with self._lock:
            seen_s, self._seen_s = self._seen_s, self._suspended_s()
            self._longest_s = max(self._longest_s, self._seen_s - seen_s)
            if self._longest_s > self._delete_retention_s:
                raise LogChanged(
                    f"the machine was suspended for {self._longest_s / 3600:.1f} h, which is "
                    f"longer than delete.retention.ms ({self._delete_retention_s / 3600:.1f} h), "
                    "so tombstones may be lost"
                )
