"""Caches one collection of metrics for all scrapes of an interval.

While scrapes come, a collection is made ahead of the next one, so a scrape has no work to wait for
(`Scrapes.ahead`). A scrape starts a collection in a background thread if the cached one is too old.
Up to 4 scrapes wait for it, for some seconds each. Further scrapes, and scrapes that time out, get
the previous collection. An aborted scrape therefore leaves no thread and no work behind.
"""

from __future__ import annotations

import gzip
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric

from streaming.metrics.row_family import formatted

STALE_S: Final = 300.0
"""Older collections are not served: Prometheus looks back 5 minutes for a sample."""
_MAX_WAITING: Final = 4
"""Fewer than the threads of the server, so other requests are answered at once."""
_GZIP_LEVEL: Final = 5
_LOOK_EVERY_S: Final = 0.1
_SCRAPED_WITHIN_S: Final = 150.0
"""Longer than two intervals of a minute. Without a scrape for this time, nothing is collected."""


@dataclass(slots=True, eq=False)
class Collection:
    """The metrics of one collection, and their text in each requested format."""

    metrics: list[Metric]
    began_at: float
    due_at: float
    """When the next collection begins."""
    fresh_until: float
    """Until when scrapes do not wait for the next collection."""
    _texts: dict[tuple[bool, bool], bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self, *, is_openmetrics: bool, is_gzip: bool) -> bytes:
        """The metrics in a format; each format is created once and cached."""
        form = is_openmetrics, is_gzip
        with self._lock:
            if form not in self._texts:
                self._texts[form] = self._formatted(*form)
            return self._texts[form]

    def prepare(self, before: Collection | None) -> None:
        """Create the formats that were requested of the collection before."""
        if before is not None:
            with before._lock:
                forms = tuple(before._texts)
            for is_openmetrics, is_gzip in forms:
                self.text(is_openmetrics=is_openmetrics, is_gzip=is_gzip)

    def _formatted(self, is_openmetrics: bool, is_gzip: bool) -> bytes:
        if not is_gzip:
            return formatted(self.metrics, is_openmetrics=is_openmetrics)
        plain = self._texts.get((is_openmetrics, False)) or self._formatted(is_openmetrics, False)
        return gzip.compress(plain, _GZIP_LEVEL)


@dataclass(slots=True, eq=False)
class Scrapes:
    """Answers scrapes from collections that start at least `interval_s` apart.

    A collection is also served for at least as long as it took: a slow one does not run all the
    time.
    """

    collect: Callable[[], Iterable[Metric]]
    interval_s: float
    clock: Callable[[], float] = time.monotonic
    _is_ahead: bool = False
    _scraped_at: float = -math.inf
    _latest: Collection | None = None
    _running: threading.Event | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(_MAX_WAITING)
    )

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Make collections ahead of scrapes, in a thread, as long as scrapes come."""
        stop = threading.Event()
        self._is_ahead = True
        threading.Thread(
            target=self._collect_ahead, args=(stop,), name="collections ahead", daemon=True
        ).start()
        try:
            yield
        finally:
            stop.set()
            self._is_ahead = False

    def _collect_ahead(self, stop: threading.Event) -> None:
        while not stop.wait(_LOOK_EVERY_S):
            with self._lock:
                now, latest = self.clock(), self._latest
                is_scraped = now - self._scraped_at <= _SCRAPED_WITHIN_S
                is_due = latest is None or now >= latest.due_at
                if is_scraped and is_due and self._running is None:
                    self._begin()

    def latest(self, wait_s: float) -> Collection | None:
        """A fresh collection, or after `wait_s` the previous one; None if that is stale."""
        with self._lock:
            self._scraped_at = self.clock()
            if self._latest is not None and self.clock() < self._latest.fresh_until:
                return self._latest
            running = self._running or self._begin()
        if self._places.acquire(blocking=False):
            try:
                running.wait(wait_s)
            finally:
                self._places.release()
        with self._lock:
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
            metrics = list(self.collect())
            now = self.clock()
            took_s = now - began_at
            due_at = max(began_at + self.interval_s, now + took_s)
            # The next one may take longer.
            fresh_until = due_at + (2 * took_s + _LOOK_EVERY_S if self._is_ahead else 0)
            collection = Collection(metrics, began_at, due_at, fresh_until)
            if self._is_ahead:
                collection.prepare(self._latest)
        finally:
            with self._lock:
                running, self._running = self._running, None
                self._latest = collection or self._latest
            if running is not None:
                running.set()
