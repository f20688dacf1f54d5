"""The tables of one cluster, as a page shows them: as they are now, or as of a moment."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from streaming.dashboard.page_snapshot import MOST_LOOKED_BACK, PageSnapshot
from streaming.errors import ConfigurationError
from streaming.lag.standing import standing_since
from streaming.tables.reader import TableReader

_FRESH_S = 2.0
"""Whoever asks within so long after a look gets what it found."""
_SHARE = 4
"""A look that takes a second is good for four: one that looks often does not take a whole core."""
_MOST_PAST = 8
_LOOK_BACK_S = 0.5
_SEEN_FOR = timedelta(minutes=1)
"""After so long without a look nobody knows what was in between."""


@dataclass(slots=True)
class Cluster:
    """Snapshots of a tables folder, computed once and shared by all who look.

    Args:
        name: as it stands in addresses.
        tables: the folder, or an address that delta-rs can open.
    """

    name: str
    tables: str
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _newest: PageSnapshot | None = None
    _good_until: float = 0.0
    _going_back: threading.Lock = field(default_factory=threading.Lock)
    _past: OrderedDict[datetime, PageSnapshot] = field(default_factory=OrderedDict)
    _since: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    _looked_at: datetime | None = None

    def snapshot(self, at: datetime | None = None) -> PageSnapshot:
        """The tables with their views, as of a moment or as they are now.

        Raises:
            ConfigurationError: they cannot be read, or do not reach back that far.
        """
        if at is not None:
            with self._going_back:
                return self._of_the_past(at)
        # While one looks anew, the others have what was there before.
        newest = self._newest
        if newest is not None and not self._looking.acquire(blocking=False):
            return newest
        if newest is None:
            self._looking.acquire()
        try:
            return self._look()
        finally:
            self._looking.release()

    def opened(self, at: datetime | None) -> PageSnapshot:
        """The same, where nothing of it is needed yet: one of the past is not computed.

        Raises:
            ConfigurationError: as above.
        """
        if at is None:
            return self.snapshot()
        return self._past.get(at) or PageSnapshot(self._reader(at))

    def since(
        self, group_id: str, status: str, snapshot: PageSnapshot, at: datetime | None
    ) -> datetime | None:
        """Since when a group is in trouble, at least; None where nobody has looked yet."""
        if at is not None:
            return snapshot.standing.get(group_id)
        seen = self._since.get(group_id)
        return seen[1] if seen is not None and seen[0] == status else None

    def _look(self) -> PageSnapshot:
        if self._newest is not None and time.monotonic() < self._good_until:
            return self._newest
        began = time.monotonic()
        self._newest = newest = _computed(TableReader(self.tables))
        took_s = time.monotonic() - began
        self._good_until = time.monotonic() + max(_FRESH_S, _SHARE * took_s)
        # What it has not found soon is there when the page is loaded again.
        looking_back = threading.Thread(target=self._look_back, args=(newest,), daemon=True)
        looking_back.start()
        looking_back.join(_LOOK_BACK_S)
        return newest

    def _look_back(self, snapshot: PageSnapshot) -> None:
        """Note since when groups are in trouble; those that were at the last look, from before."""
        before, self._looked_at = self._looked_at, snapshot.at
        is_recent = before is not None and snapshot.at - before < _SEEN_FOR
        known = {
            group_id: seen
            for group_id, seen in self._since.items()
            if is_recent and snapshot.in_trouble.get(group_id) == seen[0]
        }
        worst = [group_id for group_id in snapshot.in_trouble if group_id not in known]
        new = {group_id: snapshot.in_trouble[group_id] for group_id in worst[:MOST_LOOKED_BACK]}
        since = standing_since(snapshot.reader, new, snapshot.at)
        self._since = known | {group_id: (new[group_id], at) for group_id, at in since.items()}

    def _of_the_past(self, at: datetime) -> PageSnapshot:
        if at not in self._past:
            self._past[at] = _computed(self._reader(at))
        self._past.move_to_end(at)
        while len(self._past) > _MOST_PAST:
            self._past.popitem(last=False)
        return self._past[at]

    def _reader(self, at: datetime) -> TableReader:
        if at > datetime.now(timezone.utc):
            raise ConfigurationError(f"{at.isoformat()} is yet to come")
        return TableReader(self.tables, as_of=at)


def _computed(reader: TableReader) -> PageSnapshot:
    """With what every page needs."""
    found = PageSnapshot(reader)
    _ = found.groups
    return found
