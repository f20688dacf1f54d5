"""Cached snapshots of the tables of one cluster, and the limit of costly answers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from streaming.errors import ConfigurationError
from streaming.served.snapshot import ServedSnapshot
from streaming.served.watch import Watch
from streaming.tables.as_of import AsOf
from streaming.tables.clock import utc_now
from streaming.tables.moments import CLOCKS_DIFFER
from streaming.tables.reader import TableReader
from streaming.views.sql.slots import Slots

COSTLY_AT_ONCE: Final = 2
MAX_WAITING: Final = 4
_WAIT_S: Final = 10.0


def costly_slots() -> Slots:
    """Slots for answers of past moments, of events and of causes."""
    return Slots("costly answers", COSTLY_AT_ONCE, waiting=MAX_WAITING, wait_s=_WAIT_S)


_CACHE_S = 2.0
"""A snapshot is cached for at least this time."""
_CACHE_FACTOR = 4
"""A snapshot is cached this many times longer than its computation took, to limit CPU use.

Values that pages ask for later count, too.
"""
_SHOWN_FOR = timedelta(minutes=1)
"""An older snapshot is not shown while a new one is computed: its files may be deleted."""
_MAX_PAST = 8


@dataclass(slots=True)
class Cluster:
    """Snapshots of a tables folder, computed once and shared by all requests.

    Args:
        name: the name of the cluster in addresses.
        tables: the tables folder, or an address that delta-rs can open.
    """

    name: str
    tables: str
    watch: Watch = field(init=False)
    _newest_lock: threading.Lock = field(default_factory=threading.Lock)
    _newest: ServedSnapshot | None = None
    _computed_at_s: float = 0.0
    _took_s: float = 0.0
    _past_lock: threading.Lock = field(default_factory=threading.Lock)
    _past: OrderedDict[AsOf, ServedSnapshot] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.watch = Watch(self.tables)

    def snapshot(self, at: AsOf | None = None) -> ServedSnapshot:
        """The tables with their views, as of a past moment or version, or as of now.

        Raises:
            ConfigurationError: the tables cannot be read, or do not reach back to the moment.
        """
        if at is not None:
            with self._past_lock:
                return self._past_snapshot(at)
        # While one request computes a new snapshot, the others get the previous one.
        newest = self._newest
        if newest is not None and utc_now() - newest.at > _SHOWN_FOR:
            newest = None
        if newest is not None and not self._newest_lock.acquire(blocking=False):
            return newest
        if newest is None:
            self._newest_lock.acquire()
        try:
            return self._refresh()
        finally:
            self._newest_lock.release()

    def opened(self, at: AsOf | None) -> ServedSnapshot:
        """The tables for a page of few groups; their views are computed when they are asked for.

        Raises:
            ConfigurationError: the tables cannot be read, or do not reach back to the moment.
        """
        snapshot = self._past.get(at) if at is not None else self._fresh
        return snapshot or ServedSnapshot(self._reader(at))

    @property
    def _fresh(self) -> ServedSnapshot | None:
        """The newest snapshot, if it may still be shown."""
        if self._newest is None:
            return None
        lasts_s = max(_CACHE_S, _CACHE_FACTOR * (self._took_s + self._newest.spent_s))
        return self._newest if time.monotonic() < self._computed_at_s + lasts_s else None

    def _refresh(self) -> ServedSnapshot:
        if self._fresh is not None:
            return self._fresh
        begun_s = time.monotonic()
        reader = TableReader(self.tables)
        self._took_s = time.monotonic() - begun_s
        self._newest = newest = _computed(reader)
        self._computed_at_s = time.monotonic()
        return newest

    def _past_snapshot(self, at: AsOf) -> ServedSnapshot:
        if at not in self._past:
            self._past[at] = _computed(self._reader(at))
        self._past.move_to_end(at)
        while len(self._past) > _MAX_PAST:
            self._past.popitem(last=False)
        return self._past[at]

    def _reader(self, at: AsOf | None) -> TableReader:
        # An answer of tables whose clock is ahead has such a moment.
        if isinstance(at, datetime) and at > utc_now() + CLOCKS_DIFFER:
            raise ConfigurationError(f"{at.isoformat()} is in the future")
        return TableReader(self.tables, as_of=at)


def _computed(reader: TableReader) -> ServedSnapshot:
    """A snapshot with the view that every page needs."""
    snapshot = ServedSnapshot(reader)
    _ = snapshot.evaluation
    return snapshot
