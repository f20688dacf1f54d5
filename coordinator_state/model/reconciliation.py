"""The next step of a consumer group member towards its target assignment (KIP-848).

In its old epoch the member first revokes the partitions that are not in the target. Then it moves
to the target's epoch, and gets each new partition once no other member owns it.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/modern/consumer/
CurrentAssignmentBuilder.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from coordinator_state.model.consumer_group import ConsumerMember, MemberState
from coordinator_state.model.topics import Assigned

_NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The inputs of a member's next assignment.

    Attributes:
        target_epoch: the epoch of the target assignment.
        target: the member's target assignment.
        owned: the partitions that some member has or must still revoke.
        topic_ids: the topics that the member subscribes to.
        has_subscription_changed: whether the request changes the subscription.
        owned_by_client: the partitions that the client reports; None if it reports none.
    """

    target_epoch: int
    target: Assigned
    owned: Collection[tuple[UUID, int]]
    topic_ids: Collection[UUID]
    has_subscription_changed: bool
    owned_by_client: Assigned | None

    def next_of(self, member: ConsumerMember) -> ConsumerMember:
        """The member after the step; the same object if there is no step."""
        if member.is_reconciled_to(self.target_epoch) and not self.has_subscription_changed:
            return member
        if member.state is MemberState.STABLE and member.member_epoch == self.target_epoch:
            return self._without_unsubscribed(member)
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(
            member.pending_revocation
        ):
            changed = self.has_subscription_changed
            return self._without_unsubscribed(member) if changed else member
        return self._stepped(member)

    def _still_owns(self, revoked: Assigned) -> bool:
        if self.owned_by_client is None:
            return True
        return any(
            partitions & revoked.get(topic_id, _NOBODY)
            for topic_id, partitions in self.owned_by_client.items()
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke unsubscribed topics; for a subscription change without a new target."""
        unsubscribed = {t: p for t, p in member.assigned.items() if t not in self.topic_ids}
        if not unsubscribed:
            return member
        assigned = {t: p for t, p in member.assigned.items() if t not in unsubscribed}
        revoked = _union(member.pending_revocation, unsubscribed)
        if revoked and self._still_owns(revoked):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=assigned,
                pending_revocation=revoked,
            )
        return replace(member, assigned=assigned)

    def _stepped(self, member: ConsumerMember) -> ConsumerMember:
        target = {t: p for t, p in self.target.items() if t in self.topic_ids}
        kept = _each(member.assigned, lambda t, p: p & target.get(t, _NOBODY))
        revoked = _each(member.assigned, lambda t, p: p - target.get(t, _NOBODY))
        missing = _each(target, lambda t, p: p - kept.get(t, _NOBODY))
        free = _each(missing, lambda t, p: frozenset(n for n in p if self._is_free(member, t, n)))
        if revoked and self._still_owns(revoked):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_member_epoch=member.member_epoch,
                assigned=kept,
                pending_revocation=revoked,
            )
        has_unreleased = free != missing
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE,
            member_epoch=self.target_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=_union(kept, free),
            pending_revocation={},
        )

    def _is_free(self, member: ConsumerMember, topic_id: UUID, partition: int) -> bool:
        # A partition that the member itself is revoking is free for it.
        is_own = partition in member.pending_revocation.get(topic_id, _NOBODY)
        return is_own or (topic_id, partition) not in self.owned


def _each(
    assigned: Assigned, choose: Callable[[UUID, frozenset[int]], frozenset[int]]
) -> dict[UUID, frozenset[int]]:
    chosen = {topic_id: choose(topic_id, p) for topic_id, p in assigned.items()}
    return {topic_id: partitions for topic_id, partitions in chosen.items() if partitions}


def _union(assigned: Assigned, other: Assigned) -> dict[UUID, frozenset[int]]:
    return {t: assigned.get(t, _NOBODY) | other.get(t, _NOBODY) for t in {**assigned, **other}}
