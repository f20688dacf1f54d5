"""The phases of a classic group's rebalance: joining, the next generation, its assignment.

A rebalance is PreparingRebalance until all members have joined, or until the longest of their
rebalance timeouts has passed. An Empty group waits for `group.initial.rebalance.delay.ms`, and
longer while new members join. Dynamic members that did not join are removed. The next generation is
CompletingRebalance until its leader sends the assignments. `store_group` then appends a
GroupMetadata record before the members get their assignments.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`prepareRebalance`, `completeClassicGroupJoin`, `expire…`, `propagateAssignment`) at 4.2.0;
GroupCoordinator.scala (`prepareRebalance`, `onCompleteJoin`) and GroupMetadataManager.scala
(`storeGroup`) at 3.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_state.model.classic_group import ClassicGroup, ClassicMember, ClassicState
from coordinator_state.model.records import group_metadata
from coordinator_state.model.requests import ErrorCode, JoinGroupResponse, SyncGroupResponse
from coordinator_state.model.shard import LiveGroup, Shard

_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

_JOIN, _SYNC, _HEARTBEAT = _TIMERS = ("join", "sync", "heartbeat")


@dataclass(slots=True)
class Rebalances:
    """The rebalances of a coordinator's classic groups."""

    shard: Shard

    # --- preparing

    def prepare_or_complete(self, group: ClassicGroup) -> ErrorCode:
        """Start a rebalance, or complete the joining of a current one if all members joined.

        Returns:
            The error of the append if the group became Empty; otherwise NONE.
        """
        if group.can_rebalance:
            return self.prepare(group)
        return self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup) -> ErrorCode:
        """Start a rebalance. Members that wait for an assignment must join again."""
        if group.is_in(_COMPLETING):
            self.reset_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync_members.clear()
        self.shard.timers.cancel(_sync_timer(group))
        was_empty = group.is_in(_EMPTY)
        if was_empty:
            delay_ms = self.shard.config.group_initial_rebalance_delay_ms
            self._delay_first_join(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.transition_to(_PREPARING, self.shard.now_ms)
        if was_empty:
            return ErrorCode.NONE
        if group.has_all_members_joined:
            return self._complete_join(group)
        self._complete_later(group)
        return ErrorCode.NONE

    def complete_if_all_joined(self, group: ClassicGroup) -> ErrorCode:
        """Complete the joining if all members joined. A first rebalance waits for its delay."""
        if (
            group.is_in(_PREPARING)
            and group.previous_state is not _EMPTY
            and group.has_all_members_joined
        ):
            return self._complete_join(group)
        return ErrorCode.NONE

    def _delay_first_join(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def delay_passed() -> None:
            if not (group.new_member_added and remaining_ms):
                self._complete_join(group)
                return
            group.new_member_added = False
            next_ms = min(self.shard.config.group_initial_rebalance_delay_ms, remaining_ms)
            self._delay_first_join(group, next_ms, max(remaining_ms - delay_ms, 0))

        self.shard.timers.schedule(_join_timer(group), delay_ms, delay_passed)

    def _complete_later(self, group: ClassicGroup) -> None:
        self.shard.timers.schedule(
            _join_timer(group), group.rebalance_timeout_ms, lambda: self._complete_join(group)
        )

    def _complete_join(self, group: ClassicGroup) -> ErrorCode:
        """Start the next generation with the members that joined."""
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
        """The answer to a member's join; the leader's answer lists all members."""
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
        """Set the leader's assignments, answer waiting members, and make the group Stable."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._propagate(group, ErrorCode.NONE)
        group.transition_to(_STABLE, self.shard.now_ms)

    def reset_assignment(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        """Clear all assignments and answer waiting members with the error."""
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error_code)

    def _propagate(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        is_good = error_code is ErrorCode.NONE
        for member in group.members.values():
            was_answered = member.answer_sync(
                SyncGroupResponse(
                    error_code=error_code,
                    protocol_type=group.protocol_type if is_good else None,
                    protocol_name=group.protocol_name if is_good else None,
                    assignment=member.assignment,
                )
            )
            if was_answered:
                self.expect_heartbeat(group, member)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """Stop waiting for a member's SyncGroup, because it arrived."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self.shard.timers.cancel(_sync_timer(group))

    def _expire_syncs(self, group: ClassicGroup) -> None:
        """Remove members that did not ask for their assignment in time, and rebalance."""
        if group.is_in(_COMPLETING, _STABLE) and group.pending_sync_members:
            for member_id in list(group.pending_sync_members):
                group.remove(member_id)
                self.shard.timers.cancel(_heartbeat_timer(group, member_id))
            self.prepare(group)

    # --- sessions

    def expect_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """Restart a member's session timeout."""
        self.expect(
            group,
            member.member_id,
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
        )

    def renew_session(self, group: LiveGroup, member_id: str) -> None:
        """Restart a member's session timeout after it committed offsets."""
        if isinstance(group, ClassicGroup) and group.is_in(_STABLE, _PREPARING):
            self.expect_heartbeat(group, group.members[member_id])

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Expire a member or an assigned member id after a timeout, unless called again."""
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
        """Complete the joining after a session expired.

        Kafka 4 then ends even a first rebalance early. Kafka 3 does not.
        """
        if self.shard.is_scala:
            self.complete_if_all_joined(group)
        else:
            self._complete_join(group)

    def drop(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member. If it waits for its join, the answer makes it join as a new member."""
        self.shard.timers.cancel(_heartbeat_timer(group, member.member_id))
        member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def drop_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member id that was assigned but has not joined."""
        self.shard.timers.cancel(_heartbeat_timer(group, member_id))
        group.remove(member_id)

    def cancel_timers(self, group_id: str) -> None:
        """Cancel the timers of a group that is no longer a classic group."""
        self.shard.timers.cancel_all(group_id, _TIMERS)


def _join_timer(group: ClassicGroup) -> tuple[str, ...]:
    return (_JOIN, group.group_id)


def _sync_timer(group: ClassicGroup) -> tuple[str, ...]:
    return (_SYNC, group.group_id)


def _heartbeat_timer(group: ClassicGroup, member_id: str) -> tuple[str, ...]:
    return (_HEARTBEAT, group.group_id, member_id)
