"""The tables at any moment of a time span."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables.filters import of_groups
from streaming.tables.kept_history import KEPT, KeptHistory
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    Table,
)


class Past:
    """The tables at any moment of a time span; reads bases and history once.

    Moments before the first base are read from snapshots, as far as they are kept.

    Args:
        newest: the newest tables.
        since: the first moment.
        until: the last moment; by default that of `newest`.
        group_ids: the groups whose rows are read; all if None.
        prefers_snapshots: whether all moments are read from snapshots as far as they are kept. Of
            all groups, this takes less time.
        keeps: the tables of history whose rows are read once. A table that is read for one moment
            only is better read by itself.
    """

    def __init__(
        self,
        newest: TableReader,
        *,
        since: datetime,
        until: datetime | None = None,
        group_ids: Collection[str] | None = None,
        prefers_snapshots: bool = False,
        keeps: Collection[Table] = KEPT,
    ) -> None:
        self._newest = copy(newest)
        until = until or newest.moment
        self._rebuilding = newest.rebuilding(since, until, group_ids)
        self._rebuilding.prefers_snapshots = prefers_snapshots
        kept = KeptHistory(newest.of_kafka().read, since, until, group_ids, tables=keeps)
        if group_ids is not None:
            commits = self._rebuilding.commits(kept.first)
            kept.keep(OFFSET_COMMITS, kept.first, commits)
        if group_ids is not None and LOG_OFFSETS in keeps:
            kept.topics = _topics_of(newest, commits, group_ids)
        self._rebuilding.kept = kept
        self._newest.keep(self._rebuilding)

    @property
    def newest(self) -> TableReader:
        """The newest tables; their `before` reads nothing again within the span."""
        return self._newest

    def at(self, moment: datetime) -> TableReader:
        """The tables at a moment; its `before` reads nothing again within the span.

        Raises:
            ConfigurationError: the tables do not reach back to the moment, or cannot be read.
        """
        reader = None
        if not self._newest.reads_snapshot(moment, self._rebuilding):
            reader = self._newest.rebuilt(moment, self._rebuilding)
        if reader is None:
            reader = TableReader(self._newest.tables, as_of=moment, rebuilding=self._rebuilding)
        return reader

    def before(self, moment: datetime) -> TableReader | None:
        """The same; None if the tables do not reach back to the moment.

        Raises:
            TablesUnavailable: the tables cannot be read now.
        """
        try:
            return self.at(moment)
        except TablesUnavailable:
            raise
        except ConfigurationError:
            return None


def _topics_of(newest: TableReader, commits: pa.Table, group_ids: Collection[str]) -> set[str]:
    """The topics of which groups have committed offsets, or that are assigned to their members."""
    offsets = newest.read(GROUP_OFFSETS.name, ["topic"], of_groups(group_ids))
    members = newest.read(GROUP_MEMBERS.name, ["assignment"], of_groups(group_ids))
    assigned = pc.list_flatten(members["assignment"]).combine_chunks()
    topics = [commits["topic"], offsets["topic"], pc.struct_field(assigned, "topic")]
    return {topic for column in topics for topic in pc.unique(column).drop_null().to_pylist()}
