"""Clients of groups, as far as a random sequence has to remember them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatResponse,
    ErrorCode,
    JoinGroupResponse,
    Reply,
    SyncGroupResponse,
)
from coordinator_state.records.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

_VERSION: Final = 1
_GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


@dataclass(kw_only=True, eq=False)
class Client:
    """A member, or who wants to be one: `epoch` is its member epoch, or its generation."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1


@dataclass(kw_only=True, eq=False)
class ConsumerClient(Client):
    """Of the new protocol (KIP-848)."""

    owned: Mapping[UUID, frozenset[int]] = field(default_factory=dict)

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Learn from an answer; whether it goes on as a member."""
        if answer.error_code is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assigned is not None:
                self.owned = answer.assigned
        return answer.error_code not in _GONE


@dataclass(kw_only=True, eq=False)
class ClassicClient(Client):
    """Of the classic protocol; its joins and syncs are answered some time."""

    topics: tuple[str, ...]
    owned: Mapping[str, list[int]] = field(default_factory=dict)
    join: Reply[JoinGroupResponse] | None = None
    sync: Reply[SyncGroupResponse] | None = None

    def subscription(self, owned: Mapping[str, list[int]]) -> bytes:
        """Its metadata under each protocol."""
        partitions = [{"topic": topic, "partitions": ps} for topic, ps in owned.items()]
        fields = {"topics": list(self.topics), "userData": None, "ownedPartitions": partitions}
        return encode_subscription(fields, _VERSION)

    def hear(self) -> bool:
        """Learn from what has been answered; whether it goes on, as a member or to be one."""
        error_codes = []
        if self.join is not None and self.join.is_done:
            joined, self.join = self.join.get(), None
            error_codes.append(joined.error_code)
            if joined.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id, self.epoch = joined.member_id, joined.generation_id
        if self.sync is not None and self.sync.is_done:
            synced, self.sync = self.sync.get(), None
            error_codes.append(synced.error_code)
            if synced.error_code is ErrorCode.NONE:
                assigned = decode_assignment(synced.assignment)["assignedPartitions"]
                self.owned = {topic["topic"]: list(topic["partitions"]) for topic in assigned}
        is_known = bool(self.member_id) or self.join is not None
        return is_known and not any(code in _GONE for code in error_codes)


def assignment(partitions: Mapping[str, list[int]]) -> bytes:
    """What a leader gives to a member.

    A topic without partitions is left out: of such a one a broker writes an empty list where the
    group becomes a consumer group.
    """
    topics = [{"topic": topic, "partitions": ps} for topic, ps in partitions.items() if ps]
    return encode_assignment({"assignedPartitions": topics, "userData": None}, _VERSION)
