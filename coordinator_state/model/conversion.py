"""Converts groups with members to the other type (the online migration of KIP-848).

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/modern/consumer/
ConsumerGroup.java (`fromClassicGroup`, `createConsumerGroupRecords`) and classic/ClassicGroup.java
(`fromConsumerGroup`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from coordinator_state.errors import DecodeError
from coordinator_state.model.classic_group import ClassicGroup, ClassicMember, ClassicState
from coordinator_state.model.consumer_changes import (
    Change,
    current_assignment,
    group_epoch,
    member_subscription,
    target_assignment,
    target_epoch,
)
from coordinator_state.model.consumer_group import (
    ClassicProtocol,
    ConsumerMember,
    LiveConsumerGroup,
)
from coordinator_state.model.requests import ErrorCode, Refused
from coordinator_state.model.topics import Topics
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)

_VERSION_BYTES = 2


def consumer_group_of(classic: ClassicGroup, topics: Topics) -> LiveConsumerGroup:
    """Convert a classic group; each member keeps the assignment of the leader.

    Raises:
        Refused: a member does not use the consumer protocol, or a custom assignor left user data,
            or the leader assigned a partition to two members, or no generation has started.
    """
    if classic.members and classic.protocol_name is None:
        # No generation has started yet. A broker fails in this case, too.
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    group = LiveConsumerGroup(
        group_id=classic.group_id,
        group_epoch=classic.generation_id,
        target_epoch=classic.generation_id,
    )
    owned: set[tuple[UUID, int]] = set()
    try:
        for member in classic.members.values():
            converted = _consumer_member(member, classic, topics)
            taken = {(t, n) for t, ns in converted.assigned.items() for n in ns}
            if taken & owned:
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
            owned |= taken
            group.targets[member.member_id] = converted.assigned
            group.members[member.member_id] = converted
    except DecodeError as error:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND) from error
    except StopIteration as error:
        # A member that just joined may not support the protocol of the previous generation.
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    group.metadata_hash = topics.metadata_hash(
        {topic for m in group.members.values() for topic in m.subscribed_topics}
    )
    return group


def _consumer_member(member: ClassicMember, group: ClassicGroup, topics: Topics) -> ConsumerMember:
    assignment = decode_assignment(member.assignment)
    if assignment["userData"]:
        # User data of a custom assignor would be lost.
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
    subscription = decode_subscription(member.metadata(group.protocol_name or ""))
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        assigned=topics.assigned(assignment["assignedPartitions"]),
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topics=frozenset(subscription["topics"]),
        classic=ClassicProtocol(member.session_timeout_ms, member.protocols),
    )


def changes_to(group: LiveConsumerGroup) -> list[Change]:
    """The changes that create a consumer group."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_subscription(group_id, member) for member in members),
        group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(target_assignment(group_id, m, target) for m, target in group.targets.items()),
        target_epoch(group_id, group.group_epoch),
        *(current_assignment(group_id, member) for member in members),
    ]


def classic_group_of(
    group: LiveConsumerGroup,
    leaving: Collection[ConsumerMember],
    joining: ConsumerMember | None,
    topics: Topics,
    now_ms: int,
) -> ClassicGroup:
    """Convert a consumer group whose remaining members all use the classic protocol.

    `joining` replaces the static member with its instance id and gets its target assignment.

    Raises:
        Refused: a member's subscription is not in the format of the consumer protocol.
    """
    leaving_ids = {member.member_id for member in leaving}
    replaced = None if joining is None else group.static_member(joining.group_instance_id)
    if replaced is not None:
        leaving_ids.add(replaced.member_id)
    members = [member for member in group.members.values() if member.member_id not in leaving_ids]
    targets = {member.member_id: group.targets.get(member.member_id, {}) for member in members}
    if joining is not None and replaced is not None:
        members.append(joining)
        targets[joining.member_id] = group.targets.get(replaced.member_id, {})
    classic = ClassicGroup(
        group_id=group.group_id,
        state=ClassicState.STABLE,
        previous_state=ClassicState.EMPTY,
        state_timestamp_ms=now_ms,
        generation_id=group.group_epoch,
    )
    for member in members:
        classic.add(_classic_member(member), CONSUMER_PROTOCOL_TYPE)
    classic.update_protocol()
    for member_id, converted in classic.members.items():
        metadata = converted.metadata(classic.protocol_name or "")
        if len(metadata) < _VERSION_BYTES:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        fields = {"assignedPartitions": topics.named(targets[member_id]), "userData": None}
        converted.assignment = encode_assignment(fields, protocol_version(metadata))
    return classic


def _classic_member(member: ConsumerMember) -> ClassicMember:
    if member.classic is None:
        raise ValueError(f"member {member.member_id} does not use the classic protocol")
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )


def protocol_version(metadata: bytes) -> int:
    """The version of a subscription. The member's assignment is encoded in the same version."""
    return int.from_bytes(metadata[:_VERSION_BYTES], "big")
