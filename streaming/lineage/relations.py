"""The topics that each group reads, from the tables, and what the catalogue knows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.group_placement import of_own_log_partition
from coordinator_state.replay.groups import SHARE
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.owners import owners
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    SHARE_PARTITIONS,
    STATE_CURRENT,
)

REPEAT_S: Final = 24 * 60 * 60.0
"""A new catalogue knows every group after a day."""
REFUSED_S: Final = 10 * 60.0
"""When an event that the catalogue refused is sent again."""

_TABLES = (GROUPS, GROUP_OFFSETS, GROUP_MEMBERS, SHARE_PARTITIONS)
_RELATION = ["group_id", "topic"]


@dataclass(frozen=True, slots=True)
class GroupTopics:
    """A group and the topics that it reads, sorted; no topics if the group is gone."""

    group_id: str
    group_type: str
    topics: tuple[str, ...] = ()


@dataclass(slots=True)
class Relations:
    """The groups of one tables folder; a snapshot with the same tables is not read again.

    A group reads the topics of its committed offsets, of its assigned partitions, and of its share
    partitions. Log partitions that are loading are left out: their groups are incomplete.
    """

    tables: str
    groups: Mapping[str, GroupTopics] = field(default_factory=dict)
    _log_partitions: int = 1
    _loaded: frozenset[int] = frozenset()
    _seen: object = None

    def refresh(self) -> None:
        """Read the newest snapshot.

        Raises:
            ConfigurationError: the tables cannot be read.
        """
        reader = TableReader(self.tables)
        self._log_partitions = reader.log_partitions
        self._loaded = frozenset(
            log_partition
            for log_partition, load in reader.load_states.items()
            if load.state == STATE_CURRENT and not load.is_reloading
        )
        versions = [reader.table_versions.get(table.name) for table in _TABLES]
        if (seen := (versions, self._log_partitions, self._loaded)) != self._seen:
            self.groups = _groups(reader, self._loaded)
            self._seen = seen

    def is_gone(self, group_id: str) -> bool:
        """Whether the tables prove that a group reads no topic any more."""
        own = partition_for(group_id, self._log_partitions)
        return group_id not in self.groups and own in self._loaded

    @property
    def is_loaded(self) -> bool:
        """Whether every log partition of the tables is loaded."""
        return bool(self._loaded) and len(self._loaded) == self._log_partitions


def _groups(reader: TableReader, loaded: frozenset[int]) -> dict[str, GroupTopics]:
    groups = reader.own(GROUPS.name, ["group_type"])
    groups = groups.filter(pc.is_in(groups["log_partition"], pa.array(loaded, pa.int32())))
    types = dict(zip(groups["group_id"].to_pylist(), groups["group_type"].to_pylist(), strict=True))
    topics: dict[str, list[str]] = {}
    for group_id, topic in _relations(reader, groups):
        topics.setdefault(group_id, []).append(topic)
    return {
        group_id: GroupTopics(group_id, types[group_id], tuple(sorted(read)))
        for group_id, read in topics.items()
    }


def _relations(reader: TableReader, groups: pa.Table) -> zip[tuple[str, str]]:
    """Every pair of a group among these and a topic that it reads."""
    is_share = pc.equal(groups["group_type"], SHARE)
    assigned = of_own_log_partition(owners(reader), reader.log_partitions)
    committed = reader.own(GROUP_OFFSETS.name, ["topic"])
    shared = reader.read(SHARE_PARTITIONS.name, _RELATION)
    sources = (
        (assigned, groups),
        # A share group commits no offsets; an earlier group of its name may have left some.
        (committed, groups.filter(pc.invert(is_share))),
        (shared.filter(pc.is_valid(shared["topic"])), groups.filter(is_share)),
    )
    pairs = pa.concat_tables(
        (
            rows.filter(pc.is_in(rows["group_id"], of["group_id"].combine_chunks())).select(
                _RELATION
            )
            for rows, of in sources
        ),
        promote_options="default",
    )
    pairs = pairs.group_by(_RELATION).aggregate([])
    return zip(*(pairs[name].to_pylist() for name in _RELATION), strict=True)


@dataclass(slots=True)
class SentGroups:
    """The groups that were sent. No event is queued: the next one is made from the tables.

    So memory is bounded by the number of groups, however long the catalogue is away.
    """

    _sent: dict[str, tuple[GroupTopics, float]] = field(default_factory=dict)
    _refused: dict[str, float] = field(default_factory=dict)

    def due(self, relations: Relations, now: float) -> list[GroupTopics]:
        """The groups to send: new, changed, gone, or sent too long ago; `now` is in seconds."""
        due = []
        for group in relations.groups.values():
            sent, until = self._sent.get(group.group_id, (None, now))
            if sent != group or until <= now:
                due.append(group)
        due += [
            GroupTopics(sent.group_id, sent.group_type)
            for sent, _ in self._sent.values()
            if relations.is_gone(sent.group_id)
        ]
        self._refused = {
            group.group_id: self._refused[group.group_id]
            for group in due
            if self._refused.get(group.group_id, now) > now
        }
        return [group for group in due if group.group_id not in self._refused]

    @property
    def is_refused(self) -> bool:
        """Whether the catalogue refused the event of a group, which is sent again later."""
        return bool(self._refused)

    def sent(self, group: GroupTopics, now: float) -> None:
        """Record that the catalogue took the event of a group."""
        if group.topics:
            self._sent[group.group_id] = group, now + REPEAT_S
        else:
            self._sent.pop(group.group_id, None)

    def refused(self, group: GroupTopics, now: float) -> None:
        """Put a group off, so that it does not hold back the others."""
        self._refused[group.group_id] = now + REFUSED_S
