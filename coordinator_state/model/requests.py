"""Requests of group members and their responses, with Kafka's field names and error codes.

Source: clients/src/main/resources/common/message/{JoinGroup,SyncGroup,Heartbeat,LeaveGroup,
ConsumerGroupHeartbeat,OffsetCommit,TxnOffsetCommit,OffsetDelete,OffsetFetch}{Request,Response}.json
and clients/src/main/java/org/apache/kafka/common/protocol/Errors.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar
from uuid import UUID


class Refused(Exception):
    """The coordinator refuses a request with this error code."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


class ErrorCode(IntEnum):
    """The error codes that a group coordinator uses."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113


UNKNOWN_MEMBER_ID = ""
UNKNOWN_GENERATION = -1

A = TypeVar("A")


@dataclass(slots=True, eq=False)
class Reply(Generic[A]):
    """The future answer to a request: a join waits for other members, a sync for the leader."""

    answer: A | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None

    def complete(self, answer: A) -> None:
        """Set the answer, unless there is one already."""
        if self.answer is None:
            self.answer = answer

    def get(self) -> A:
        """The answer.

        Raises:
            LookupError: the request is not answered yet.
        """
        if self.answer is None:
            raise LookupError("the request is not answered yet")
        return self.answer


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """A member joins the next generation; a new member has no member id.

    `protocols` has names and the member's metadata for each, in its order of preference. Since
    version 4 a new member first gets an id and must send the request again with it
    (`requires_known_member_id`). Since version 9 the response can tell the leader to skip the
    assignment (`supports_skipping_assignment`).
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
    """The answer to a join. Only the leader gets `members` (member id, instance id, metadata)."""

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
    """A member asks for its assignment; the leader sends the assignments of all members."""

    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """The member's assignment; empty if the leader assigned nothing to it."""

    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """A leaving member. With only an instance id, an administrator removes the member."""

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """The error codes of the members, in the order of the request."""

    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """A heartbeat of a consumer group member (KIP-848).

    Member epoch 0 joins, -1 leaves, and -2 is a static member that leaves temporarily. A field is
    None if it is unchanged since the last request. `owned` has the client's partitions by topic id.
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
    """The answer to a heartbeat. `assigned` is the new assignment, None if unchanged."""

    error_code: ErrorCode = ErrorCode.NONE
    member_id: str | None = None
    member_epoch: int = 0
    assigned: Mapping[UUID, frozenset[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """A client's commit for one partition. Requests have a `topic_id` since version 10."""

    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """The offsets of a member, or of a client without member id and with generation -1.

    In versions 2 to 4 the client can set a retention time; -1 stands for the broker's setting.
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
    """A partition's part of the OffsetFetch response; offset -1 if nothing is committed."""

    committed_offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.NONE
