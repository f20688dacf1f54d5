"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a consumer group.

During a migration a group has members of the classic protocol and of the new one. Each join of a
classic member is one step of its reconciliation, and its generation is its member epoch. A
heartbeat tells the member to join again if there is another step.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`classicGroupJoinToConsumerGroup`, `classicGroupSyncToConsumerGroup`,
`classicGroupHeartbeatToConsumerGroup`, `classicGroupLeaveToConsumerGroup`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator_state.errors import DecodeError
from coordinator_state.model.consumer_group import (
    ClassicProtocol,
    ConsumerMember,
    LiveConsumerGroup,
    MemberState,
)
from coordinator_state.model.consumer_group_updates import (
    REJOIN,
    RESYNC,
    ConsumerGroupUpdate,
    ConsumerGroupUpdates,
)
from coordinator_state.model.conversion import protocol_version
from coordinator_state.model.requests import (
    UNKNOWN_MEMBER_ID,
    ErrorCode,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    Refused,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.model.shard import Shard
from coordinator_state.model.topics import Assigned
from coordinator_state.records.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_subscription,
    encode_assignment,
)
from coordinator_state.wire.primitives import uuid_text


@dataclass(slots=True)
class MixedRequests:
    """Answers requests of classic members to consumer groups."""

    shard: Shard
    changes: ConsumerGroupUpdates

    # --- JoinGroup

    def join_group(self, group: LiveConsumerGroup, request: JoinGroupRequest) -> JoinGroupResponse:
        """Take the member's next step and answer at once."""
        try:
            return self._join(group, request)
        except Refused as refused:
            return JoinGroupResponse(error_code=refused.error_code)

    def _join(self, group: LiveConsumerGroup, request: JoinGroupRequest) -> JoinGroupResponse:
        is_new = request.member_id == UNKNOWN_MEMBER_ID
        member_id = uuid_text(self.shard.new_id()) if is_new else request.member_id
        self.changes.refuse_if_full(group, member_id)
        if not group.supports(request.protocol_type, [name for name, _ in request.protocols]):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        instance_id = request.group_instance_id
        if is_new and instance_id is None and request.requires_known_member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        change = ConsumerGroupUpdate(group=group, start=group)
        known = group.static_member(instance_id)
        before = self._member_of(change, request, member_id, known)
        try:
            subscription = decode_subscription(request.protocols[0][1])
        except DecodeError as error:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        member = replace(
            before,
            group_instance_id=instance_id or before.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topics=frozenset(subscription["topics"]),
            classic=ClassicProtocol(request.session_timeout_ms, request.protocols),
        )
        owned = self.shard.topics.assigned(subscription.get("ownedPartitions", ()))
        if known is not None and known.classic is None and self._is_classic_except(group, known):
            member, error_code = self._convert(change, before, member, owned)
        else:
            member = self.changes.update(change, before, member, owned)
            error_code = self.changes.append(change)
            if error_code is ErrorCode.NONE:
                self._expect_sync(group.group_id, member)
        if error_code is not ErrorCode.NONE:
            raise Refused(error_code)
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0][0],
        )

    def _member_of(
        self,
        change: ConsumerGroupUpdate,
        request: JoinGroupRequest,
        member_id: str,
        known: ConsumerMember | None,
    ) -> ConsumerMember:
        is_new = request.member_id == UNKNOWN_MEMBER_ID
        if request.group_instance_id is None or (known is None and is_new):
            member = change.group.members.get(member_id)
            return ConsumerMember(member_id=member_id) if member is None else member
        if known is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if is_new:
            return self.changes.replace_static(change, known, member_id)
        if known.member_id != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID)
        return known

    def _is_classic_except(self, group: LiveConsumerGroup, member: ConsumerMember) -> bool:
        others = [m for m in group.members.values() if m.member_id != member.member_id]
        is_small = len(group.members) <= self.shard.config.group_max_size
        return is_small and all(other.classic is not None for other in others)

    def _convert(
        self,
        change: ConsumerGroupUpdate,
        before: ConsumerMember,
        member: ConsumerMember,
        owned: Assigned,
    ) -> tuple[ConsumerMember, ErrorCode]:
        """Convert the group: its last member of the new protocol rejoined as a classic member."""
        group = change.group
        has_changed, _ = self.changes.subscribe(change, before, member)
        if not has_changed:
            member = self.changes.reconcile(
                change,
                member,
                group.target_epoch,
                group.target_of(member),
                owned,
                has_changed=False,
            )
        error_code = self.changes.convert_to_classic(change, (), member, rebalances=has_changed)
        return member, error_code

    def _expect_sync(self, group_id: str, member: ConsumerMember) -> None:
        self.shard.timers.cancel((REJOIN, group_id, member.member_id))
        self.changes.expect(group_id, member)
        self.changes.fence_after((RESYNC, group_id, member.member_id), member.rebalance_timeout_ms)

    # --- SyncGroup

    def sync_group(self, group: LiveConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """Answer a member with its current assignment."""
        try:
            member, classic = _member(group, request.member_id, request.group_instance_id)
            if member.member_epoch != request.generation_id:
                raise Refused(ErrorCode.ILLEGAL_GENERATION)
            name, metadata = classic.protocols[0]
            for asked, known in (
                (request.protocol_type, CONSUMER_PROTOCOL_TYPE),
                (request.protocol_name, name),
            ):
                if asked is not None and asked != known:
                    raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
            if group.group_epoch > member.member_epoch and not is_revoking:
                self._expect_join(group.group_id, member)
                raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        except Refused as refused:
            return SyncGroupResponse(error_code=refused.error_code)
        self.shard.timers.cancel((RESYNC, group.group_id, member.member_id))
        self.changes.expect(group.group_id, member)
        assigned = self.shard.topics.named(member.assigned)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(
                {"assignedPartitions": assigned, "userData": None}, protocol_version(metadata)
            ),
        )

    # --- Heartbeat

    def heartbeat(
        self, group: LiveConsumerGroup, member_id: str, generation_id: int, instance_id: str | None
    ) -> ErrorCode:
        """Restart a member's session, and tell it to join again if there is another step."""
        try:
            member, _ = _member(group, member_id, instance_id)
        except Refused as refused:
            return refused.error_code
        if member.member_epoch != generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self.changes.expect(group.group_id, member)
        is_unreleased = member.state is MemberState.UNRELEASED_PARTITIONS
        if (
            member.member_epoch < group.group_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (is_unreleased and not group.waits_on_unreleased_partition(member))
        ):
            self._expect_join(group.group_id, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _expect_join(self, group_id: str, member: ConsumerMember) -> None:
        timer = (REJOIN, group_id, member.member_id)
        if not self.shard.timers.is_scheduled(timer):
            self.changes.fence_after(timer, member.rebalance_timeout_ms)

    # --- LeaveGroup

    def leave_group(
        self, group: LiveConsumerGroup, members: Sequence[MemberIdentity]
    ) -> LeaveGroupResponse:
        """Remove members of either protocol."""
        error_codes, leaving = [], {}
        for identity in members:
            error_code, member = _leaving(group, identity)
            error_codes.append(error_code)
            if member is not None:
                leaving[member.member_id] = member
        try:
            error_code = self.changes.fence(group, list(leaving.values()))
        except Refused as refused:
            error_code = refused.error_code
        if error_code is not ErrorCode.NONE:
            return LeaveGroupResponse(error_code=error_code)
        return LeaveGroupResponse(members=tuple(error_codes))


def _member(
    group: LiveConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicProtocol]:
    member = group.members.get(member_id)
    if instance_id is not None:
        member = group.static_member(instance_id)
        if member is not None and member.member_id != member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID)
    if member is None or member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _leaving(
    group: LiveConsumerGroup, identity: MemberIdentity
) -> tuple[ErrorCode, ConsumerMember | None]:
    if identity.group_instance_id is None:
        member = group.members.get(identity.member_id)
    else:
        member = group.static_member(identity.group_instance_id)
        is_named = identity.member_id != UNKNOWN_MEMBER_ID
        if member is not None and is_named and member.member_id != identity.member_id:
            return ErrorCode.FENCED_INSTANCE_ID, None
    return (ErrorCode.UNKNOWN_MEMBER_ID, None) if member is None else (ErrorCode.NONE, member)
