"""Events of groups and their offsets, derived from the records of the log.

Events of group records compare the group before and after each record:

* `group_created`: a record created a group of this type. It may replace a simple group, which gets
  no event of its own. `group_deleted`: the group's tombstone.
* `rebalance`: the generation or group epoch changed.
* `member_joined`, `member_left`; `group_emptied`: the last member left.
* `assignment_changed`: the assignment of a classic member or the target assignment of another
  member changed. The event has both assignments. The member revokes and takes over the partitions
  later, at its own pace.

Events of offsets compare the committed offset before and after each applied commit:

* `offset_rewind`: a lower offset in a group with members or in a simple group. The member is the
  owner of the partition.
* `offset_reset`: another offset in a group without members, as `kafka-consumer-groups
  --reset-offsets` and the admin client commit it. A higher offset counts only if it is the first
  commit since the group became empty, or has no leader epoch: consumers with `assign()` may commit
  under the group's name continuously.
* `offset_expired`, `offset_deleted`: a tombstone after or before the expiry time of the offset.
* `transaction_hung`: a transactional commit was pending for longer than `HUNG_AFTER_MS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from coordinator_state.replay.expiry import expiry
from coordinator_state.replay.group_replay import (
    AskTopicNames,
    GroupRecord,
    GroupReplay,
    GroupState,
    described,
)
from coordinator_state.replay.groups import (
    CLASSIC,
    NO_RECORD_OFFSET,
    AssignedPartition,
    AssignedTask,
    Group,
    GroupMember,
    simple_group,
)
from coordinator_state.replay.modern_groups import ModernGroup
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey

HUNG_AFTER_MS: Final = 60_000
"""The default of `transaction.timeout.ms`."""


class EventName(str, Enum):
    """The names of events of groups, members and offsets."""

    GROUP_CREATED = "group_created"
    GROUP_EMPTIED = "group_emptied"
    GROUP_DELETED = "group_deleted"
    REBALANCE = "rebalance"
    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    ASSIGNMENT_CHANGED = "assignment_changed"
    OFFSET_REWIND = "offset_rewind"
    OFFSET_RESET = "offset_reset"
    OFFSET_DELETED = "offset_deleted"
    OFFSET_EXPIRED = "offset_expired"
    TRANSACTION_HUNG = "transaction_hung"


Partitions = tuple[AssignedPartition, ...] | None
Tasks = tuple[AssignedTask, ...] | None


class GroupEvent(NamedTuple):
    """An event; attributes that do not apply to it are None.

    `record_offset` is the offset of the record that caused it, in a transaction of the marker. The
    epochs are generations or group epochs. `member_count` is the count after the event.
    """

    event: EventName
    group_id: str
    record_offset: int
    group_type: str | None = None
    member_count: int | None = None
    epoch_before: int | None = None
    epoch_after: int | None = None
    member_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    assignment_before: Partitions = None
    assignment_after: Partitions = None
    tasks_before: Tasks = None
    tasks_after: Tasks = None
    topic: str | None = None
    partition: int | None = None
    offset_before: int | None = None
    offset_after: int | None = None
    producer_id: int | None = None
    outcome: str | None = None
    duration_ms: int | None = None


@dataclass(slots=True)
class GroupEventReplay:
    """Replays group records one by one and returns the events of each."""

    groups: GroupReplay = field(default_factory=GroupReplay)

    def replay_record(self, record: GroupRecord) -> list[GroupEvent]:
        """Replay a group record and return its events; topics known only by id have no names."""
        before = _GroupFacts.of(self.groups.states.get(record.group_id), record.name)
        self.groups.replay(record)
        after = _GroupFacts.of(self.groups.states.get(record.group_id), record.name)
        return [
            event._replace(
                group_type=event.group_type or after.group_type or before.group_type,
                record_offset=record.record_offset,
            )
            for event in _changes(record.group_id, before, after)
        ]

    def replay_commit(
        self,
        key: OffsetKey,
        before: CommittedOffset | None,
        after: CommittedOffset,
        record_offset: int,
        topic_names: AskTopicNames = lambda _topic_ids: {},
    ) -> GroupEvent | None:
        """Return the event of a commit that was applied at `record_offset`, None if it has none.

        `topic_names` returns names for topic ids in assignments; they are needed to find the owner.
        """
        if before is None or before.committed_offset == after.committed_offset:
            return None
        state = self._state(key.group_id)
        is_back = after.committed_offset < before.committed_offset
        is_empty_group = not state.members and not (isinstance(state, Group) and state.is_simple)
        is_first = before.record_offset < state.record_offset
        if not is_back and not (is_empty_group and (is_first or after.leader_epoch is None)):
            return None
        unnamed = state.unnamed_topic_ids() if isinstance(state, ModernGroup) else ()
        group = described(state, topic_names(unnamed))
        name = EventName.OFFSET_RESET if is_empty_group else EventName.OFFSET_REWIND
        event = _of_offset(name, group, key, before, record_offset)._replace(
            offset_after=after.committed_offset,
            producer_id=after.producer_id,
        )
        return _by(event, owners(group).get((key.topic, key.partition)))

    def replay_tombstone(
        self,
        key: OffsetKey,
        before: CommittedOffset,
        record_offset: int,
        *,
        timestamp_ms: int | None,
        retention_ms: int,
    ) -> GroupEvent:
        """Return the event of a tombstone at `record_offset` that removed a committed offset."""
        group = described(self._state(key.group_id))
        expires = expiry(
            group,
            key.topic,
            commit_timestamp_ms=before.commit_timestamp_ms,
            expire_timestamp_ms=before.expire_timestamp_ms,
            is_pending=False,
            retention_ms=retention_ms,
        )
        is_due = expires.at_ms is not None and (timestamp_ms or 0) >= expires.at_ms
        name = EventName.OFFSET_EXPIRED if is_due else EventName.OFFSET_DELETED
        return _of_offset(name, group, key, before, record_offset)

    def _state(self, group_id: str) -> GroupState:
        """Return the group; without a group record it is simple, as it has or had an offset."""
        state = self.groups.states.get(group_id)
        return simple_group(group_id) if state is None else state


def repeated_rebalance(
    group_id: str, record_offset: int, member_count: int, epoch_before: int, epoch_after: int
) -> GroupEvent | None:
    """Return the event of a GroupMetadata value that changes no member, None if it has none.

    `GroupEventReplay.replay_record` would return the same.
    """
    if epoch_before == epoch_after or not epoch_after:
        return None
    return GroupEvent(
        event=EventName.REBALANCE,
        group_id=group_id,
        record_offset=record_offset,
        group_type=CLASSIC,
        member_count=member_count,
        epoch_before=epoch_before,
        epoch_after=epoch_after,
    )


def _of_offset(
    name: EventName, group: Group, key: OffsetKey, before: CommittedOffset, record_offset: int
) -> GroupEvent:
    return GroupEvent(
        event=name,
        group_id=key.group_id,
        record_offset=record_offset,
        group_type=group.group_type,
        member_count=len(group.members),
        topic=key.topic,
        partition=key.partition,
        offset_before=before.committed_offset,
    )


TopicPartition = tuple[str | None, int]
"""The topic is None if its name is unknown."""


def owners(group: Group) -> dict[TopicPartition, GroupMember]:
    """Return the member with each topic partition in its assignment, the first one of several."""
    return {
        (assigned.topic, assigned.partition): member
        for member in reversed(group.members)
        for assigned in member.assignment or ()
    }


@dataclass(frozen=True, slots=True)
class _GroupFacts:
    """The part of a group that a record may change: all members if classic, or the named member."""

    group_type: str | None = None
    epoch: int | None = None
    member_count: int = 0
    members: Mapping[str, GroupMember] = field(default_factory=dict)
    first_epoch: int = 0
    """The epoch of a group without a rebalance."""

    @classmethod
    def of(cls, state: GroupState | None, name: str) -> _GroupFacts:
        if state is None or (isinstance(state, Group) and state.is_simple and not state.generation):
            return cls()
        if isinstance(state, Group):
            members = {member.member_id: member for member in state.members}
            return cls(state.group_type, state.generation, len(members), members)
        member = state.described_member(name)
        members = {} if member is None else {name: member}
        first_epoch = state.release.first_epoch
        return cls(state.group_type, state.epoch, len(state.members), members, first_epoch)


def _changes(group_id: str, before: _GroupFacts, after: _GroupFacts) -> Iterator[GroupEvent]:
    """Yield an event per difference; the caller sets record offset and group type."""
    event = GroupEvent(
        event=EventName.GROUP_CREATED,
        group_id=group_id,
        record_offset=NO_RECORD_OFFSET,
        member_count=after.member_count,
    )
    if after.group_type is None:
        if before.group_type is not None:
            yield event._replace(event=EventName.GROUP_DELETED, epoch_before=before.epoch)
        return
    if before.group_type != after.group_type:
        yield event
        before = _GroupFacts()
    if before.epoch != after.epoch and after.epoch != after.first_epoch:
        yield event._replace(
            event=EventName.REBALANCE,
            epoch_before=before.epoch,
            epoch_after=after.epoch,
        )
    for name in sorted(before.members.keys() - after.members.keys()):
        yield _by(event._replace(event=EventName.MEMBER_LEFT), before.members[name])
    if before.member_count and not after.member_count:
        yield event._replace(event=EventName.GROUP_EMPTIED)
    for name in sorted(after.members):
        yield from _changes_of_member(event, before.members.get(name), after.members[name])


def _changes_of_member(
    event: GroupEvent, before: GroupMember | None, after: GroupMember
) -> Iterator[GroupEvent]:
    if before is after:
        return
    was, now = _assigned(before), _assigned(after)
    if before is not None and was == now:
        return
    by_member = _by(event, after)
    if before is None:
        yield by_member._replace(event=EventName.MEMBER_JOINED)
    if was != now:
        yield by_member._replace(
            event=EventName.ASSIGNMENT_CHANGED,
            assignment_before=was[0],
            assignment_after=now[0],
            tasks_before=was[1],
            tasks_after=now[1],
        )


def _assigned(member: GroupMember | None) -> tuple[Partitions, Tasks]:
    """Return a classic member's assignment or another member's target; None if empty."""
    if member is None:
        return None, None
    is_target = member.target_assignment is not None or member.target_tasks is not None
    assignment = member.target_assignment if is_target else member.assignment
    return assignment or None, member.target_tasks or None


def _by(event: GroupEvent, member: GroupMember | None) -> GroupEvent:
    if member is None:
        return event
    return event._replace(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
