"""Changes of consumer groups: a record, and its replay in the coordinator's memory.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
GroupCoordinatorRecordHelpers.java and GroupMetadataManager.java (`replay`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from coordinator_state.model.consumer_group import (
    LEAVE_EPOCH,
    ConsumerMember,
    LiveConsumerGroup,
    MemberState,
)
from coordinator_state.model.log import KeyAndValue
from coordinator_state.model.records import (
    CURRENT,
    GROUP,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    member_key,
    record,
)
from coordinator_state.model.topics import Assigned


class Change(NamedTuple):
    """A record, and the update of the group after the record is appended."""

    record: KeyAndValue
    replay: Callable[[LiveConsumerGroup], None]


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Change:
    """ConsumerGroupMetadata: the group epoch."""

    def replay(group: LiveConsumerGroup) -> None:
        group.group_epoch, group.metadata_hash = epoch, metadata_hash

    value = {"epoch": epoch, "metadataHash": metadata_hash}
    return Change(record(GROUP, {"groupId": group_id}, value), replay)


def target_epoch(group_id: str, epoch: int) -> Change:
    """ConsumerGroupTargetAssignmentMetadata: the epoch of the target assignment."""

    def replay(group: LiveConsumerGroup) -> None:
        group.target_epoch = epoch

    value = {"assignmentEpoch": epoch}
    return Change(record(TARGET_EPOCH, {"groupId": group_id}, value), replay)


def member_subscription(group_id: str, member: ConsumerMember) -> Change:
    """ConsumerGroupMemberMetadata: a member's identity and subscription."""

    def replay(group: LiveConsumerGroup) -> None:
        known = group.members.get(member.member_id) or ConsumerMember(member_id=member.member_id)
        group.members[member.member_id] = replace(
            member,
            member_epoch=known.member_epoch,
            previous_member_epoch=known.previous_member_epoch,
            state=known.state,
            assigned=known.assigned,
            pending_revocation=known.pending_revocation,
        )

    classic = None
    if member.classic is not None:
        classic = {
            "sessionTimeoutMs": member.classic.session_timeout_ms,
            "supportedProtocols": [
                {"name": name, "metadata": metadata} for name, metadata in member.classic.protocols
            ],
        }
    value = {
        "instanceId": member.group_instance_id,
        "rackId": None,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": sorted(member.subscribed_topics),
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.server_assignor,
        "classicMemberMetadata": classic,
    }
    return Change(record(MEMBER, member_key(group_id, member.member_id), value), replay)


def target_assignment(group_id: str, member_id: str, target: Assigned) -> Change:
    """ConsumerGroupTargetAssignmentMember: a member's target assignment."""

    def replay(group: LiveConsumerGroup) -> None:
        group.targets[member_id] = target

    value = {"topicPartitions": _topic_partitions(target)}
    return Change(record(TARGET, member_key(group_id, member_id), value), replay)


def current_assignment(group_id: str, member: ConsumerMember) -> Change:
    """ConsumerGroupCurrentMemberAssignment: a member's current assignment."""

    def replay(group: LiveConsumerGroup) -> None:
        group.members[member.member_id] = replace(
            group.members[member.member_id],
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned=member.assigned,
            pending_revocation=member.pending_revocation,
        )

    value = {
        "memberEpoch": member.member_epoch,
        "previousMemberEpoch": member.previous_member_epoch,
        "state": int(member.state),
        "assignedPartitions": _topic_partitions(member.assigned),
        "partitionsPendingRevocation": _topic_partitions(member.pending_revocation),
    }
    return Change(record(CURRENT, member_key(group_id, member.member_id), value), replay)


def removed_member(group_id: str, member_id: str) -> list[Change]:
    """The tombstones of a member."""

    def disown(group: LiveConsumerGroup) -> None:
        member = group.members.get(member_id)
        if member is not None:
            group.members[member_id] = replace(
                member,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                state=MemberState.STABLE,
                assigned={},
                pending_revocation={},
            )

    key = member_key(group_id, member_id)
    return [
        Change(record(CURRENT, key, None), disown),
        Change(record(TARGET, key, None), lambda group: _forget(group.targets, member_id)),
        Change(record(MEMBER, key, None), lambda group: _forget(group.members, member_id)),
    ]


def _forget(entries: dict[str, Any], member_id: str) -> None:
    entries.pop(member_id, None)


def _topic_partitions(assigned: Assigned) -> list[dict[str, Any]]:
    return [
        {"topicId": topic_id, "partitions": sorted(partitions)}
        for topic_id, partitions in assigned.items()
    ]
