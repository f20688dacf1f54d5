"""Requests of group members and their answers, by the names of their fields in Kafka.

Source: clients/src/main/resources/common/message/{JoinGroup,SyncGroup,Heartbeat,LeaveGroup,
ConsumerGroupHeartbeat,OffsetCommit,TxnOffsetCommit,OffsetDelete,OffsetFetch}{Request,Response}.json
at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from coordinator_state.model.error_codes import ErrorCode

UNKNOWN_MEMBER_ID = ""
UNKNOWN_GENERATION = -1

A = TypeVar("A")


@dataclass(slots=True, eq=False)
class Reply(Generic[A]):
    """What a request will be answered with: a join waits for the others, a sync for the leader."""

    answer: A | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None

    def complete(self, answer: A) -> None:
        """Answer; only the first answer counts."""
        if self.answer is None:
            self.answer = answer

    def get(self) -> A:
        """The answer.

        Raises:
            LookupError: there is none yet.
        """
        if self.answer is None:
            raise LookupError("not answered yet")
        return self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """A member wants to be in the next generation; a new one has no member id.

    `protocols` are names and the member's metadata under each, in its order of preference. Since
    version 4 a new member is first given an id and has to come again with it
    (`requires_known_member_id`), since version 9 a leader may be told that nothing is to be
    assigned (`supports_skipping_assignment`).
    """

    group_id: str
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: tuple[tuple[str, bytes], ...] = ()
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    client_id: str = "consumer"
    client_host: str = "/127.0.0.1"
    requires_known_member_id: bool = True
    supports_skipping_assignment: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """`members` are told to the leader only: member id, instance id and metadata of each."""

    error_code: ErrorCode = ErrorCode.NONE
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = UNKNOWN_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    """A member asks for its assignment; the leader brings everyone's."""

    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """The member's assignment, empty where the leader left it out."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """A member that leaves; by its instance id alone, it is removed by an administrator."""

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """The error codes of the members in the order of the request."""

    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """A member of a consumer group is there (KIP-848); epoch 0 joins, -1 leaves.

    -2 is a static member that will be back. What has not changed since the last request is None;
    `owned` are the partitions that the client has, by topic id.
    """

    group_id: str
    member_id: str
    member_epoch: int
    group_instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topics: Sequence[str] | None = None
    server_assignor: str | None = None
    owned: Mapping[UUID, frozenset[int]] | None = None
    client_id: str = "consumer"
    client_host: str = "/127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    """`assigned` is what the member has from now on, None where that is what it had."""

    error_code: ErrorCode = ErrorCode.NONE
    member_id: str | None = None
    member_epoch: int = 0
    assigned: Mapping[UUID, frozenset[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """A partition's offset as a client commits it; requests have a `topic_id` since version 10."""

    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Offsets of a member, or of nobody: without a member id, of generation -1.

    Versions 2 to 4 brought a retention of the client's own, -1 for the broker's.
    """

    group_id: str
    offsets: Sequence[OffsetToCommit]
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    generation_id: int = UNKNOWN_GENERATION
    retention_time_ms: int = -1
    version: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """A partition's answer to OffsetFetch; offset -1 where nothing is committed."""

    committed_offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.NONE
