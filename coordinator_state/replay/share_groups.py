"""Replay of share groups (KIP-932).

Their offsets are not in `__consumer_offsets`: the share coordinator has its own topic.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/modern/share/
ShareGroup.java and ShareGroupMember.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from coordinator_state.replay.consumer_groups import MEMBER_STATES
from coordinator_state.replay.groups import EMPTY, SHARE, STABLE
from coordinator_state.replay.modern_groups import (
    LEFT_EPOCH,
    ModernGroup,
    ModernMember,
    Part,
    Warn,
    assigned_partitions,
    warn_of_repeated,
)
from coordinator_state.wire.primitives import uuid_text
from coordinator_state.wire.struct_reader import Fields


@dataclass(kw_only=True)
class ShareGroup(ModernGroup):
    """A share group; `topic_names` has the topics with initializing or initialized share state."""

    group_type: ClassVar[str] = SHARE
    title: ClassVar[str] = "Share"
    parts: ClassVar[Mapping[int, Part]] = {
        10: Part.MEMBER,
        11: Part.GROUP,
        12: Part.TARGET_EPOCH,
        13: Part.TARGET,
        14: Part.CURRENT,
        15: Part.PARTITIONS,
    }
    member_states: ClassVar[Mapping[int, str]] = MEMBER_STATES

    @property
    def state(self) -> str:
        """Empty without members, otherwise Stable."""
        return STABLE if self.members else EMPTY

    def _subscribed_topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics_of_members()))

    def _member_fields(
        self, member: ModernMember, metadata: Fields, names: Mapping[str, str]
    ) -> Fields:
        current = member.current or {"assignedPartitions": []}
        return {
            "subscribed_topics": tuple(metadata.get("subscribedTopicNames", ())),
            "assignment": assigned_partitions(current["assignedPartitions"], names),
            "target_assignment": self._target(member.member_id, names),
        }

    def _why_not_to_delete(self) -> str | None:
        reason = super()._why_not_to_delete()
        if reason is not None and not self.members and not self.targets:
            return "target assignment epoch in invalid."
        return reason

    def _why_not_to_remove(self, member: ModernMember) -> str | None:
        if member.epoch != LEFT_EPOCH:
            return "with invalid leave group epoch."
        if member.member_id in self.targets:
            return "but member exists in target assignment."
        return None

    def _replay_other(self, _part: Part, _name: str, value: Fields | None, warn: Warn) -> None:
        self.topic_names = {}
        if value is None:
            return
        for name in ("initializingTopics", "initializedTopics"):
            warn_of_repeated((topic["topicId"] for topic in value[name]), warn)
            for topic in value[name]:
                self.topic_names[uuid_text(topic["topicId"])] = topic["topicName"]
