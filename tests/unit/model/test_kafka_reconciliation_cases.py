"""Kafka's own cases of a member whose topics are no longer in its subscription.

The shard oracle compares all other steps of members with consumer/CurrentAssignmentBuilder, 4.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from uuid import UUID

import pytest

from coordinator_state.model.consumer_group import ConsumerMember, MemberState
from coordinator_state.model.reconciliation import Reconciliation
from coordinator_state.model.topics import Assigned

ONE, TWO = UUID(int=1), UUID(int=2)


def parts(of_topic_1: Iterable[int] = (), of_topic_2: Iterable[int] = ()) -> Assigned:
    """Partitions of topic 1, and of topic 2."""
    return {t: frozenset(p) for t, p in ((ONE, of_topic_1), (TWO, of_topic_2)) if p}


def in_state(
    state: MemberState, epoch: int, assigned: Assigned, pending_revocation: Assigned | None = None
) -> ConsumerMember:
    return ConsumerMember(
        member_id="member",
        state=state,
        member_epoch=epoch,
        previous_member_epoch=10,
        assigned=assigned,
        pending_revocation=pending_revocation or {},
        subscribed_topics=frozenset({"topic2"}),
    )


stable = partial(in_state, MemberState.STABLE)
unrevoked = partial(in_state, MemberState.UNREVOKED_PARTITIONS, 10)
HAS_BOTH = parts([1, 2, 3], [4, 5, 6])
HAS_TWO = parts([], [4, 5, 6])
GIVES_UP_ONE = unrevoked(HAS_TWO, parts([1, 2, 3]))


@pytest.mark.parametrize(
    ("before", "target_epoch", "target", "changed", "client_has", "after"),
    [
        # testStableToStableWithAssignmentTopicsNoLongerInSubscription
        (stable(10, HAS_BOTH), 11, HAS_BOTH, False, HAS_TWO, stable(11, HAS_TWO)),
        (stable(10, HAS_BOTH), 11, HAS_BOTH, True, HAS_TWO, stable(11, HAS_TWO)),
        (stable(10, HAS_BOTH), 10, HAS_BOTH, True, HAS_TWO, stable(10, HAS_TWO)),
        # testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription
        (stable(10, HAS_BOTH), 11, HAS_BOTH, False, HAS_BOTH, GIVES_UP_ONE),
        (stable(10, HAS_BOTH), 11, HAS_BOTH, True, HAS_BOTH, GIVES_UP_ONE),
        (stable(10, HAS_BOTH), 10, HAS_BOTH, True, HAS_BOTH, GIVES_UP_ONE),
        # testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription
        (
            unrevoked(parts([2, 3], [5, 6]), parts([1], [4])),
            12,
            parts([1, 3, 4], [6, 7]),
            True,
            HAS_BOTH,
            unrevoked(parts([], [5, 6]), parts([1, 2, 3], [4])),
        ),
    ],
)
def test_next_step_of_a_member(
    before: ConsumerMember,
    target_epoch: int,
    target: Assigned,
    changed: bool,
    client_has: Assigned,
    after: ConsumerMember,
) -> None:
    reconciliation = Reconciliation(
        target_epoch=target_epoch,
        target=target,
        owned=(),
        topic_ids={TWO},
        has_subscription_changed=changed,
        owned_by_client=client_has,
    )
    assert reconciliation.next_of(before) == after
