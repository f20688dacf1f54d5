"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol; `joining` has JoinGroup.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`classicGroupSyncToClassicGroup`, `classicGroupHeartbeat…`, `classicGroupLeave…`) and
GroupCoordinatorService.java at 4.2.0; GroupCoordinator.scala (`doSyncGroup`, `handleHeartbeat`,
`handleLeaveGroup`) at 3.9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.classic_states import ClassicState
from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.mixed_requests import MixedRequests
from coordinator_state.model.rebalance import Rebalances
from coordinator_state.model.requests import (
    UNKNOWN_MEMBER_ID,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.model.shard import Shard

_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState
JoinReply = Reply[JoinGroupResponse]
SyncReply = Reply[SyncGroupResponse]


@dataclass(slots=True)
class ClassicRequests:
    """Answers requests of members of classic groups, except JoinGroup."""

    shard: Shard
    rebalances: Rebalances
    mixed: MixedRequests

    # --- SyncGroup

    def sync_group(self, request: SyncGroupRequest) -> SyncReply:
        """Answer a member with its assignment, once the leader's assignments are durable."""
        reply = SyncReply()
        refusal = self.shard.refusal(request.group_id)
        if refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and self.shard.is_scala:
            # The member joins again, and by then finds a coordinator.
            refusal = ErrorCode.REBALANCE_IN_PROGRESS
        group = self.shard.groups.get(request.group_id)
        if refusal is ErrorCode.NONE and group is None:
            refusal = ErrorCode.UNKNOWN_MEMBER_ID
        if refusal is not ErrorCode.NONE or group is None:
            reply.complete(SyncGroupResponse(error_code=refusal))
            return reply
        if isinstance(group, LiveConsumerGroup):
            reply.complete(self.mixed.sync_group(group, request))
            return reply
        error_code = _validate_sync(group, request)
        if error_code is ErrorCode.NONE and group.is_in(_PREPARING):
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        if error_code is not ErrorCode.NONE:
            reply.complete(SyncGroupResponse(error_code=error_code))
            return reply
        member = group.members[request.member_id]
        if group.is_in(_COMPLETING):
            member.sync = reply
            self.rebalances.synced(group, member.member_id)
            if group.is_leader(member.member_id):
                self._store_assignment(group, request)
            return reply
        self.rebalances.synced(group, member.member_id)
        reply.complete(
            SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
        )
        if self.shard.is_scala:
            self.rebalances.expect_heartbeat(group, member)
        return reply

    def _store_assignment(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        """Append the leader's assignments; members that it left out get an empty one."""
        assignments = {
            **dict.fromkeys(group.members, b""),
            **{m: a for m, a in request.assignments.items() if m in group.members},
        }
        error_code = self.rebalances.store_group(group, assignments)
        if error_code is ErrorCode.NONE:
            self.rebalances.set_assignment(group, assignments)
        else:
            self.rebalances.reset_assignment(group, error_code)
            self.rebalances.prepare_or_complete(group)

    # --- Heartbeat

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        generation_id: int,
        group_instance_id: str | None = None,
    ) -> ErrorCode:
        """Renew a member's session, and tell it whether to join again."""
        refusal = self.shard.refusal(group_id)
        if refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if refusal is not ErrorCode.NONE:
            return refusal
        group = self.shard.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, LiveConsumerGroup):
            return self.mixed.heartbeat(group, member_id, generation_id, group_instance_id)
        if group.is_in(_DEAD):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error_code = group.validate_member(member_id, group_instance_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self.rebalances.expect_heartbeat(group, group.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.is_in(_PREPARING) else ErrorCode.NONE

    # --- LeaveGroup

    def leave_group(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        """Remove members, at their own request or an administrator's."""
        refusal = self.shard.refusal(group_id)
        if refusal is not ErrorCode.NONE:
            return LeaveGroupResponse(error_code=refusal)
        group = self.shard.groups.get(group_id)
        if group is None:
            return LeaveGroupResponse(members=(ErrorCode.UNKNOWN_MEMBER_ID,) * len(members))
        if isinstance(group, LiveConsumerGroup):
            return self.mixed.leave_group(group, members)
        if group.is_in(_DEAD):
            return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        error_codes = tuple(self._leave(group, member) for member in members)
        if ErrorCode.NONE in error_codes and not self.shard.is_scala:
            error_code = self._rebalance_after_leave(group)
            if error_code is not ErrorCode.NONE:
                return LeaveGroupResponse(error_code=error_code)
        return LeaveGroupResponse(members=error_codes)

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id in group.pending_members:
            self.rebalances.drop_pending(group, member_id)
            if self.shard.is_scala:
                self.rebalances.complete_if_all_joined(group)
            return ErrorCode.NONE
        if member_id == UNKNOWN_MEMBER_ID:
            member_id = group.static_members.get(instance_id or "", UNKNOWN_MEMBER_ID)
        error_code = group.validate_member(member_id, instance_id)
        if error_code is ErrorCode.NONE:
            self.rebalances.drop(group, group.members[member_id])
            if self.shard.is_scala:
                # Kafka 3 updates the group after each member, Kafka 4 after all of them.
                self._rebalance_after_leave(group)
        return error_code

    def _rebalance_after_leave(self, group: ClassicGroup) -> ErrorCode:
        if group.is_in(_STABLE, _COMPLETING):
            return self.rebalances.prepare_or_complete(group)
        return self.rebalances.complete_if_all_joined(group)


def _validate_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.is_in(_DEAD):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error_code = group.validate_member(request.member_id, request.group_instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    for asked, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and asked != known:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE
