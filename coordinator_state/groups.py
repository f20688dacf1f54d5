"""Groups and their members, and the rules by which records make and unmake them.

A group comes to be in two ways: by a record of its own, or, as a *simple* group, by an offset alone
(a consumer with `assign()` commits without ever joining). The rules of `coordinator`:

* an offset commit of an unknown group makes a simple classic group: Empty, generation 0, no
  protocol. It does so even when it is transactional and later aborted, and offset tombstones never
  take it away;
* a GroupMetadata value replaces whatever the id named; its tombstone removes the group of any type,
  while its offsets stay in the offsets map and show again with the next offset commit of the group;
* a value of any consumer, share or streams record makes a group of that type of an unknown id or
  of a simple group; the tombstone of the type's own metadata record removes the group.

`scala` builds groups only after the scan: the last GroupMetadata value of each id, and every other
id that has an offset or a still waiting one, as a simple group.

A classic group is Empty without members and Stable with some: rebalances live only in memory.

Consumer, share and streams groups are known here by id and type; their members are not replayed.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay`), OffsetMetadataManager.java (`replay`) and classic/ClassicGroup.java at 4.2.0;
GroupMetadataManager.scala (`loadGroup`) at 3.8.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from coordinator_state.consumer_protocol import decode_assignment, decode_subscription
from coordinator_state.errors import DecodeError
from coordinator_state.record_types import GROUP_METADATA_TYPE, NO_TIMESTAMP
from coordinator_state.struct_reader import Fields

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"

EMPTY: Final = "Empty"
STABLE: Final = "Stable"
UNKNOWN: Final = "Unknown"
"""`GroupState.UNKNOWN`: what this version says of groups whose records it does not replay."""

NO_RECORD_OFFSET: Final = -1
"""The record offset of a group that no group record stands behind."""

GROUP_TYPE_OF_RECORD: Final[dict[int, str]] = {
    GROUP_METADATA_TYPE: CLASSIC,
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), CONSUMER),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), STREAMS),
}
_METADATA_RECORD: Final = {
    CLASSIC: GROUP_METADATA_TYPE,
    CONSUMER: 3,
    SHARE: 11,
    STREAMS: 17,
}

NOT_REPLAYED_WARNING: Final = (
    "state and members of {group_type} groups are not replayed by this version"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartition:
    """A topic partition that a member owns."""

    topic: str | None
    partition: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a classic group (Kafka: `MemberMetadata`).

    `subscribed_topics` and `assignment` are None where the bytes are not those of the consumer
    protocol.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment_bytes: bytes
    subscribed_topics: tuple[str, ...] | None
    assignment: tuple[AssignedPartition, ...] | None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its coordinator holds it after a load."""

    group_id: str
    group_type: str
    state: str
    protocol_type: str
    protocol: str | None = None
    leader: str | None = None
    generation: int = 0
    state_timestamp_ms: int | None = None
    members: tuple[GroupMember, ...] = ()
    record_offset: int = NO_RECORD_OFFSET
    replay_warning: str | None = None

    @property
    def is_simple(self) -> bool:
        """Classic, without a protocol type: what may give way to a group of another type."""
        return self.group_type == CLASSIC and not self.protocol_type


def simple_group(group_id: str) -> Group:
    """The group that an offset commit makes of an unknown id."""
    return Group(group_id=group_id, group_type=CLASSIC, state=EMPTY, protocol_type="")


def classic_group(group_id: str, value: Fields, record_offset: int) -> Group:
    """The group that a decoded GroupMetadata value describes."""
    protocol_type = value["protocolType"]
    # By id, as in the broker's map: should an id be there twice, the last one counts.
    members = {fields["memberId"]: _member(fields, protocol_type) for fields in value["members"]}
    timestamp = value["currentStateTimestamp"]
    return Group(
        group_id=group_id,
        group_type=CLASSIC,
        state=STABLE if members else EMPTY,
        protocol_type=protocol_type,
        protocol=value["protocol"],
        leader=value["leader"],
        generation=value["generation"],
        state_timestamp_ms=None if timestamp == NO_TIMESTAMP else timestamp,
        members=tuple(members.values()),
        record_offset=record_offset,
    )


def _unreplayed_group(group_id: str, group_type: str, record_offset: int) -> Group:
    return Group(
        group_id=group_id,
        group_type=group_type,
        state=UNKNOWN,
        protocol_type=group_type,
        record_offset=record_offset,
        replay_warning=NOT_REPLAYED_WARNING.format(group_type=group_type),
    )


def _member(fields: Fields, protocol_type: str) -> GroupMember:
    subscription: Any = None
    assigned: Any = None
    if protocol_type == CONSUMER:
        try:
            subscription = decode_subscription(fields["subscription"])
        except DecodeError:
            subscription = None
        try:
            assigned = decode_assignment(fields["assignment"])
        except DecodeError:
            assigned = None
    rebalance_timeout = fields["rebalanceTimeout"]
    return GroupMember(
        member_id=fields["memberId"],
        group_instance_id=fields["groupInstanceId"],
        client_id=fields["clientId"],
        client_host=fields["clientHost"],
        # v0 has no rebalance timeout; the broker takes the session timeout for it.
        rebalance_timeout_ms=(
            fields["sessionTimeout"] if rebalance_timeout == -1 else rebalance_timeout
        ),
        session_timeout_ms=fields["sessionTimeout"],
        subscription=fields["subscription"],
        assignment_bytes=fields["assignment"],
        subscribed_topics=None if subscription is None else tuple(subscription["topics"]),
        rack_id=None if subscription is None else subscription["rackId"],
        assignment=(
            None
            if assigned is None
            else tuple(
                AssignedPartition(topic=entry["topic"], partition=partition)
                for entry in assigned["assignedPartitions"]
                for partition in entry["partitions"]
            )
        ),
    )


@dataclass(slots=True)
class GroupReplay:
    """The groups of one log partition, replayed in log order by the rules of `coordinator`."""

    groups: dict[str, Group] = field(default_factory=dict)

    def replay_offset_commit(self, group_id: str) -> None:
        """An offset commit of any outcome makes a simple group of an unknown id."""
        if group_id not in self.groups:
            self.groups[group_id] = simple_group(group_id)

    def replay_record(
        self, record_type: int, group_id: str, value: Fields | None, record_offset: int
    ) -> None:
        """Replay a group record; a tombstone has no value."""
        group_type = GROUP_TYPE_OF_RECORD[record_type]
        known = self.groups.get(group_id)
        if record_type == GROUP_METADATA_TYPE:
            if value is None:
                self.groups.pop(group_id, None)
            else:
                self.groups[group_id] = classic_group(group_id, value, record_offset)
        elif value is not None:
            self.groups[group_id] = _unreplayed_group(group_id, group_type, record_offset)
        elif (
            known is not None
            and known.group_type == group_type
            and record_type == _METADATA_RECORD[group_type]
        ):
            del self.groups[group_id]
