"""Groups and their members as their coordinator describes them.

A group is created by a group record or, as a *simple* group, by an offset commit alone: a consumer
with `assign()` commits without joining. `group_replay` creates and deletes groups.
`classic_groups`, `consumer_groups`, `share_groups` and `streams_groups` have the rules by type.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/Group.java and
classic/ClassicGroup.java at 4.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
EXTERNAL: Final = "external"
"""The type of a consumer that keeps its offsets outside Kafka; no record has it."""

EMPTY: Final = "Empty"
STABLE: Final = "Stable"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
NOT_READY: Final = "NotReady"

NO_RECORD_OFFSET: Final = -1
"""The record offset of a group without a group record."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AssignedPartition:
    """A topic partition of a member.

    Assignments of classic members have topic names. Consumer and share groups have topic ids; the
    name is None if unknown.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group of any type; attributes that its type does not have are None.

    `subscribed_topics` and `assignment` of a classic member are None if its bytes are not those of
    the consumer protocol. `member_state` is Kafka's `MemberState`. `created_record_offset` is the
    record offset that created the member of a consumer, share or streams group.
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
    """A group as its coordinator has it after a load.

    Classic groups have `generation`. The others have `group_epoch`, `assignment_epoch` and
    `created_record_offset`, the offset of the record that created the group. Offsets of
    `subscribed_topics` do not expire while the group has members; None if the coordinator cannot
    read the subscription. `replay_warning` is the record offset at which a broker would refuse to
    load the log, and the reason.
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
        """Whether it is classic without protocol type and members: another type may replace it."""
        return self.group_type == CLASSIC and not self.protocol_type and self.state == EMPTY


def simple_group(group_id: str) -> Group:
    """Make the group that an offset commit creates for an unknown id."""
    return Group(group_id=group_id, group_type=CLASSIC, state=EMPTY, protocol_type="", generation=0)
