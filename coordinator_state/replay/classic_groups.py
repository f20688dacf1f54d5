"""Classic groups: what a GroupMetadata value says.

A classic group is Empty without members and Stable with some: rebalances live only in memory.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay` of GroupMetadataKey) and classic/ClassicGroup.java (`add`, `computeSubscribedTopics`) at
4.2.0; GroupMetadata.scala (`loadGroup`) at 3.8.1, which does the same.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

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

_MEMBERS_KEPT: Final = 10_000
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


def classic_group(group_id: str, value: Fields, record_offset: int) -> Group:
    """The group that a decoded GroupMetadata value describes."""
    protocol_type = value["protocolType"]
    # By id, as in the broker's map: should an id be there twice, the last one counts.
    members = {
        fields["memberId"]: _member(protocol_type, *_member_fields(fields))
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
    """Why a coordinator would not load a GroupMetadata value, None if it would."""
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


# Successive records of a group repeat its members.
@lru_cache(maxsize=_MEMBERS_KEPT)
def _member(
    protocol_type: str,
    member_id: str,
    group_instance_id: str | None,
    client_id: str,
    client_host: str,
    rebalance_timeout_ms: int,
    session_timeout_ms: int,
    subscription_bytes: bytes,
    assignment_bytes: bytes,
) -> GroupMember:
    topics, rack_id = None, None
    assigned: Any = None
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        with suppress(DecodeError):
            topics, rack_id = _subscription(subscription_bytes)
        with suppress(DecodeError):
            assigned = decode_assignment(assignment_bytes)
    return GroupMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        # v0 has no rebalance timeout; the broker takes the session timeout for it.
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscription_bytes=subscription_bytes,
        assignment_bytes=assignment_bytes,
        subscribed_topics=topics,
        rack_id=rack_id,
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


def _subscribed_topics(
    members: Collection[GroupMember], protocol_type: str, protocol: str | None
) -> tuple[str, ...] | None:
    if protocol_type != CONSUMER_PROTOCOL_TYPE or (members and protocol is None):
        return None
    topics: set[str] = set()
    for member in members:
        subscribed = _topics_of(member.subscription_bytes or b"")
        if subscribed is None:
            return None
        topics.update(subscribed)
    return tuple(sorted(topics))


# The members of a group mostly subscribe to the same topics.
@lru_cache(maxsize=_MEMBERS_KEPT)
def _subscription(subscription_bytes: bytes) -> tuple[tuple[str, ...], str | None]:
    """Topics and rack id; raises DecodeError."""
    subscription = decode_subscription(subscription_bytes)
    return tuple(subscription["topics"]), subscription["rackId"]


@lru_cache(maxsize=_MEMBERS_KEPT)
def _topics_of(subscription_bytes: bytes) -> tuple[str, ...] | None:
    try:
        return tuple(decode_subscribed_topics(subscription_bytes))
    except DecodeError:
        return None
