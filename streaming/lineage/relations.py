"""The topics that each group reads, from the tables."""

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

_TABLES: Final = (GROUPS, GROUP_OFFSETS, GROUP_MEMBERS, SHARE_PARTITIONS)
_RELATION: Final = ["group_id", "topic"]


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
