"""Replay of consumer groups (KIP-848).

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/modern/consumer/
ConsumerGroup.java and ConsumerGroupMember.java at 4.4.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from coordinator_state.replay.groups import CONSUMER
from coordinator_state.replay.modern_groups import (
    ModernGroup,
    ModernMember,
    Part,
    Warn,
    assigned_partitions,
    distinct_entries,
)
from coordinator_state.wire.primitives import uuid_text
from coordinator_state.wire.struct_reader import Fields

MEMBER_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
"""`modern/MemberState.java`."""

_LISTS = ("assignedPartitions", "partitionsPendingRevocation")
_NOTHING: Fields = {name: [] for name in _LISTS}


@dataclass(kw_only=True)
class ConsumerGroup(ModernGroup):
    """A consumer group.

    `owners` are the members that own a topic partition or have not revoked it yet. A coordinator
    refuses a second owner unless its member epoch is higher.
    """

    group_type: ClassVar[str] = CONSUMER
    title: ClassVar[str] = "Consumer"
    parts: ClassVar[Mapping[int, Part]] = {
        3: Part.GROUP,
        4: Part.PARTITIONS,
        5: Part.MEMBER,
        6: Part.TARGET_EPOCH,
        7: Part.TARGET,
        8: Part.CURRENT,
        16: Part.REGULAR_EXPRESSION,
    }
    member_states: ClassVar[Mapping[int, str]] = MEMBER_STATES

    regular_expressions: dict[str, Fields] = field(default_factory=dict)
    owners: dict[tuple[UUID, int], frozenset[str]] = field(default_factory=dict)

    def _subscribed_topics(self) -> tuple[str, ...]:
        topics = self._topics_of_members()
        for resolved in self.regular_expressions.values():
            topics.update(resolved["topics"])
        return tuple(sorted(topics))

    def _member_fields(
        self, member: ModernMember, metadata: Fields, names: Mapping[str, str]
    ) -> Fields:
        current = member.current or _NOTHING
        classic = metadata.get("classicMemberMetadata")
        revoked = current["partitionsPendingRevocation"]
        assigned = current["assignedPartitions"]
        if self.release.describes_revocations:
            assigned = [*assigned, *revoked]
        return {
            "session_timeout_ms": None if classic is None else classic["sessionTimeoutMs"],
            "subscribed_topics": tuple(metadata.get("subscribedTopicNames", ())),
            "subscribed_regex": metadata.get("subscribedTopicRegex") or None,
            "assignment": assigned_partitions(assigned, names),
            "target_assignment": self._target(member.member_id, names),
            "pending_revocation": assigned_partitions(revoked, names),
        }

    def _read_current(self, value: Fields, warn: Warn) -> Fields:
        keeps_last = self.release.keeps_last_partitions
        return distinct_entries(value, _LISTS, "topicId", keeps_last=keeps_last, warn=warn)

    def _replay_other(self, part: Part, name: str, value: Fields | None, _warn: Warn) -> None:
        if part is Part.REGULAR_EXPRESSION:
            if value is None:
                self.regular_expressions.pop(name, None)
            else:
                self.regular_expressions[name] = value
        elif part is Part.PARTITIONS:
            # Written up to 4.0; later coordinators ignore its content.
            topics = [] if value is None else value["topics"]
            self.topic_names = {uuid_text(t["topicId"]): t["topicName"] for t in topics}

    def _update_member(self, member: ModernMember, warn: Warn) -> None:
        self._disown(member.member_id)
        seen: set[tuple[UUID, int]] = set()
        for owned in _owned(member):
            others = self.owners.get(owned, frozenset())
            at = [self.members[other].epoch or 0 for other in others]
            at += [member.epoch or 0] if owned in seen else []
            if at and max(at) >= (member.epoch or 0):
                topic_id, partition = owned
                warn(
                    f"Cannot set the epoch of {uuid_text(topic_id)}-{partition} to {member.epoch} "
                    f"because the partition is still owned at epoch {max(at)}"
                )
            seen.add(owned)
        for owned in seen:
            self.owners[owned] = self.owners.get(owned, frozenset()) | {member.member_id}
        self.members[member.member_id] = member

    def _remove_member(self, member_id: str) -> None:
        self._disown(member_id)
        del self.members[member_id]

    def _disown(self, member_id: str) -> None:
        known = self.members.get(member_id)
        for owned in set() if known is None else set(_owned(known)):
            others = self.owners[owned] - {member_id}
            if others:
                self.owners[owned] = others
            else:
                del self.owners[owned]


def _owned(member: ModernMember) -> Iterator[tuple[UUID, int]]:
    """Yield the assigned partitions and the ones pending revocation, each list deduplicated."""
    current = member.current or _NOTHING
    for name in _LISTS:
        yield from {
            (entry["topicId"], partition)
            for entry in current[name]
            for partition in entry["partitions"]
        }
