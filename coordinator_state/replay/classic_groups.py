"""Classic groups from GroupMetadata values.

A classic group without members is Empty, with members Stable: a broker keeps the state of a
rebalance only in memory.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay` of GroupMetadataKey) and classic/ClassicGroup.java (`add`, `computeSubscribedTopics`) at
4.2.0; GroupMetadata.scala (`loadGroup`) at 3.8.1, which has the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Final

from coordinator_state.errors import DecodeError
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
)
from coordinator_state.records.record_types import NO_TIMESTAMP
from coordinator_state.replay.groups import (
    CLASSIC,
    EMPTY,
    STABLE,
    AssignedPartition,
    Group,
    GroupMember,
)
from coordinator_state.wire.struct_reader import Fields

_CACHED_MEMBERS: Final = 10_000
_member_fields: Final = itemgetter(
    "memberId",
    "groupInstanceId",
    "clientId",
    "clientHost",
    "rebalanceTimeout",
    "sessionTimeout",
    "subscription",
    "assignment",
)


def classic_group(
    group_id: str, value: Fields, record_offset: int, before: Group | None = None
) -> Group:
    """Make the group from a decoded GroupMetadata value.

    Successive values of a group repeat its members. `before` is the group before the value: bytes
    that its members have, too, are not decoded again, and an equal member is the same object.
    """
    protocol_type = value["protocolType"]
    known: Mapping[str, GroupMember] = {}
    if before is not None and before.protocol_type == protocol_type:
        known = {member.member_id: member for member in before.members}
    # By member id, as in the broker's map: of duplicate ids the last one applies.
    members = {
        fields["memberId"]: _member(
            protocol_type, known.get(fields["memberId"]), *_member_fields(fields)
        )
        for fields in value["members"]
    }
    timestamp = value["currentStateTimestamp"]
    leader = value["leader"]
    if leader is None and members:
        leader = value["members"][0]["memberId"]
    return Group(
        group_id=group_id,
        group_type=CLASSIC,
        state=STABLE if members else EMPTY,
        protocol_type=protocol_type,
        protocol=value["protocol"],
        leader=leader,
        generation=value["generation"],
        state_timestamp_ms=None if timestamp == NO_TIMESTAMP else timestamp,
        subscribed_topics=_subscribed_topics(members.values(), protocol_type, value["protocol"]),
        members=tuple(members.values()),
        record_offset=record_offset,
    )


def refusal(group_id: str, value: Fields) -> str | None:
    """Return why a coordinator refuses to load a GroupMetadata value, None if it loads it."""
    instances: set[str] = set()
    member_ids: set[str] = set()
    for number, member in enumerate(value["members"]):
        instance = member["groupInstanceId"]
        if instance is not None:
            if instance in instances:
                return (
                    f"Static member with groupInstanceId={instance} cannot be added to group "
                    f"{group_id} since it is already a member."
                )
            instances.add(instance)
        if number != len(member_ids):
            return "None of the member's protocols can be supported."
        member_ids.add(member["memberId"])
    return None


def _member(
    protocol_type: str,
    before: GroupMember | None,
    member_id: str,
    group_instance_id: str | None,
    client_id: str,
    client_host: str,
    rebalance_timeout_ms: int,
    session_timeout_ms: int,
    subscription_bytes: bytes,
    assignment_bytes: bytes,
) -> GroupMember:
    topics, rack_id, assignment = None, None, None
    if before is not None and before.subscription_bytes == subscription_bytes:
        topics, rack_id = before.subscribed_topics, before.rack_id
    elif protocol_type == CONSUMER_PROTOCOL_TYPE:
        with suppress(DecodeError):
            topics, rack_id = _subscription(subscription_bytes)
    if before is not None and before.assignment_bytes == assignment_bytes:
        assignment = before.assignment
    elif protocol_type == CONSUMER_PROTOCOL_TYPE:
        with suppress(DecodeError):
            assignment = _assignment(assignment_bytes)
    after = GroupMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        # v0 has no rebalance timeout; the broker uses the session timeout instead.
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscription_bytes=subscription_bytes,
        assignment_bytes=assignment_bytes,
        subscribed_topics=topics,
        rack_id=rack_id,
        assignment=assignment,
    )
    return before if before is not None and before == after else after


def _subscribed_topics(
    members: Collection[GroupMember], protocol_type: str, protocol: str | None
) -> tuple[str, ...] | None:
    if protocol_type != CONSUMER_PROTOCOL_TYPE or (members and protocol is None):
        return None
    topics: set[str] = set()
    for member in members:
        subscribed = member.subscribed_topics
        if subscribed is None:
            subscribed = _topics_of(member.subscription_bytes or b"")
        if subscribed is None:
            return None
        topics.update(subscribed)
    return tuple(sorted(topics))


# Most members of a group subscribe to the same topics.
@lru_cache(maxsize=_CACHED_MEMBERS)
def _subscription(subscription_bytes: bytes) -> tuple[tuple[str, ...], str | None]:
    """Read the topics and the rack id.

    Raises:
        DecodeError: the bytes are not a consumer protocol subscription.
    """
    subscription = decode_subscription(subscription_bytes)
    return tuple(subscription["topics"]), subscription["rackId"]


def _assignment(assignment_bytes: bytes) -> tuple[AssignedPartition, ...]:
    """Read the assigned partitions.

    Raises:
        DecodeError: the bytes are not a consumer protocol assignment.
    """
    return tuple(
        AssignedPartition(topic=entry["topic"], partition=partition)
        for entry in decode_assignment(assignment_bytes)["assignedPartitions"]
        for partition in entry["partitions"]
    )


def _topics_of(subscription_bytes: bytes) -> tuple[str, ...] | None:
    """Read the topics as a coordinator does: it does not need the other fields."""
    try:
        return tuple(decode_subscribed_topics(subscription_bytes))
    except DecodeError:
        return None
