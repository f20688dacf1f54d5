"""The tables at any moment of a time span."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader


class Past:
    """The tables at any moment of a time span; reads bases and history once.

    Moments before the first base are read from snapshots, as far as they are kept.

    Args:
        newest: the newest tables.
        since: the first moment.
        until: the last moment; by default that of `newest`.
        group_ids: the groups whose rows are read; all if None.
    """

    def __init__(
        self,
        newest: TableReader,
        *,
        since: datetime,
        until: datetime | None = None,
        group_ids: Collection[str] | None = None,
    ) -> None:
        self._newest = newest
        self._rebuilding = newest.rebuilding(since, until or newest.moment, group_ids)

    def at(self, moment: datetime) -> TableReader:
        """The tables at a moment; its `before` reads nothing again within the span.

        Raises:
            ConfigurationError: the tables do not reach back to the moment, or cannot be read.
        """
        found = self._newest.rebuilt(moment, self._rebuilding)
        return TableReader(self._newest.tables, as_of=moment) if found is None else found

    def before(self, moment: datetime) -> TableReader | None:
        """The same; None if the tables do not reach back to the moment."""
        try:
            return self.at(moment)
        except ConfigurationError:
            return None
