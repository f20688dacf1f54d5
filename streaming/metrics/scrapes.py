"""One collection for all scrapes of an interval, however many there are.

A thread of its own collects, and only while somebody scrapes. Scrapes that come meanwhile wait for
it, a few of them and for some seconds; the others, and those that it takes too long for, get the
collection before. So scrapes that were given up leave neither threads nor work behind.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition

STALE_S: Final = 300.0
"""The oldest collection that is still an answer: as far as Prometheus looks back for a sample."""
_MOST_WAITING: Final = 4
"""Fewer than the threads that serve: the others can always answer at once."""
_GZIP_LEVEL: Final = 5


@dataclass(slots=True, eq=False)
class Collection:
    """Metrics as they were collected, and their text in each form that was asked for."""

    metrics: list[Metric]
    began_at: float
    fresh_until: float
    _texts: dict[tuple[bool, bool], bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def collect(self) -> list[Metric]:
        """The method of a registry that prometheus_client calls to format an answer."""
        return self.metrics

    def text(self, *, is_openmetrics: bool, is_gzip: bool) -> bytes:
        """The metrics in a format, made once."""
        form = is_openmetrics, is_gzip
        with self._lock:
            if form not in self._texts:
                self._texts[form] = self._made(*form)
            return self._texts[form]

    def _made(self, is_openmetrics: bool, is_gzip: bool) -> bytes:
        if not is_gzip:
            made = openmetrics_exposition.generate_latest if is_openmetrics else generate_latest
            text: bytes = made(self)
            return text
        plain = self._texts.get((is_openmetrics, False)) or self._made(is_openmetrics, False)
        return gzip.compress(plain, _GZIP_LEVEL)


@dataclass(slots=True, eq=False)
class Scrapes:
    """Answers scrapes from collections that are at least `interval_s` apart.

    One that took longer than that is kept for as long as it took.
    """

    collect: Callable[[], Iterable[Metric]]
    interval_s: float
    clock: Callable[[], float] = time.monotonic
    _latest: Collection | None = None
    _under_way: threading.Event | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(_MOST_WAITING)
    )

    def latest(self, wait_s: float) -> Collection | None:
        """A collection that is fresh, or after `wait_s` the last one; None where that is stale."""
        with self._lock:
            if self._latest is not None and self.clock() < self._latest.fresh_until:
                return self._latest
            under_way = self._under_way or self._begin()
        if self._places.acquire(blocking=False):
            try:
                under_way.wait(wait_s)
            finally:
                self._places.release()
        with self._lock:
            found = self._latest
        return found if found and self.clock() - found.began_at <= STALE_S else None

    def _begin(self) -> threading.Event:
        """Start the collection; the caller holds the lock."""
        # After the start: without a thread there is nothing to wait for.
        threading.Thread(target=self._collect, name="collection", daemon=True).start()
        self._under_way = threading.Event()
        return self._under_way

    def _collect(self) -> None:
        began_at = self.clock()
        found: Collection | None = None
        try:
            metrics = list(self.collect())
            now = self.clock()
            fresh_until = max(began_at + self.interval_s, now + (now - began_at))
            found = Collection(metrics, began_at, fresh_until)
        finally:
            with self._lock:
                under_way, self._under_way = self._under_way, None
                self._latest = found or self._latest
            if under_way is not None:
                under_way.set()
