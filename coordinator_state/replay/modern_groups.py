"""The common part of consumer, share and streams groups: epochs, members, target assignments.

The state of such a group consists of records of several types. Each record replaces one part of the
state; its tombstone removes that part. Brokers delete the parts of a group in a fixed order, and a
coordinator refuses to load a log with another order. The replay applies every record, and passes
the reason for a refusal to `warn`:

* The tombstone of a member's metadata removes the member, regardless of its epoch.
* The tombstone of the target assignment's metadata sets the assignment epoch to -1, even if members
  have targets.
* The tombstone of the group's metadata deletes the group with all its parts.
* Duplicates in a list count once.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay`) and modern/ModernGroup.java at 4.4.0; `releases` has the differences of older ones.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from coordinator_state.records.group_record_values import NO_REBALANCE_TIMEOUT
from coordinator_state.replay.groups import (
    ASSIGNING,
    EMPTY,
    RECONCILING,
    STABLE,
    AssignedPartition,
    Group,
    GroupMember,
)
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_text
from coordinator_state.wire.struct_reader import Fields

Warn = Callable[[str], None]
"""Receives the reason why a coordinator refuses to load a record; raises in a strict loader."""

LEFT_EPOCH = -1
"""`LEAVE_GROUP_MEMBER_EPOCH`, and the assignment epoch after its tombstone."""

UNKNOWN_STATE = "UNKNOWN"
MEMBER_STABLE = "STABLE"


class Part(Enum):
    """The part of a group that a record sets."""

    GROUP = auto()
    MEMBER = auto()
    TARGET_EPOCH = auto()
    TARGET = auto()
    CURRENT = auto()
    PARTITIONS = auto()
    REGULAR_EXPRESSION = auto()
    TOPOLOGY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernMember:
    """A member by its records; its metadata or its current assignment creates it."""

    member_id: str
    created_record_offset: int
    epoch: int | None
    state: str | None
    metadata: Fields | None = None
    current: Fields | None = None


G = TypeVar("G", bound="ModernGroup")


@dataclass(kw_only=True)
class ModernGroup(ABC):
    """A group of one of the three types, replayed record by record.

    `created_record_offset` is the offset of the record that created it; earlier records of the
    group are ignored. `is_deleted` is true after the tombstone of its metadata.
    """

    group_type: ClassVar[str]
    title: ClassVar[str]
    """The prefix of Kafka's record names: Consumer, Share or Streams."""
    parts: ClassVar[Mapping[int, Part]]
    """The part by record type."""
    member_states: ClassVar[Mapping[int, str]]
    first_epoch: ClassVar[int | None] = 0
    """A member's epoch before its first current assignment."""
    first_state: ClassVar[str | None] = MEMBER_STABLE
    is_kept_by_targets: ClassVar[bool] = True
    """Whether a coordinator refuses to delete a group that has target assignments."""

    group_id: str
    release: Release
    created_record_offset: int
    record_offset: int
    replay_warning: str | None = None
    is_deleted: bool = False
    epoch: int = field(init=False)
    assignment_epoch: int = field(init=False)
    members: dict[str, ModernMember] = field(default_factory=dict)
    targets: dict[str, Fields] = field(default_factory=dict)
    topic_names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.epoch = self.assignment_epoch = self.release.first_epoch

    # --- answers

    @property
    def state(self) -> str:
        """The group's state, as `maybeUpdateGroupState` derives it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        if all(map(self._is_reconciled, self.members.values())):
            return STABLE
        return RECONCILING

    def unnamed_topic_ids(self) -> set[str]:
        """Return ids of assigned, target and pending topics without a name in the group's records.

        Tasks of a streams group have no topic ids.
        """
        current = [member.current or {} for member in self.members.values()]
        lists = [
            *(target.get("topicPartitions", ()) for target in self.targets.values()),
            *(fields.get("assignedPartitions", ()) for fields in current),
            *(fields.get("partitionsPendingRevocation", ()) for fields in current),
        ]
        topic_ids = {uuid_text(entry["topicId"]) for entries in lists for entry in entries}
        return topic_ids - self.topic_names.keys()

    def described(self, topic_names: Mapping[str, str] | None = None) -> Group:
        """Return the group as its coordinator describes it; `topic_names` are by topic id."""
        names = {**self.topic_names, **(topic_names or {})}
        return Group(
            group_id=self.group_id,
            group_type=self.group_type,
            state=self.state,
            protocol_type=self.group_type,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            subscribed_topics=self._subscribed_topics(),
            members=tuple(
                self._described_member(member, names) for _, member in sorted(self.members.items())
            ),
            record_offset=self.record_offset,
            created_record_offset=self.created_record_offset,
            replay_warning=self.replay_warning,
        )

    def described_member(self, member_id: str) -> GroupMember | None:
        """Return one member as in `described`, None if the group does not have it."""
        member = self.members.get(member_id)
        return None if member is None else self._described_member(member, self.topic_names)

    def _is_reconciled(self, member: ModernMember) -> bool:
        return member.state == MEMBER_STABLE and member.epoch == self.assignment_epoch

    def _topics_of_members(self) -> set[str]:
        """Return the topics that members subscribe to by name."""
        return {
            topic
            for member in self.members.values()
            if member.metadata is not None
            for topic in member.metadata["subscribedTopicNames"]
        }

    @abstractmethod
    def _subscribed_topics(self) -> tuple[str, ...]:
        """Return the topics whose offsets do not expire while the group has members."""

    def _described_member(self, member: ModernMember, names: Mapping[str, str]) -> GroupMember:
        """Return a member as its coordinator describes it; `names` are topic names by id."""
        metadata = member.metadata or {}
        timeout_ms = metadata.get("rebalanceTimeoutMs", NO_REBALANCE_TIMEOUT)
        return GroupMember(
            member_id=member.member_id,
            group_instance_id=metadata.get("instanceId"),
            client_id=metadata.get("clientId", ""),
            client_host=metadata.get("clientHost", ""),
            rack_id=metadata.get("rackId"),
            rebalance_timeout_ms=None if timeout_ms == NO_REBALANCE_TIMEOUT else timeout_ms,
            member_epoch=member.epoch,
            member_state=member.state,
            created_record_offset=member.created_record_offset,
            **self._member_fields(member, metadata, names),
        )

    @abstractmethod
    def _member_fields(
        self, member: ModernMember, metadata: Fields, names: Mapping[str, str]
    ) -> Fields:
        """Return the fields of a `GroupMember` that not all types have."""

    def _target(self, member_id: str, names: Mapping[str, str]) -> tuple[AssignedPartition, ...]:
        """Return the target assignment of a member that is assigned topic partitions."""
        target = self.targets.get(member_id, {"topicPartitions": ()})
        return assigned_partitions(target["topicPartitions"], names)

    # --- replay

    def copy(self: G) -> G:
        """Return a copy whose replay does not change this group."""
        clone = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(clone, name, dict(value))
        return clone

    def replay(
        self, record_type: int, name: str, value: Fields | None, record_offset: int, warn: Warn
    ) -> None:
        """Replay one record of this group's type; a tombstone has no value.

        `name` is the member id or the regular expression of the key, "" if it has neither.
        """
        self.record_offset = record_offset
        part = self.parts[record_type]
        if part is Part.GROUP:
            self._replay_group(value, warn)
        elif part is Part.TARGET_EPOCH:
            self._replay_target_epoch(value, warn)
        elif part is Part.TARGET:
            self._replay_target(name, value, warn)
        elif part is Part.MEMBER:
            self._replay_member(name, value, record_offset, warn)
        elif part is Part.CURRENT:
            self._replay_current(name, value, record_offset, warn)
        else:
            self._replay_other(part, name, value, warn)

    def _replay_group(self, value: Fields | None, warn: Warn) -> None:
        if value is not None:
            self.epoch = value["epoch"]
            return
        reason = self._why_not_to_delete()
        if reason is not None:
            warn(f"Received a tombstone record to delete group {self.group_id} but {reason}")
        self.is_deleted = True

    def _why_not_to_delete(self) -> str | None:
        if self.members:
            return f"the group still has {len(self.members)} members."
        if self.targets and self.is_kept_by_targets:
            return f"the target assignment still has {len(self.targets)} members."
        if self.assignment_epoch != LEFT_EPOCH:
            return f"did not receive {self.title}GroupTargetAssignmentMetadataValue tombstone."
        return None

    def _replay_target_epoch(self, value: Fields | None, warn: Warn) -> None:
        if value is None and self.targets:
            warn(
                "Received a tombstone record to delete target assignment of "
                f"{self.group_id} but the assignment still has {len(self.targets)} members."
            )
        self.assignment_epoch = LEFT_EPOCH if value is None else value["assignmentEpoch"]

    def _replay_target(self, member_id: str, value: Fields | None, warn: Warn) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            warn_of_repeated((entry["topicId"] for entry in value["topicPartitions"]), warn)
            self.targets[member_id] = value

    def _replay_member(
        self, member_id: str, value: Fields | None, record_offset: int, warn: Warn
    ) -> None:
        if value is not None:
            member = replace(self._member(member_id, record_offset), metadata=value)
            self._update_member(member, warn)
        elif member_id in self.members:
            reason = self._why_not_to_remove(self.members[member_id])
            if reason is not None:
                warn(f"Received a tombstone record to delete member {member_id} {reason}")
            self._remove_member(member_id)

    def _why_not_to_remove(self, member: ModernMember) -> str | None:
        if member.epoch != LEFT_EPOCH:
            return f"but did not receive {self.title}GroupCurrentMemberAssignmentValue tombstone."
        if member.member_id in self.targets:
            return f"but did not receive {self.title}GroupTargetAssignmentMetadataValue tombstone."
        return None

    def _replay_current(
        self, member_id: str, value: Fields | None, record_offset: int, warn: Warn
    ) -> None:
        if value is not None:
            value = self._read_current(value, warn)
            member = replace(
                self._member(member_id, record_offset),
                epoch=value["memberEpoch"],
                state=self.member_states.get(value["state"], UNKNOWN_STATE),
                current=value,
            )
            self._update_member(member, warn)
        elif member_id in self.members:
            member = replace(self.members[member_id], epoch=LEFT_EPOCH, current=None)
            self._update_member(member, warn)

    def _read_current(self, value: Fields, warn: Warn) -> Fields:
        """Return a current assignment as the coordinator reads it."""
        warn_of_repeated((entry["topicId"] for entry in value["assignedPartitions"]), warn)
        return value

    @abstractmethod
    def _replay_other(self, part: Part, name: str, value: Fields | None, warn: Warn) -> None:
        """Replay a part that only this type of group has."""

    def _member(self, member_id: str, record_offset: int) -> ModernMember:
        known = self.members.get(member_id)
        if known is not None:
            return known
        return ModernMember(
            member_id=member_id,
            created_record_offset=record_offset,
            epoch=self.first_epoch,
            state=self.first_state,
        )

    def _update_member(self, member: ModernMember, _warn: Warn) -> None:
        self.members[member.member_id] = member

    def _remove_member(self, member_id: str) -> None:
        del self.members[member_id]


def warn_of_repeated(keys: Iterable[Any], warn: Warn) -> None:
    """Warn of a duplicate key in a list that Kafka converts to a map."""
    for key, times in Counter(keys).items():
        if times > 1:
            warn(f"Duplicate key {uuid_text(key) if isinstance(key, UUID) else key}")
            return


def distinct_entries(
    value: Fields, lists: Iterable[str], key: str, *, keeps_last: bool, warn: Warn
) -> Fields:
    """Return a value without the entries that another of the same key in their list replaces.

    Releases whose coordinator keeps the first and refuses a second (`keeps_last` is false) leave
    the value as it is, and a duplicate key is passed to `warn`.
    """
    for name in lists:
        if keeps_last:
            value = {**value, name: list({entry[key]: entry for entry in value[name]}.values())}
        else:
            warn_of_repeated((entry[key] for entry in value[name]), warn)
    return value


def assigned_partitions(
    topic_partitions: Iterable[Fields], names: Mapping[str, str]
) -> tuple[AssignedPartition, ...]:
    """Return sorted, distinct topic partitions, with topic names if known."""
    pairs = {
        (uuid_text(entry["topicId"]), partition)
        for entry in topic_partitions
        for partition in entry["partitions"]
    }
    return tuple(
        AssignedPartition(topic=names.get(topic_id), topic_id=topic_id, partition=partition)
        for topic_id, partition in sorted(pairs)
    )
