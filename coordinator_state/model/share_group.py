"""A share group (KIP-932), whose members share all partitions.

Only the records of its members are written. It has no committed offsets, so the coordinator of the
model does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_state.model.group import Group, Member
from coordinator_state.model.log import KeyAndValue
from coordinator_state.model.records import record, topic_partitions
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.replay.offsets import CommittedOffset

_MEMBER, _GROUP, _CURRENT = 10, 11, 14


class ShareGroup(Group):
    """A share group; `epoch` counts the joins."""

    def reset(self) -> None:
        self.members.clear()
        self.epoch = 0

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def tombstones(self) -> list[KeyAndValue]:
        return [record(RECORD_TYPES[_GROUP], {"groupId": self.group_id}, None)]

    def expiry_base_ms(self, offset: CommittedOffset) -> int:
        return offset.commit_timestamp_ms

    def _step(self) -> bool:
        joining = [member for member in self.live if not self.has(member)]
        for member in joining:
            self._join(member)
        for member in self.live:
            member.places = self.places()
        return bool(joining)

    def _join(self, member: Member) -> None:
        self.epoch += 1
        member.member_id, member.epoch = str(self.coordinator.new_id()), self.epoch
        self.members[member.member_id] = member
        by_name = self.coordinator.topics.by_name
        assigned = topic_partitions((by_name[topic].topic_id, p) for topic, p in self.places())
        client = {"clientId": member.client_id, "clientHost": member.host}
        epochs = {"memberEpoch": self.epoch, "previousMemberEpoch": 0, "state": 0}
        self._write(_MEMBER, member, {**client, "subscribedTopicNames": self.topics})
        self._write(_GROUP, None, {"epoch": self.epoch, "metadataHash": 0})
        self._write(_CURRENT, member, {**epochs, "assignedPartitions": assigned})

    def _leave_for_now(self, member: Member) -> None:
        self._remove([member])

    def _remove(self, members: Sequence[Member]) -> None:
        for member in members:
            del self.members[member.member_id]
            self._write(_CURRENT, member, None)
            self._write(_MEMBER, member, None)

    def _write(
        self, record_type_id: int, member: Member | None, value: Mapping[str, Any] | None
    ) -> None:
        key = {"groupId": self.group_id}
        if member is not None:
            key["memberId"] = member.member_id
        written = record(RECORD_TYPES[record_type_id], key, value)
        self.coordinator.log.append([written], self.coordinator.now_ms)
