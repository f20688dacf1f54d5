"""Groups and their members as their coordinator answers for them.

A group comes to be in two ways: by a record of its own, or, as a *simple* group, by an offset alone
(a consumer with `assign()` commits without ever joining). `group_replay` has the rules by which
records make and unmake groups; `classic_groups`, `consumer_groups`, `share_groups` and
`streams_groups` those of each type.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/Group.java and
classic/ClassicGroup.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"

EMPTY: Final = "Empty"
STABLE: Final = "Stable"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
NOT_READY: Final = "NotReady"

NO_RECORD_OFFSET: Final = -1
"""The record offset of a group that no group record stands behind."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AssignedPartition:
    """A topic partition of a member.

    Classic members' assignments name topics; consumer and share groups keep topic ids, whose names
    are None where nobody told them.
    """

    topic: str | None
    partition: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AssignedTask:
    """A task of a streams group's member; `task_type` is active, standby or warmup."""

    task_type: str
    subtopology_id: str
    partition: int


def as_columns(
    entries: Iterable[AssignedPartition | AssignedTask] | None,
) -> list[dict[str, Any]] | None:
    """Partitions or tasks as plain values by name; None stays None."""
    if entries is None:
        return None
    return [{name: getattr(entry, name) for name in entry.__slots__} for entry in entries]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group of any type; None where its type has no such thing.

    `subscribed_topics` and `assignment` of a classic member are None where its bytes are not those
    of the consumer protocol. `member_state` is Kafka's `MemberState`; `created_record_offset` is
    that of the record that made the member of a consumer, share or streams group.
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    member_epoch: int | None = None
    member_state: str | None = None
    assignment: tuple[AssignedPartition, ...] | None = None
    target_assignment: tuple[AssignedPartition, ...] | None = None
    pending_revocation: tuple[AssignedPartition, ...] | None = None
    tasks: tuple[AssignedTask, ...] | None = None
    target_tasks: tuple[AssignedTask, ...] | None = None
    subscription_bytes: bytes | None = None
    assignment_bytes: bytes | None = None
    created_record_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its coordinator holds it after a load.

    Classic groups have `generation`, the others `group_epoch`, `assignment_epoch` and
    `created_record_offset`, that of the record that made the group. `subscribed_topics` are those
    whose offsets do not expire while the group has members, None where a coordinator cannot tell.
    `replay_warning` says where and why a broker would refuse to load the group's log.
    """

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    protocol: str | None = None
    leader: str | None = None
    generation: int | None = None
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    state_timestamp_ms: int | None = None
    subscribed_topics: tuple[str, ...] | None = None
    members: tuple[GroupMember, ...] = ()
    record_offset: int = NO_RECORD_OFFSET
    created_record_offset: int | None = None
    replay_warning: str | None = None

    @property
    def is_simple(self) -> bool:
        """Classic, without a protocol type or members: what may give way to another type."""
        return self.group_type == CLASSIC and not self.protocol_type and self.state == EMPTY


def simple_group(group_id: str) -> Group:
    """The group that an offset commit makes of an unknown id."""
    return Group(group_id=group_id, group_type=CLASSIC, state=EMPTY, protocol_type="", generation=0)
