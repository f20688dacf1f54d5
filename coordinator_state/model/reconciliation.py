"""The next step of a member of a consumer group towards its target assignment (KIP-848).

What it has and is not to have any more it gives up first, in its old epoch. What it is to have it
gets once nobody else has it, and comes to the epoch of the target.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/modern/consumer/
CurrentAssignmentBuilder.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from coordinator_state.model.consumer_member import ConsumerMember, MemberState
from coordinator_state.model.topics import Assigned

_NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What a member's next assignment depends on.

    `owned` are partitions that somebody in the group has or still has to give up, `topic_ids` the
    topics that the member subscribes to. `owned_by_client` is what the client says it has, None
    where it says nothing.
    """

    target_epoch: int
    target: Assigned
    owned: Collection[tuple[UUID, int]]
    topic_ids: Collection[UUID]
    has_subscription_changed: bool
    owned_by_client: Assigned | None

    def next_of(self, member: ConsumerMember) -> ConsumerMember:
        """The member after the step; itself where there is none to take."""
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

    def _still_owns(self, given_up: Assigned) -> bool:
        if self.owned_by_client is None:
            return True
        return any(
            partitions & given_up.get(topic_id, _NOBODY)
            for topic_id, partitions in self.owned_by_client.items()
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Where only the subscription has changed, what is not subscribed to any more goes."""
        gone = {t: p for t, p in member.assigned.items() if t not in self.topic_ids}
        if not gone:
            return member
        assigned = {t: p for t, p in member.assigned.items() if t not in gone}
        revoked = _union(member.pending_revocation, gone)
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
        is_waiting = free != missing
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            member_epoch=self.target_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=_union(kept, free),
            pending_revocation={},
        )

    def _is_free(self, member: ConsumerMember, topic_id: UUID, partition: int) -> bool:
        # What the member itself is about to give up waits for nobody else.
        is_own = partition in member.pending_revocation.get(topic_id, _NOBODY)
        return is_own or (topic_id, partition) not in self.owned


def _each(
    assigned: Assigned, choose: Callable[[UUID, frozenset[int]], frozenset[int]]
) -> dict[UUID, frozenset[int]]:
    chosen = {topic_id: choose(topic_id, p) for topic_id, p in assigned.items()}
    return {topic_id: partitions for topic_id, partitions in chosen.items() if partitions}


def _union(one: Assigned, other: Assigned) -> dict[UUID, frozenset[int]]:
    return {t: one.get(t, _NOBODY) | other.get(t, _NOBODY) for t in {**one, **other}}
