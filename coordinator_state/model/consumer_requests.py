"""ConsumerGroupHeartbeat (KIP-848): members join, get assignments, reconcile and leave.

A heartbeat appends all its changes in one batch: the member's subscription, the group epoch, the
target assignment, and the member's next step towards it.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`consumerGroupHeartbeat`, `consumerGroupLeave`, `getOrMaybeCreateConsumerGroup` and what they call)
and GroupCoordinatorService.java (`throwIfConsumerGroupHeartbeatRequestIsInvalid`) at 4.2.0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordinator_state.model.assignors import ASSIGNORS
from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.consumer_changes import Change, current_assignment
from coordinator_state.model.consumer_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    LiveConsumerGroup,
)
from coordinator_state.model.consumer_group_updates import ConsumerGroupUpdate, ConsumerGroupUpdates
from coordinator_state.model.conversion import changes_to, consumer_group_of
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ErrorCode,
    JoinGroupResponse,
    Refused,
    SyncGroupResponse,
)
from coordinator_state.model.shard import Shard


@dataclass(slots=True)
class ConsumerRequests:
    """Answers heartbeats of members of consumer groups."""

    shard: Shard
    changes: ConsumerGroupUpdates

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Answer a heartbeat with which a member joins, stays or leaves."""
        try:
            self._validate(request)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                return self._leave(request)
            return self._heartbeat(request)
        except Refused as refused:
            return ConsumerGroupHeartbeatResponse(error_code=refused.error_code)

    def _validate(self, request: ConsumerGroupHeartbeatRequest) -> None:
        if self.shard.is_scala:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        epoch = request.member_epoch
        is_bad = not request.member_id or request.group_instance_id == "" or not request.group_id
        if epoch == JOIN_EPOCH:
            is_bad = is_bad or (
                request.rebalance_timeout_ms == -1
                or request.owned is None
                or bool(request.owned)
                or request.subscribed_topics is None
            )
        elif epoch == STATIC_LEAVE_EPOCH:
            is_bad = is_bad or request.group_instance_id is None
        if is_bad or epoch < STATIC_LEAVE_EPOCH:
            raise Refused(ErrorCode.INVALID_REQUEST)
        if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
            raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR)
        if self.shard.availability is not ErrorCode.NONE:
            raise Refused(self.shard.availability)

    # --- a member joins or stays

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        change = self._group_of(request)
        self.changes.refuse_if_full(change.group, request.member_id)
        member = self._member_of(change, request)
        before, names = member, request.subscribed_topics
        member = replace(
            member,
            group_instance_id=request.group_instance_id or member.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms
                if request.rebalance_timeout_ms == -1
                else request.rebalance_timeout_ms
            ),
            server_assignor=request.server_assignor or member.server_assignor,
            subscribed_topics=member.subscribed_topics if names is None else frozenset(names),
            classic=None,
        )
        after = self.changes.update(change, before, member, request.owned)
        # The heartbeat counts even if the append fails.
        self.changes.expect(change.group.group_id, after)
        self.changes.expect_revocation(change.group.group_id, member, after)
        error_code = self.changes.append(change)
        if error_code is not ErrorCode.NONE:
            raise Refused(error_code)
        is_full = names is not None and request.rebalance_timeout_ms != -1
        sends_assignment = (
            request.member_epoch == JOIN_EPOCH
            or (is_full and request.owned is not None)
            or before.assigned != after.assigned
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            assigned=after.assigned if sends_assignment else None,
        )

    def _group_of(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupUpdate:
        """The group of a request. A joining member creates it or converts a classic group."""
        group = self.shard.groups.get(request.group_id)
        joins = request.member_epoch == JOIN_EPOCH
        if isinstance(group, LiveConsumerGroup):
            return ConsumerGroupUpdate(group=group, start=group)
        if not joins:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        new = LiveConsumerGroup(group_id=request.group_id)
        if group is None:
            return ConsumerGroupUpdate(group=new, start=new)
        tombstones = [Change(record, _no_change) for record in group.tombstones()]
        if group.is_empty:
            return ConsumerGroupUpdate(group=new, start=new, changes=tombstones)
        is_large = len(group.members) > self.shard.config.consumer_group_max_size
        if is_large or not group.uses_consumer_protocol:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        _send_to_rejoin(group)
        converted = consumer_group_of(group, self.shard.topics)
        for member in converted.members.values():
            self.changes.expect(group.group_id, member)
        return ConsumerGroupUpdate(
            group=converted, start=new, changes=[*tombstones, *changes_to(converted)]
        )

    def _member_of(
        self, change: ConsumerGroupUpdate, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerMember:
        group, joins = change.group, request.member_epoch == JOIN_EPOCH
        if request.group_instance_id is None:
            member = group.members.get(request.member_id)
            if member is None:
                if not joins:
                    raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
                member = ConsumerMember(member_id=request.member_id)
            _refuse_epoch(member, request)
            return member
        known = group.static_member(request.group_instance_id)
        if joins and known is None:
            known = group.members.get(request.member_id)
            return ConsumerMember(member_id=request.member_id) if known is None else known
        if joins and known is not None:
            if known.classic is None and known.member_epoch != STATIC_LEAVE_EPOCH:
                raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID)
            return self.changes.replace_static(change, known, request.member_id)
        member = _static_member(group, request)
        _refuse_epoch(member, request)
        return member

    # --- a member leaves

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        group = self.shard.groups.get(request.group_id)
        if not isinstance(group, LiveConsumerGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        member = group.members.get(request.member_id)
        if request.group_instance_id is not None:
            member = _static_member(group, request)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.group_instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            absent = replace(member, member_epoch=STATIC_LEAVE_EPOCH, pending_revocation={})
            leaves = [current_assignment(group.group_id, absent)]
            error_code = self.changes.append(
                ConsumerGroupUpdate(group=group, start=group, changes=leaves)
            )
        else:
            error_code = self.changes.fence(group, [member])
        if error_code is not ErrorCode.NONE:
            raise Refused(error_code)
        return answer


def _static_member(
    group: LiveConsumerGroup, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    member = group.static_member(request.group_instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.member_id != request.member_id:
        raise Refused(ErrorCode.FENCED_INSTANCE_ID)
    return member


def _refuse_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Refuse a wrong member epoch, except the previous one if the last answer may be lost."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    is_answer_lost = (
        epoch == member.previous_member_epoch
        and epoch < member.member_epoch
        and request.owned is not None
        and all(
            topic_id in member.assigned and partitions <= member.assigned[topic_id]
            for topic_id, partitions in request.owned.items()
        )
    )
    if not is_answer_lost:
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH)


def _send_to_rejoin(group: ClassicGroup) -> None:
    """Make members that wait for an answer of a converted classic group join again."""
    rejoin = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        member.answer_join(JoinGroupResponse(error_code=rejoin, member_id=member.member_id))
        member.answer_sync(SyncGroupResponse(error_code=rejoin))


def _no_change(_group: LiveConsumerGroup) -> None:
    """The replay of a classic group's tombstone, which does not affect the consumer group."""
