"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of the classic protocol.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`classicGroupJoinToClassicGroup`, `classicGroupSyncToClassicGroup`, `classicGroupHeartbeat…`,
`classicGroupLeave…` and the methods they call) and GroupCoordinatorService.java at 4.2.0;
GroupCoordinator.scala (`handleJoinGroup`, `doSyncGroup`, `handleHeartbeat`, `handleLeaveGroup`) at
3.9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator_state.model.classic_group import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    DurableGroup,
)
from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.mixed_requests import MixedRequests
from coordinator_state.model.rebalance import Rebalances
from coordinator_state.model.records import group_metadata
from coordinator_state.model.requests import (
    UNKNOWN_MEMBER_ID,
    ErrorCode,
    JoinGroupRequest,
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
    """Answers requests of members of classic groups."""

    shard: Shard
    rebalances: Rebalances
    mixed: MixedRequests

    # --- JoinGroup

    def join_group(self, request: JoinGroupRequest) -> JoinReply:
        """Add a member to the next generation. The reply is complete when that starts."""
        reply = JoinReply()
        refused = self._validate_join(request)
        if refused is not None:
            reply.complete(refused)
            return reply
        is_new_member = request.member_id == UNKNOWN_MEMBER_ID
        group = self.shard.groups.get(request.group_id)
        replaced: LiveConsumerGroup | None = None
        if isinstance(group, LiveConsumerGroup):
            if not group.is_empty:
                reply.complete(self.mixed.join_group(group, request))
                return reply
            # The classic group replaces it. Like a broker, remove it even if the join fails.
            replaced, group = group, None
            self.shard.remove_group(replaced)
        if group is None and not is_new_member:
            reply.complete(_not_joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return reply
        is_new_group = group is None
        if group is None:
            group = self.shard.new_group(request.group_id)
        written = self.shard.log.next_offset
        if not self._accepts(group, request.member_id):
            group.remove(request.member_id)
            reply.complete(_not_joined(ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif is_new_member:
            self._join_new(group, request, reply)
        else:
            self._join_known(group, request, reply)
        if self.shard.is_scala:
            self.rebalances.complete_if_all_joined(group)
        elif is_new_group and self.shard.log.next_offset == written:
            self._store_new_group(group, replaced, reply)
        return reply

    def _validate_join(self, request: JoinGroupRequest) -> JoinGroupResponse | None:
        """The refusal of an invalid join, or None.

        Kafka 4 checks the session timeout before the availability of the coordinator.
        """
        config, availability = self.shard.config, self.shard.availability
        least_ms, most_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        is_timeout_good = least_ms <= request.session_timeout_ms <= most_ms
        if not request.group_id:
            return _not_joined(ErrorCode.INVALID_GROUP_ID, request.member_id)
        if availability is not ErrorCode.NONE and (self.shard.is_scala or is_timeout_good):
            is_echoed = self.shard.is_scala or availability is ErrorCode.COORDINATOR_NOT_AVAILABLE
            return _not_joined(availability, request.member_id if is_echoed else UNKNOWN_MEMBER_ID)
        if not is_timeout_good:
            return _not_joined(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        return None

    def _store_new_group(
        self, group: ClassicGroup, replaced: LiveConsumerGroup | None, reply: JoinReply
    ) -> None:
        """Append the record of a new group, which Kafka 4 writes before the group has members.

        The tombstones of the consumer group that it replaces (`replaced`) are in the same batch.
        """
        value = {
            "protocolType": "",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "currentStateTimestamp": group.state_timestamp_ms,
            "members": [],
        }
        tombstones = [] if replaced is None else replaced.tombstones()
        error_code, base_offset = self.shard.append(
            [*tombstones, group_metadata(group.group_id, value)], self.shard.group_error
        )
        if error_code is ErrorCode.NONE:
            group.durable = DurableGroup(base_offset + len(tombstones), value)
            return
        # The append failed: roll back the creation of the group.
        del self.shard.groups[group.group_id]
        self.shard.timers.cancel_all(group.group_id)
        if replaced is not None:
            self.shard.groups[replaced.group_id] = replaced
        reply.complete(_not_joined(error_code))

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        most = self.shard.config.group_max_size
        if group.is_in(_EMPTY, _DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(_PREPARING):
            return (member is not None and member.join is not None) or group.awaiting_join < most
        return member is not None or len(group.members) < most

    def _join_new(self, group: ClassicGroup, request: JoinGroupRequest, reply: JoinReply) -> None:
        if not group.supports(request.protocol_type, request.protocols):
            reply.complete(_not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        instance_id = request.group_instance_id
        member_id = f"{request.client_id if instance_id is None else instance_id}-{self._uuid()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, request, instance_id, member_id, reply)
        elif instance_id is None and request.requires_known_member_id:
            group.pending_members.add(member_id)
            self.rebalances.expect(group, member_id, request.session_timeout_ms)
            reply.complete(_not_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, request, member_id, reply)

    def _uuid(self) -> str:
        return str(self.shard.new_id())

    def _join_known(self, group: ClassicGroup, request: JoinGroupRequest, reply: JoinReply) -> None:
        member_id = request.member_id
        if not group.supports(request.protocol_type, request.protocols):
            reply.complete(_not_joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
            return
        if member_id in group.pending_members and request.group_instance_id is not None:
            reply.complete(_not_joined(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        if member_id in group.pending_members:
            self._add(group, request, member_id, reply)
            return
        error_code = group.validate_member(member_id, request.group_instance_id)
        if error_code is not ErrorCode.NONE:
            reply.complete(_not_joined(error_code, member_id))
            return
        member = group.members[member_id]
        has_changed = member.protocols != request.protocols
        if (
            group.is_in(_PREPARING)
            or has_changed
            or (group.is_in(_STABLE) and group.is_leader(member_id))
        ):
            self._update(member, request, reply)
            self.rebalances.prepare_or_complete(group)
        else:
            # The member is in the current generation; its earlier answer may have been lost.
            reply.complete(self.rebalances.joined(group, member_id))

    def _add(
        self, group: ClassicGroup, request: JoinGroupRequest, member_id: str, reply: JoinReply
    ) -> None:
        member = ClassicMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            join=reply,
        )
        is_first_rebalance = (
            group.generation_id == 0 if self.shard.is_scala else group.previous_state is _EMPTY
        )
        if group.is_in(_PREPARING) and is_first_rebalance:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        # A client sends no heartbeats while it waits for its join, so limit the wait.
        self.rebalances.expect_heartbeat(
            group, member, self.shard.config.new_member_join_timeout_ms
        )
        self.rebalances.prepare_or_complete(group)

    @staticmethod
    def _update(member: ClassicMember, request: JoinGroupRequest, reply: JoinReply) -> None:
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.join = reply

    def _replace_static(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        instance_id: str,
        member_id: str,
        reply: JoinReply,
    ) -> None:
        """Let a static member rejoin with a new member id.

        A Stable group whose protocol stays the same does not rebalance.
        """
        old_leader, old_id = group.leader_id, group.static_members[instance_id]
        self.shard.timers.cancel(("heartbeat", group.group_id, old_id))
        member = group.replace_static_member(instance_id, old_id, member_id)
        if not self.shard.is_scala:
            # Kafka 4 creates another member here. Kafka 3 changes the id of the same member.
            member.is_new = False
        self.rebalances.expect_heartbeat(group, member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update(member, request, reply)
        if group.is_in(_COMPLETING):
            # The leader may know the old member id.
            self.rebalances.prepare(group)
            return
        if not group.is_in(_STABLE) or group.protocol_name != group.select_protocol():
            self.rebalances.prepare_or_complete(group)
            return
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        error_code = self.rebalances.store_group(group, assignments)
        if error_code is not ErrorCode.NONE:
            protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
            if not self.shard.is_scala:
                # Kafka 3 reads the old protocols too late to restore them.
                member.protocols = protocols
            member.join = None
            group.replace_static_member(instance_id, member_id, old_id)
            self.rebalances.expect_heartbeat(group, member)
            reply.complete(
                JoinGroupResponse(
                    error_code=error_code,
                    generation_id=group.generation_id,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    leader=old_leader,
                )
            )
            return
        is_leader = group.is_leader(member_id)
        skips = request.supports_skipping_assignment
        member.answer_join(
            JoinGroupResponse(
                member_id=member_id,
                generation_id=group.generation_id,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                # An older client would compute a new assignment if it were named as the leader.
                leader=group.leader_id if skips else old_leader,
                skip_assignment=skips and is_leader,
                members=group.current_members() if skips and is_leader else (),
            )
        )

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


def _not_joined(error_code: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, member_id=member_id)


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
