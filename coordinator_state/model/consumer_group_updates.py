"""Changes of a consumer group by one request: collected, appended in one batch, then replayed.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`updateSubscriptionMetadata`, `updateTargetAssignment`, `maybeReconcile`, `replaceMember`,
`consumerGroupFenceMembers`, `convertToClassicGroup`) and modern/TargetAssignmentBuilder.java at
4.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from coordinator_state.model.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.consumer_changes import (
    Change,
    current_assignment,
    group_epoch,
    member_subscription,
    removed_member,
    target_assignment,
    target_epoch,
)
from coordinator_state.model.consumer_group import (
    JOIN_EPOCH,
    ConsumerMember,
    LiveConsumerGroup,
    MemberState,
)
from coordinator_state.model.conversion import classic_group_of
from coordinator_state.model.java_hash import in_hash_order
from coordinator_state.model.rebalance import Rebalances
from coordinator_state.model.reconciliation import Reconciliation
from coordinator_state.model.records import group_metadata, removed_group
from coordinator_state.model.requests import ErrorCode, Refused
from coordinator_state.model.shard import Shard
from coordinator_state.model.topics import Assigned

SESSION, REBALANCE, REJOIN, RESYNC = _TIMERS = ("session", "rebalance", "rejoin", "resync")
"""The timers of a member: it is fenced if it does not act in time.

Converting a group does not cancel them. They act on the group that has the id when they fire, if it
is a consumer group.
"""
_RETRY_MS: Final = 500
"""The delay before a timer retries a failed append."""


@dataclass(slots=True, kw_only=True)
class ConsumerGroupUpdate:
    """The effect of a request on a consumer group.

    `group` is the group before the request. After the append, `changes` are replayed on `start`.
    """

    group: LiveConsumerGroup
    start: LiveConsumerGroup
    changes: list[Change] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerGroupUpdates:
    """Updates the consumer groups of a coordinator."""

    shard: Shard
    rebalances: Rebalances

    def append(self, change: ConsumerGroupUpdate) -> ErrorCode:
        """Append the collected changes; if that succeeds, replace the group."""
        if not change.changes:
            return ErrorCode.NONE
        records = [group_change.record for group_change in change.changes]
        error_code, _ = self.shard.append(records, self.shard.group_error)
        if error_code is ErrorCode.NONE:
            after = change.start.copy()
            for group_change in change.changes:
                group_change.replay(after)
            if isinstance(self.shard.groups.get(after.group_id), ClassicGroup):
                self.rebalances.cancel_timers(after.group_id)
            self.shard.groups[after.group_id] = after
        return error_code

    def refuse_if_full(self, group: LiveConsumerGroup, member_id: str) -> None:
        """Refuse a new member if the group is full.

        Raises:
            Refused: the group is full, and the member is not in it.
        """
        is_full = len(group.members) >= self.shard.config.consumer_group_max_size
        if is_full and member_id not in group.members:
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED)

    # --- a member joins or changes

    def replace_static(
        self, change: ConsumerGroupUpdate, known: ConsumerMember, member_id: str
    ) -> ConsumerMember:
        """Let a static member return with another member id, its old assignment, and epoch 0."""
        group_id = change.group.group_id
        member = replace(
            known, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        target = change.group.targets.get(known.member_id, {})
        change.changes += removed_member(group_id, known.member_id)
        change.changes += [
            member_subscription(group_id, member),
            target_assignment(group_id, member_id, target),
            current_assignment(group_id, member),
        ]
        return member

    def update(
        self,
        change: ConsumerGroupUpdate,
        before: ConsumerMember,
        member: ConsumerMember,
        owned: Assigned | None,
    ) -> ConsumerMember:
        """Add the changes for a member: subscription, group epoch, target, and its next step.

        `before` is the member before the request, `owned` the partitions that the client reports.
        """
        has_changed, epoch = self.subscribe(change, before, member)
        group = change.group
        if epoch > group.target_epoch:
            target = self._new_target(change, member, epoch)
        else:
            epoch, target = group.target_epoch, group.target_of(member)
        return self.reconcile(change, member, epoch, target, owned, has_changed=has_changed)

    def subscribe(
        self, change: ConsumerGroupUpdate, before: ConsumerMember, member: ConsumerMember
    ) -> tuple[bool, int]:
        """Add the changes of a member's subscription and of the group epoch.

        Returns:
            Whether the member's topics changed, and the new group epoch.
        """
        group = change.group
        if member != before:
            change.changes.append(member_subscription(group.group_id, member))
        has_changed = member.subscribed_topics != before.subscribed_topics
        members = group.members_with(member).values()
        metadata_hash = self.shard.topics.metadata_hash(
            {topic for m in members for topic in m.subscribed_topics}
        )
        epoch = group.group_epoch
        if epoch == 0 or has_changed or metadata_hash != group.metadata_hash:
            epoch += 1
            change.changes.append(group_epoch(group.group_id, epoch, metadata_hash))
        return has_changed, epoch

    def _new_target(
        self, change: ConsumerGroupUpdate, member: ConsumerMember, epoch: int
    ) -> Assigned:
        group, topics = change.group, self.shard.topics
        members = group.members_with(member)
        subscribers = {
            m.member_id: Subscriber(
                m.group_instance_id, topics.ids_of(m.subscribed_topics), group.target_of(m)
            )
            for m in members.values()
        }
        assign = ASSIGNORS[group.preferred_assignor(member) or DEFAULT_ASSIGNOR]
        targets = assign(subscribers)
        for member_id in in_hash_order(members):
            target = targets.get(member_id, {})
            if target != group.targets.get(member_id):
                change.changes.append(target_assignment(group.group_id, member_id, target))
        change.changes.append(target_epoch(group.group_id, epoch))
        return targets.get(member.member_id, {})

    def reconcile(
        self,
        change: ConsumerGroupUpdate,
        member: ConsumerMember,
        epoch: int,
        target: Assigned,
        owned: Assigned | None,
        *,
        has_changed: bool,
    ) -> ConsumerMember:
        """Take a member's next step, with a record if it changes the member."""
        after = Reconciliation(
            target_epoch=epoch,
            target=target,
            owned=change.group.owned(),
            topic_ids=self.shard.topics.ids_of(member.subscribed_topics),
            has_subscription_changed=has_changed,
            owned_by_client=owned,
        ).next_of(member)
        if after != member:
            change.changes.append(current_assignment(change.group.group_id, after))
        return after

    # --- members leave

    def fence(self, group: LiveConsumerGroup, members: Sequence[ConsumerMember]) -> ErrorCode:
        """Remove members. If all remaining ones use the classic protocol, convert the group.

        Raises:
            Refused: the group cannot be converted.
        """
        if not members:
            return ErrorCode.NONE
        remaining = len(group.members) - len(members)
        if group.is_classic_without(members) and remaining <= self.shard.config.group_max_size:
            return self.convert_to_classic(ConsumerGroupUpdate(group=group, start=group), members)
        change = ConsumerGroupUpdate(group=group, start=group)
        leaving_ids = {member.member_id for member in members}
        for member in members:
            change.changes += removed_member(group.group_id, member.member_id)
        topics = {
            topic
            for member in group.members.values()
            if member.member_id not in leaving_ids
            for topic in member.subscribed_topics
        }
        metadata_hash = self.shard.topics.metadata_hash(topics)
        change.changes.append(group_epoch(group.group_id, group.group_epoch + 1, metadata_hash))
        # If the append fails, the members stay without timers until their next request.
        for member in members:
            for kind in _TIMERS:
                self.shard.timers.cancel((kind, group.group_id, member.member_id))
        return self.append(change)

    def convert_to_classic(
        self,
        change: ConsumerGroupUpdate,
        leaving: Sequence[ConsumerMember],
        joining: ConsumerMember | None = None,
        *,
        rebalances: bool = True,
    ) -> ErrorCode:
        """Convert the group to a classic group of the remaining members.

        Raises:
            Refused: the group cannot be converted.
        """
        group = change.group
        classic = classic_group_of(group, leaving, joining, self.shard.topics, self.shard.now_ms)
        replaced = None if joining is None else group.static_member(joining.group_instance_id)
        member_ids = [
            joining.member_id if joining is not None and member is replaced else member.member_id
            for member in group.members.values()
        ]
        assignments = {m.member_id: m.assignment for m in classic.members.values()}
        records = [
            *(group_change.record for group_change in change.changes),
            *removed_group(group.group_id, member_ids),
            group_metadata(classic.group_id, classic.metadata_value(assignments)),
        ]
        error_code, base_offset = self.shard.append(records, self.shard.group_error)
        if error_code is not ErrorCode.NONE:
            return error_code
        classic.stored(base_offset + len(records) - 1, assignments)
        self.shard.groups[group.group_id] = classic
        for member in classic.members.values():
            self.rebalances.expect_heartbeat(classic, member)
        if rebalances:
            self.rebalances.prepare(classic)
        return ErrorCode.NONE

    # --- timers

    def expect(self, group_id: str, member: ConsumerMember) -> None:
        """Restart a member's session timeout."""
        timeout_ms = self.shard.config.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self.fence_after((SESSION, group_id, member.member_id), timeout_ms)

    def expect_revocation(
        self, group_id: str, before: ConsumerMember, after: ConsumerMember
    ) -> None:
        """Fence a member that does not revoke its partitions within its rebalance timeout.

        The timer is not touched if the member took no step, even after a failed append.
        """
        timer, epoch = (REBALANCE, group_id, after.member_id), after.member_epoch
        if after == before:
            return
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            self.fence_after(
                timer, after.rebalance_timeout_ms, lambda member: member.member_epoch == epoch
            )
        else:
            self.shard.timers.cancel(timer)

    def fence_after(
        self,
        timer: tuple[str, str, str],
        delay_ms: int,
        condition: Callable[[ConsumerMember], bool] = lambda _member: True,
    ) -> None:
        """Fence a member when a timer fires, if it then meets the condition."""
        _, group_id, member_id = timer

        def fence() -> None:
            group = self.shard.groups.get(group_id)
            if not isinstance(group, LiveConsumerGroup):
                return
            member = group.members.get(member_id)
            if member is None or not condition(member):
                return
            with suppress(Refused):
                if self.fence(group, [member]) is not ErrorCode.NONE:
                    self.shard.timers.schedule(timer, _RETRY_MS, fence)

        self.shard.timers.schedule(timer, delay_ms, fence)
