"""What happened to groups and to their offsets, told from the records of the log.

Group records, by what was there before and after each:

* `group_created`: a record made a group of this type (a simple group, made by an offset commit
  alone, gives way to it without a word); `group_deleted`: the group's tombstone;
* `rebalance`: another generation, or group epoch;
* `member_joined`, `member_left`; `group_emptied`: the last one left;
* `assignment_changed`: a member's assignment (of a classic group), or its target assignment. It
  has what was before and after; the member gives up and takes over partitions at its own pace.

Offsets, by the committed offset before and after each commit that took part:

* `offset_rewind`: a lower one, committed by a group with members, or by a simple one; the member is
  the one that the partition is assigned to;
* `offset_reset`: another one, committed in the name of a group that has no members, as
  `kafka-consumer-groups --reset-offsets` and the admin client do. A higher one counts only if it is
  the first since the group was emptied, or tells no leader epoch: consumers with `assign()` that
  use a group's name go on and on;
* `offset_expired`, `offset_deleted`: a tombstone, by the time at which the offset was to expire;
* `transaction_hung`: offsets waited for longer than `HUNG_AFTER_MS` for their transaction's end.
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
    """What happened."""

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
    """An event; None where it has no such thing.

    `record_offset` is that of the record with which it happened: of a transaction, the marker.
    `epoch` is a generation or a group epoch; `member_count` is that of afterwards.
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
    """Group records, replayed one by one, and what happened with each."""

    groups: GroupReplay = field(default_factory=GroupReplay)

    def replay_record(self, record: GroupRecord) -> list[GroupEvent]:
        """What happened with a group record; topics that a record names by id have no names."""
        before = _Glance.at(self.groups.states.get(record.group_id), record.name)
        self.groups.replay(record)
        after = _Glance.at(self.groups.states.get(record.group_id), record.name)
        return [
            found._replace(
                group_type=found.group_type or after.group_type or before.group_type,
                record_offset=record.record_offset,
            )
            for found in _changes(record.group_id, before, after)
        ]

    def replay_commit(
        self,
        key: OffsetKey,
        before: CommittedOffset | None,
        after: CommittedOffset,
        record_offset: int,
        topic_names: AskTopicNames = lambda _topic_ids: {},
    ) -> GroupEvent | None:
        """What a commit that took part at `record_offset` did to the offset, None if nothing.

        `topic_names` is asked for topics that an assignment names by id, to find the member.
        """
        if before is None or before.committed_offset == after.committed_offset:
            return None
        state = self._state(key.group_id)
        is_back = after.committed_offset < before.committed_offset
        is_by_nobody = not state.members and not (isinstance(state, Group) and state.is_simple)
        is_first = before.record_offset < state.record_offset
        if not is_back and not (is_by_nobody and (is_first or after.leader_epoch is None)):
            return None
        unnamed = state.unnamed_topic_ids() if isinstance(state, ModernGroup) else ()
        group = described(state, topic_names(unnamed))
        name = EventName.OFFSET_RESET if is_by_nobody else EventName.OFFSET_REWIND
        event = _of_offset(name, group, key, before, record_offset)._replace(
            offset_after=after.committed_offset,
            producer_id=after.producer_id,
        )
        return _by(event, owner(group, key))

    def replay_tombstone(
        self,
        key: OffsetKey,
        before: CommittedOffset,
        record_offset: int,
        *,
        timestamp_ms: int | None,
        retention_ms: int,
    ) -> GroupEvent:
        """What a tombstone at `record_offset` did to a committed offset."""
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
        """A group of which there is no record is a simple one: it has, or had, an offset."""
        state = self.groups.states.get(group_id)
        return simple_group(group_id) if state is None else state


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


def owner(group: Group, key: OffsetKey) -> GroupMember | None:
    """The member that a topic partition is assigned to, None where the group does not tell."""
    for member in group.members:
        for assigned in member.assignment or ():
            if (assigned.topic, assigned.partition) == (key.topic, key.partition):
                return member
    return None


@dataclass(frozen=True, slots=True)
class _Glance:
    """What a record may change of a group: of a classic one all, of others the named member."""

    group_type: str | None = None
    epoch: int | None = None
    member_count: int = 0
    members: Mapping[str, GroupMember] = field(default_factory=dict)

    @classmethod
    def at(cls, state: GroupState | None, name: str) -> _Glance:
        if state is None or (isinstance(state, Group) and state.is_simple and not state.generation):
            return cls()
        if isinstance(state, Group):
            members = {member.member_id: member for member in state.members}
            return cls(state.group_type, state.generation, len(members), members)
        member = state.described_member(name)
        members = {} if member is None else {name: member}
        return cls(state.group_type, state.epoch, len(state.members), members)


def _changes(group_id: str, before: _Glance, after: _Glance) -> Iterator[GroupEvent]:
    """What differs; record offset and group type are filled in later."""
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
        before = _Glance()
    if before.epoch != after.epoch and after.epoch:
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
    """What a member of a classic group has, or one of another type is to have; None is nothing."""
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
