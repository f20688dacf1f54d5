"""Classic groups: what a GroupMetadata value says.

A classic group is Empty without members and Stable with some: rebalances live only in memory.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay` of GroupMetadataKey) and classic/ClassicGroup.java (`add`, `computeSubscribedTopics`) at
4.2.0; GroupMetadata.scala (`loadGroup`) at 3.8.1, which does the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coordinator_state.consumer_protocol import (
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
)
from coordinator_state.errors import DecodeError
from coordinator_state.groups import (
    CLASSIC,
    CONSUMER,
    EMPTY,
    STABLE,
    AssignedPartition,
    Group,
    GroupMember,
)
from coordinator_state.record_types import NO_TIMESTAMP
from coordinator_state.struct_reader import Fields


def classic_group(group_id: str, value: Fields, record_offset: int) -> Group:
    """The group that a decoded GroupMetadata value describes."""
    protocol_type = value["protocolType"]
    # By id, as in the broker's map: should an id be there twice, the last one counts.
    members = {fields["memberId"]: _member(fields, protocol_type) for fields in value["members"]}
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
        subscription_bytes=fields["subscription"],
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


def _subscribed_topics(
    members: Collection[GroupMember], protocol_type: str, protocol: str | None
) -> tuple[str, ...] | None:
    if protocol_type != CONSUMER or (members and protocol is None):
        return None
    topics: set[str] = set()
    for member in members:
        try:
            topics.update(decode_subscribed_topics(member.subscription_bytes or b""))
        except DecodeError:
            return None
    return tuple(sorted(topics))
