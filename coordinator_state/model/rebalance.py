"""The phases of a classic group's rebalance: who joins, the next generation, its assignment.

A rebalance prepares until all members have joined or the longest of their rebalance timeouts is
over; an Empty group waits for `group.initial.rebalance.delay.ms` and, while members keep coming,
longer. Dynamic members that did not join are out. The next generation is completing until its
leader brings the assignment, and `store_group` makes it durable: a GroupMetadata record is
appended, and only then members are told.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`prepareRebalance`, `completeClassicGroupJoin`, `expire…`, `propagateAssignment`) at 4.2.0;
GroupCoordinator.scala (`prepareRebalance`, `onCompleteJoin`) and GroupMetadataManager.scala
(`storeGroup`) at 3.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.classic_member import ClassicMember
from coordinator_state.model.classic_states import ClassicState
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.records import group_metadata
from coordinator_state.model.requests import JoinGroupResponse, SyncGroupResponse
from coordinator_state.model.shard import LiveGroup, Shard

_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

_JOIN, _SYNC, _HEARTBEAT = _TIMERS = ("join", "sync", "heartbeat")


@dataclass(slots=True)
class Rebalances:
    """The rebalances of a coordinator's classic groups."""

    shard: Shard

    # --- preparing

    def prepare_or_complete(self, group: ClassicGroup) -> ErrorCode:
        """Begin a rebalance, or end the joining of one that is under way and lacks nobody.

        The error is that of the record which a group without members left is stored with.
        """
        if group.can_rebalance:
            return self.prepare(group)
        return self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup) -> ErrorCode:
        """Begin a rebalance: those that wait for an assignment are to join again."""
        if group.is_in(_COMPLETING):
            self.reset_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync_members.clear()
        self.shard.timers.cancel(_sync_timer(group))
        was_empty = group.is_in(_EMPTY)
        if was_empty:
            delay_ms = self.shard.config.group_initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.transition_to(_PREPARING, self.shard.now_ms)
        if was_empty:
            return ErrorCode.NONE
        if group.has_all_members_joined:
            return self._complete_join(group)
        self._complete_later(group)
        return ErrorCode.NONE

    def complete_if_all_joined(self, group: ClassicGroup) -> ErrorCode:
        """End the joining once nobody is missing; the first rebalance waits for its time."""
        if (
            group.is_in(_PREPARING)
            and group.previous_state is not _EMPTY
            and group.has_all_members_joined
        ):
            return self._complete_join(group)
        return ErrorCode.NONE

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def is_over() -> None:
            if not (group.new_member_added and remaining_ms):
                self._complete_join(group)
                return
            group.new_member_added = False
            next_ms = min(self.shard.config.group_initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more(group, next_ms, max(remaining_ms - delay_ms, 0))

        self.shard.timers.schedule(_join_timer(group), delay_ms, is_over)

    def _complete_later(self, group: ClassicGroup) -> None:
        self.shard.timers.schedule(
            _join_timer(group), group.rebalance_timeout_ms, lambda: self._complete_join(group)
        )

    def _complete_join(self, group: ClassicGroup) -> ErrorCode:
        """Begin the next generation with those that joined."""
        self.shard.timers.cancel(_join_timer(group))
        for member in list(group.members.values()):
            if member.join is None and member.group_instance_id is None:
                group.remove(member.member_id)
                self.shard.timers.cancel(_heartbeat_timer(group, member.member_id))
        if group.is_in(_DEAD):
            return ErrorCode.NONE
        if not group.elect_joined_leader() and group.members:
            self._complete_later(group)
            return ErrorCode.NONE
        group.init_next_generation(self.shard.now_ms)
        if group.is_in(_EMPTY):
            return self.store_group(group, {})
        for member in group.members.values():
            member.answer_join(self.joined(group, member.member_id))
            self.expect_heartbeat(group, member)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        self.shard.timers.schedule(
            _sync_timer(group), group.rebalance_timeout_ms, lambda: self._expire_syncs(group)
        )
        return ErrorCode.NONE

    def joined(self, group: ClassicGroup, member_id: str) -> JoinGroupResponse:
        """A member is in the generation; its leader is told who else is."""
        return JoinGroupResponse(
            member_id=member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id,
            members=group.current_members() if group.is_leader(member_id) else (),
        )

    # --- completing

    def store_group(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> ErrorCode:
        """Append the group's GroupMetadata record."""
        error_code, record_offset = self.shard.append(
            [group_metadata(group.group_id, group.metadata_value(assignments))],
            self.shard.group_error,
        )
        if error_code is ErrorCode.NONE:
            group.stored(record_offset, assignments)
        return error_code

    def set_assignment(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
        """Tell members what the leader assigned to them; the group is Stable."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._propagate(group, ErrorCode.NONE)
        group.transition_to(_STABLE, self.shard.now_ms)

    def reset_assignment(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        """Nobody has anything; those that wait are told why."""
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error_code)

    def _propagate(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        is_good = error_code is ErrorCode.NONE
        for member in group.members.values():
            was_waiting = member.answer_sync(
                SyncGroupResponse(
                    error_code=error_code,
                    protocol_type=group.protocol_type if is_good else None,
                    protocol_name=group.protocol_name if is_good else None,
                    assignment=member.assignment,
                )
            )
            if was_waiting:
                self.expect_heartbeat(group, member)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member asked for its assignment."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self.shard.timers.cancel(_sync_timer(group))

    def _expire_syncs(self, group: ClassicGroup) -> None:
        """Members that did not ask for their assignment in time are out."""
        if group.is_in(_COMPLETING, _STABLE) and group.pending_sync_members:
            for member_id in list(group.pending_sync_members):
                group.remove(member_id)
                self.shard.timers.cancel(_heartbeat_timer(group, member_id))
            self.prepare(group)

    # --- sessions

    def expect_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """A member's session begins anew."""
        self.expect(
            group,
            member.member_id,
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def renew_session(self, group: LiveGroup, member_id: str) -> None:
        """A member commits offsets, and so is alive."""
        if isinstance(group, ClassicGroup) and group.is_in(_STABLE, _PREPARING):
            self.expect_heartbeat(group, group.members[member_id])

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """A member, or one that was given an id, is to be heard of in time."""
        self.shard.timers.schedule(
            _heartbeat_timer(group, member_id),
            timeout_ms,
            lambda: self._expire_session(group, member_id),
        )

    def _expire_session(self, group: ClassicGroup, member_id: str) -> None:
        if group.is_in(_DEAD):
            return
        if member_id in group.pending_members:
            group.remove(member_id)
            if group.is_in(_PREPARING) and group.has_all_members_joined:
                self._complete_unless_first(group)
            return
        member = group.members.get(member_id)
        if member is not None and not member.has_satisfied_heartbeat:
            self.drop(group, member)
            if group.is_in(_STABLE, _COMPLETING):
                self.prepare_or_complete(group)
            elif group.is_in(_PREPARING) and group.has_all_members_joined:
                self._complete_unless_first(group)

    def _complete_unless_first(self, group: ClassicGroup) -> None:
        """Kafka 4 ends even a first rebalance early where a session does; Kafka 3 never does."""
        if self.shard.is_scala:
            self.complete_if_all_joined(group)
        else:
            self._complete_join(group)

    def drop(self, group: ClassicGroup, member: ClassicMember) -> None:
        """A member is out; should it still wait for its join, it may come again as a new one."""
        self.shard.timers.cancel(_heartbeat_timer(group, member.member_id))
        member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        """A member that was given an id will not come."""
        self.shard.timers.cancel(_heartbeat_timer(group, member_id))
        group.remove(member_id)

    def cancel_timers(self, group_id: str) -> None:
        """A group is none of the classic protocol any more."""
        self.shard.timers.cancel_all(group_id, _TIMERS)


def _join_timer(group: ClassicGroup) -> tuple[str, ...]:
    return (_JOIN, group.group_id)


def _sync_timer(group: ClassicGroup) -> tuple[str, ...]:
    return (_SYNC, group.group_id)


def _heartbeat_timer(group: ClassicGroup, member_id: str) -> tuple[str, ...]:
    return (_HEARTBEAT, group.group_id, member_id)
