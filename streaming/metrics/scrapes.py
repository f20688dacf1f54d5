"""Caches one collection of metrics for all scrapes of an interval.

A scrape starts a collection in a background thread if the cached one is too old. Up to 4 scrapes
wait for it, for some seconds each. Further scrapes, and scrapes that time out, get the previous
collection. An aborted scrape therefore leaves no thread and no work behind.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from streaming.metrics.collection import Family, exposition

STALE_S: Final = 300.0
"""Older collections are not served: Prometheus looks back 5 minutes for a sample."""
_MAX_WAITING: Final = 4
"""Fewer than the threads of the server, so other requests are answered at once."""
_GZIP_LEVEL: Final = 5


@dataclass(slots=True, eq=False)
class Collection:
    """The metrics of one collection, and their text in each requested format."""

    families: list[Family]
    began_at: float
    fresh_until: float
    """Until when scrapes do not start the next collection."""
    _texts: dict[tuple[bool, bool], bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self, *, is_openmetrics: bool, is_gzip: bool) -> bytes:
        """The metrics in a format; each format is created once and cached."""
        form = is_openmetrics, is_gzip
        with self._lock:
            if form not in self._texts:
                plain = exposition(self.families, is_openmetrics=is_openmetrics)
                self._texts[form] = gzip.compress(plain, _GZIP_LEVEL) if is_gzip else plain
            return self._texts[form]


@dataclass(slots=True, eq=False)
class Scrapes:
    """Answers scrapes from collections that start at least `interval_s` apart.

    A collection is also served for at least as long as it took: a slow one does not run all the
    time.
    """

    collect: Callable[[], list[Family]]
    interval_s: float
    clock: Callable[[], float] = time.monotonic
    _latest: Collection | None = None
    _running: threading.Event | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(_MAX_WAITING)
    )

    def latest(self, wait_s: float) -> Collection | None:
        """A fresh collection, or after `wait_s` the previous one; None if that is stale."""
        with self._lock:
            if self._latest is not None and self.clock() < self._latest.fresh_until:
                return self._latest
            running = self._running or self._begin()
        if self._places.acquire(blocking=False):
            try:
                running.wait(wait_s)
            finally:
                self._places.release()
        latest = self._latest
        return latest if latest and self.clock() - latest.began_at <= STALE_S else None

    def _begin(self) -> threading.Event:
        """Start a collection; the caller holds the lock."""
        # Set the event only after `start`, which may fail: nothing would ever set it then.
        threading.Thread(target=self._collect, name="collection", daemon=True).start()
        self._running = threading.Event()
        return self._running

    def _collect(self) -> None:
        began_at = self.clock()
        collection: Collection | None = None
        try:
            families = self.collect()
            now = self.clock()
            fresh_until = max(began_at + self.interval_s, 2 * now - began_at)
            collection = Collection(families, began_at, fresh_until)
        finally:
            with self._lock:
                running, self._running = self._running, None
                self._latest = collection or self._latest
            if running is not None:
                running.set()
