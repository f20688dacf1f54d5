"""A group of the consumer protocol (KIP-848).

A heartbeat appends all its changes in one batch: the member's subscription, the group epoch, the
target assignment, and the member's next step towards it. In its old epoch the member first revokes
the partitions that are not in the target. Then it moves to the target's epoch, and gets each new
partition once no other member has it.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`consumerGroupHeartbeat`, `consumerGroupLeave`), modern/consumer/ConsumerGroup.java and
CurrentAssignmentBuilder.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.group import MAX_POLL_MS, Group, Member, ranges
from coordinator_state.model.group_coordinator import Place
from coordinator_state.model.log import KeyAndValue, Producer
from coordinator_state.model.records import (
    Assigned,
    current_assignment,
    group_epoch,
    member_subscription,
    removed_group,
    removed_member,
    target_assignment,
    target_epoch,
    topic_partitions,
)
from coordinator_state.replay.offsets import CommittedOffset

JOIN_EPOCH: Final = 0
"""The epoch of a member without an assignment."""
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that may return."""


class MemberState(IntEnum):
    """The progress of a member towards its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions, and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members must revoke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The current assignment of a member; `revoking` has partitions that it must give back."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = frozenset()
    revoking: Assigned = frozenset()

    def value(self) -> dict[str, Any]:
        """The fields of its record."""
        return {
            "memberEpoch": self.epoch,
            "previousMemberEpoch": self.previous_epoch,
            "state": int(self.state),
            "assignedPartitions": topic_partitions(self.assigned),
            "partitionsPendingRevocation": topic_partitions(self.revoking),
        }


class ConsumerGroup(Group):
    """A consumer group.

    Attributes:
        epoch: the group epoch.
        target_epoch: the epoch of the target assignment.
        current: the current assignments by member id.
        targets: the target assignments by member id.
    """

    def reset(self) -> None:
        self.members.clear()
        self.epoch = 0
        self.target_epoch = 0
        self.current: dict[str, Assignment] = {}
        self.targets: dict[str, Assigned] = {}
        self._metadata_hash = 0

    @property
    def state(self) -> str:
        """The state, derived from the epochs."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        is_stable = all(
            current.state is MemberState.STABLE and current.epoch == self.target_epoch
            for current in self.current.values()
        )
        return "Stable" if is_stable else "Reconciling"

    def tombstones(self) -> list[KeyAndValue]:
        return removed_group(self.group_id)

    def expiry_base_ms(self, offset: CommittedOffset) -> int:
        return offset.commit_timestamp_ms

    def commit(
        self,
        offsets: Mapping[Place, int],
        member: Member | None = None,
        producer: Producer | None = None,
    ) -> bool:
        """Commit offsets; before the first member joins, that creates a simple group."""
        if self.group_id in self.coordinator.groups:
            return super().commit(offsets, member, producer)
        return ClassicGroup(self.coordinator, self.group_id, ()).commit(offsets, member, producer)

    # --- heartbeats

    def _step(self) -> bool:
        changes = [self._heartbeat(member) for member in self.live]
        return any(changes)

    def _heartbeat(self, member: Member) -> bool:
        """A heartbeat of a client, which first joins; returns whether something changed."""
        records: list[KeyAndValue] = []
        is_known = self.has(member)
        if not is_known and not self._join(member, records):
            return False
        metadata_hash = self.coordinator.topics.metadata_hash(self.topics)
        has_new_topics = metadata_hash != self._metadata_hash
        if self.epoch == 0 or has_new_topics or member.member_id not in self.targets:
            self._begin_epoch(metadata_hash, records)
        if self.epoch > self.target_epoch:
            self._assign(records)
        self._take_step(member, records)
        if records:
            self._append(records)
        return self._hear(member) or not is_known

    def _join(self, member: Member, records: list[KeyAndValue]) -> bool:
        """Add a client; False if its instance id still belongs to another one."""
        known = self._static_member(member.instance_id)
        if known is not None and self.current[known.member_id].epoch != STATIC_LEAVE_EPOCH:
            return False
        member.member_id, current = str(self.coordinator.new_id()), Assignment()
        if known is not None:
            current = replace(self.current.pop(known.member_id), epoch=0, previous_epoch=0)
            self.targets[member.member_id] = self.targets.pop(known.member_id)
            records += removed_member(self.group_id, known.member_id)
            self._replace(known, member)
        self.members[member.member_id] = member
        self.current[member.member_id] = current
        subscription = {
            "instanceId": member.instance_id,
            "clientId": member.client_id,
            "clientHost": member.host,
            "subscribedTopicNames": sorted(self.topics),
            "rebalanceTimeoutMs": MAX_POLL_MS,
        }
        records.append(member_subscription(self.group_id, member.member_id, subscription))
        if known is not None:
            target = self.targets[member.member_id]
            records.append(target_assignment(self.group_id, member.member_id, target))
            self._set_current(member, current, records)
        return True

    def _hear(self, member: Member) -> bool:
        """The client learns its epoch and its assignment; returns whether they changed."""
        before = member.epoch, member.places
        current, names = self.current[member.member_id], self._names
        places = sorted((names[i], p) for i, p in current.assigned if i in names)
        if not set(member.places) <= set(places):
            self._before_revoking(member)
        member.epoch, member.places = current.epoch, places
        return before != (member.epoch, member.places)

    @property
    def _names(self) -> dict[UUID, str]:
        """The subscribed topics that exist, by topic id."""
        by_name = self.coordinator.topics.by_name
        return {by_name[name].topic_id: name for name in self.topics if name in by_name}

    # --- assignments

    def _begin_epoch(self, metadata_hash: int, records: list[KeyAndValue]) -> None:
        self.epoch += 1
        self._metadata_hash = metadata_hash
        records.append(group_epoch(self.group_id, self.epoch, metadata_hash))

    def _assign(self, records: list[KeyAndValue]) -> None:
        """Compute the target assignment of the group epoch."""
        by_name = self.coordinator.topics.by_name
        partitions = [(by_name[topic].topic_id, partition) for topic, partition in self.places()]
        for member_id, target in ranges(partitions, self.members.values()).items():
            if self.targets.get(member_id) != frozenset(target):
                self.targets[member_id] = frozenset(target)
                records.append(target_assignment(self.group_id, member_id, self.targets[member_id]))
        self.target_epoch = self.epoch
        records.append(target_epoch(self.group_id, self.target_epoch))

    def _take_step(self, member: Member, records: list[KeyAndValue]) -> None:
        """The next step of a member towards its target assignment, if there is one."""
        current = self.current[member.member_id]
        if current.state is MemberState.STABLE and current.epoch == self.target_epoch:
            return
        target = self.targets[member.member_id]
        kept = current.assigned & target
        # A client does not have to give back partitions of a deleted topic.
        revoking = frozenset(p for p in current.assigned - target if p[0] in self._names)
        if revoking:
            state, epoch, assigned = MemberState.UNREVOKED_PARTITIONS, current.epoch, kept
        else:
            assigned = kept | (target - self._owned_by_others(member))
            is_complete = assigned == target
            state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
            epoch = self.target_epoch
        after = replace(current, epoch=epoch, state=state, assigned=assigned, revoking=revoking)
        if after != current:
            self._set_current(member, replace(after, previous_epoch=current.epoch), records)

    def _owned_by_others(self, member: Member) -> Assigned:
        others = (c for member_id, c in self.current.items() if member_id != member.member_id)
        return frozenset().union(*(c.assigned | c.revoking for c in others))

    def _set_current(self, member: Member, current: Assignment, records: list[KeyAndValue]) -> None:
        self.current[member.member_id] = current
        records.append(current_assignment(self.group_id, member.member_id, current.value()))

    # --- members leave

    def _leave_for_now(self, member: Member) -> None:
        records: list[KeyAndValue] = []
        current = replace(
            self.current[member.member_id], epoch=STATIC_LEAVE_EPOCH, revoking=frozenset()
        )
        self._set_current(member, current, records)
        self._append(records)

    def _remove(self, members: Sequence[Member]) -> None:
        records: list[KeyAndValue] = []
        for member in members:
            for by_member_id in (self.members, self.current, self.targets):
                by_member_id.pop(member.member_id)
            records += removed_member(self.group_id, member.member_id)
        topics = self.topics if self.members else ()
        self._begin_epoch(self.coordinator.topics.metadata_hash(topics), records)
        self._append(records)
