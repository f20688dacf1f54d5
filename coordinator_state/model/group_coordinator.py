"""The coordinator of one log partition: its log, its groups and their offsets.

Records are appended before the memory is updated: the record offset decides which offset wins.

>>> from coordinator_state.model.classic_group import ClassicGroup
>>> coordinator = GroupCoordinator()
>>> coordinator.now_ms = 1_000
>>> ClassicGroup(coordinator, "g", ["t"]).commit({("t", 0): 42})
True
>>> coordinator.offsets[OffsetKey("g", "t", 0)].committed_offset
42
>>> [record.record_offset for batch in coordinator.log.batches() for record in batch.records]
[0]

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
OffsetMetadataManager.java and GroupCoordinatorShard.java (`deleteGroups`, `cleanupGroupMetadata`)
at 4.2.0; GroupMetadataManager.scala (`cleanupGroupMetadata`) at 3.9.1; KIP-211.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from coordinator_state.model.log import CoordinatorLog, KeyAndValue, Producer
from coordinator_state.model.records import offset_commit, offset_tombstone
from coordinator_state.model.topics import Topics
from coordinator_state.replay.offsets import (
    CONTROL_TYPE_ABORT,
    CONTROL_TYPE_COMMIT,
    CommittedOffset,
    OffsetKey,
    Semantics,
)
from coordinator_state.replay.releases import Release

MODELLED_RELEASE: Final = Release.KAFKA_4_2
"""The Kafka release whose records the model writes, under `coordinator` semantics."""

OFFSETS_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
"""Kafka's default of `offsets.retention.minutes`."""

Place = tuple[str, int]
"""A topic and a partition."""


class Refused(Exception):
    """The coordinator refuses a request; the text is Kafka's name of the error."""


class KnownGroup(ABC):
    """A group, as far as its coordinator knows it.

    Attributes:
        group_id: the group.
        topics: the names of the topics to which its members subscribe.
    """

    group_id: str
    topics: list[str]

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def reset(self) -> None:
        """Forget everything that the coordinator knew of the group, after it was deleted."""

    @abstractmethod
    def tombstones(self) -> list[KeyAndValue]:
        """The records that delete the group without members."""

    @abstractmethod
    def expiry_base_ms(self, offset: CommittedOffset) -> int:
        """The time when the retention of an offset starts (KIP-211)."""


class GroupCoordinator:
    """The groups and offsets of a log partition, which change as their records are appended.

    Args:
        semantics: write the log of Kafka 4 or of Kafka 3. Kafka 3 has no consumer groups.
        topics: the topics of the cluster.
        offsets_retention_ms: the time until an offset expires.
        seed: the seed of random ids.

    Attributes:
        now_ms: the time, which the caller advances.
        log: the log that the coordinator writes.
        groups: the groups by id.
        offsets: all committed offsets.
        pending: the pending offsets, by producer id.
    """

    def __init__(
        self,
        semantics: Semantics = Semantics.COORDINATOR,
        *,
        topics: Topics | None = None,
        offsets_retention_ms: int = OFFSETS_RETENTION_MS,
        seed: int = 0,
    ) -> None:
        self.semantics = semantics
        self.topics = topics or Topics()
        self.now_ms = 0
        self.log = CoordinatorLog()
        self.groups: dict[str, KnownGroup] = {}
        self.offsets: dict[OffsetKey, CommittedOffset] = {}
        self.pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self._offsets_retention_ms = offsets_retention_ms
        self._choose = random.Random(seed)

    @property
    def is_scala(self) -> bool:
        """Whether this is the coordinator of Kafka 3."""
        return self.semantics is Semantics.SCALA

    def new_id(self) -> UUID:
        """A random id."""
        return UUID(int=self._choose.getrandbits(128), version=4)

    # --- commits

    def commit(
        self, group_id: str, offsets: Mapping[Place, int], producer: Producer | None = None
    ) -> None:
        """Commit offsets of a group, or add them to a producer's transaction."""
        by = {} if producer is None else producer._asdict()
        base_offset = self.log.next_offset
        commits = {
            OffsetKey(group_id, *place): CommittedOffset(
                committed_offset=committed_offset,
                leader_epoch=0,
                commit_timestamp_ms=self.now_ms,
                record_offset=base_offset + delta,
                **by,
            )
            for delta, (place, committed_offset) in enumerate(offsets.items())
        }
        records = [offset_commit(key, offset, self.semantics) for key, offset in commits.items()]
        self.log.append(records, self.now_ms, producer)
        if producer is None:
            self.offsets |= commits
        else:
            self.pending.setdefault(producer.producer_id, {}).update(commits)

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        """Append the marker; COMMIT applies the producer's pending offsets, ABORT drops them."""
        control_type = CONTROL_TYPE_COMMIT if is_commit else CONTROL_TYPE_ABORT
        self.log.append_marker(producer, control_type, self.now_ms)
        for key, offset in self.pending.pop(producer.producer_id, {}).items():
            stored = self.offsets.get(key)
            if is_commit and (stored is None or stored.record_offset < offset.record_offset):
                self.offsets[key] = offset

    # --- deletion

    def delete_offsets(self, keys: Collection[OffsetKey]) -> None:
        """Delete offsets; Kafka 4 also drops the pending ones of the same partitions."""
        self._append_tombstones(keys, None)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets.

        Raises:
            Refused: there is no such group, or it has members.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise Refused("GROUP_ID_NOT_FOUND")
        if not group.is_empty:
            raise Refused("NON_EMPTY_GROUP")
        keys = dict.fromkeys(key for key in self.offsets if key.group_id == group_id)
        if not self.is_scala:
            keys |= dict.fromkeys(key for key in self._pending if key.group_id == group_id)
        self._append_tombstones(keys, group)

    def expire_offsets(self) -> None:
        """Expire offsets, as brokers do every ten minutes.

        An empty group is deleted with its last offset, or at once if it has none.
        """
        offsets_of: dict[str, dict[OffsetKey, CommittedOffset]] = defaultdict(dict)
        for key, offset in self.offsets.items():
            offsets_of[key.group_id][key] = offset
        pending = self._pending
        for group_id, group in list(self.groups.items()):
            offsets = offsets_of[group_id]
            expired = [
                key
                for key, offset in offsets.items()
                if key not in pending and self._is_expired(group, key, offset)
            ]
            is_deleted = (
                group.is_empty
                and len(expired) == len(offsets)
                and not any(key.group_id == group_id for key in pending)
            )
            if expired or is_deleted:
                self._append_tombstones(expired, group if is_deleted else None)

    def _is_expired(self, group: KnownGroup, key: OffsetKey, offset: CommittedOffset) -> bool:
        if not group.is_empty and key.topic in group.topics:
            return False
        return self.now_ms - group.expiry_base_ms(offset) >= self._offsets_retention_ms

    @property
    def _pending(self) -> set[OffsetKey]:
        return {key for offsets in self.pending.values() for key in offsets}

    def _append_tombstones(self, keys: Collection[OffsetKey], group: KnownGroup | None) -> None:
        """Append tombstones of offsets, and of a group that is deleted."""
        records = [offset_tombstone(key) for key in keys]
        if group is not None:
            records += group.tombstones()
            del self.groups[group.group_id]
            group.reset()
        if records:
            self.log.append(records, self.now_ms)
        for key in keys:
            self.offsets.pop(key, None)
        if not self.is_scala:
            remaining = {
                producer_id: {key: offset for key, offset in pending.items() if key not in keys}
                for producer_id, pending in self.pending.items()
            }
            self.pending = {producer_id: p for producer_id, p in remaining.items() if p}
