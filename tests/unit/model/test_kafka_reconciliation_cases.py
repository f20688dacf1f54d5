"""Kafka's own cases of a member's next step: consumer/CurrentAssignmentBuilderTest, 4.2.0.

Each row is named after the case it follows; `tests/kafka-cases.md` has the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import pytest

from coordinator_state.model.consumer_member import ConsumerMember, MemberState
from coordinator_state.model.reconciliation import Reconciliation
from coordinator_state.model.topics import Assigned, Topic, Topics

ONE, TWO = UUID(int=1), UUID(int=2)
PARTITIONS = 10
TOPICS = Topics({"topic1": Topic(ONE, PARTITIONS), "topic2": Topic(TWO, PARTITIONS)})

Owners = Collection[tuple[UUID, int]]
NOBODY: Owners = ()
OF_TWO: Owners = [(TWO, partition) for partition in range(PARTITIONS)]
OF_BOTH: Owners = [(ONE, partition) for partition in range(PARTITIONS)] + [*OF_TWO]
"""Partitions that somebody has; in Kafka's cases the member itself may be the one."""


def parts(one: Iterable[int] = (), two: Iterable[int] = ()) -> Assigned:
    """Partitions of topic 1, and of topic 2."""
    return {t: frozenset(p) for t, p in ((ONE, one), (TWO, two)) if p}


NOTHING = parts()


def in_state(
    state: MemberState, epoch: int, previous: int, assigned: Assigned, pending: Assigned = NOTHING
) -> ConsumerMember:
    return ConsumerMember(
        member_id="member",
        state=state,
        member_epoch=epoch,
        previous_member_epoch=previous,
        assigned=assigned,
        pending_revocation=pending,
    )


stable = partial(in_state, MemberState.STABLE)
unrevoked = partial(in_state, MemberState.UNREVOKED_PARTITIONS)
unreleased = partial(in_state, MemberState.UNRELEASED_PARTITIONS)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`subscription` are the names in it; `client_has` is None where the client does not say."""

    before: ConsumerMember
    target_epoch: int
    target: Assigned
    owned: Owners = NOBODY
    client_has: Assigned | None = None
    subscription: frozenset[str] = frozenset({"topic1", "topic2"})
    has_subscription_changed: bool = False
    after: ConsumerMember


HAS_BOTH = parts([1, 2, 3], [4, 5, 6])
HAS_LESS = parts([2, 3], [5, 6])
GIVES_UP = unrevoked(10, 10, HAS_LESS, parts([1], [4]))
WAITS = unreleased(11, 11, HAS_LESS)
ONLY_TWO = frozenset({"topic2"})

CASES = {
    "testStableToStable": Case(
        before=stable(10, 10, HAS_BOTH),
        target_epoch=11,
        target=HAS_BOTH,
        owned=OF_BOTH,
        after=stable(11, 10, HAS_BOTH),
    ),
    "testStableToStableWithNewPartitions": Case(
        before=stable(10, 10, HAS_BOTH),
        target_epoch=11,
        target=parts([1, 2, 3, 4], [4, 5, 6, 7]),
        after=stable(11, 10, parts([1, 2, 3, 4], [4, 5, 6, 7])),
    ),
    "testStableToUnrevokedPartitions": Case(
        before=stable(10, 10, HAS_BOTH),
        target_epoch=11,
        target=parts([2, 3, 4], [5, 6, 7]),
        after=unrevoked(10, 10, HAS_LESS, parts([1], [4])),
    ),
    "testStableToUnreleasedPartitions": Case(
        before=stable(10, 10, HAS_BOTH),
        target_epoch=11,
        target=parts([1, 2, 3, 4], [4, 5, 6, 7]),
        owned=OF_BOTH,
        after=unreleased(11, 10, HAS_BOTH),
    ),
    "testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions": Case(
        before=stable(10, 10, HAS_BOTH),
        target_epoch=11,
        target=parts([1, 2, 3], [4, 5, 7]),
        owned=OF_TWO,
        client_has=NOTHING,
        after=unreleased(11, 10, parts([1, 2, 3], [4, 5])),
    ),
    "testUnrevokedPartitionsToStable": Case(
        before=GIVES_UP,
        target_epoch=11,
        target=HAS_LESS,
        client_has=HAS_LESS,
        after=stable(11, 10, HAS_LESS),
    ),
    **{
        f"testRemainsInUnrevokedPartitions[{not_revoked}]": Case(
            before=GIVES_UP,
            target_epoch=12,
            target=parts([3], [6]),
            client_has=client_has,
            after=GIVES_UP,
        )
        for not_revoked, client_has in {
            "unsaid": None,
            "topic 1": parts([1, 2, 3], [5, 6]),
            "topic 2": parts([2, 3], [4, 5, 6]),
        }.items()
    },
    "testUnrevokedPartitionsToUnrevokedPartitions": Case(
        before=GIVES_UP,
        target_epoch=12,
        target=parts([3], [6]),
        client_has=HAS_LESS,
        after=unrevoked(10, 10, parts([3], [6]), parts([2], [5])),
    ),
    "testUnrevokedPartitionsToUnreleasedPartitions": Case(
        before=unrevoked(11, 10, HAS_LESS),
        target_epoch=11,
        target=parts([2, 3, 4], [5, 6, 7]),
        owned=OF_BOTH,
        client_has=HAS_LESS,
        after=unreleased(11, 11, HAS_LESS),
    ),
    "testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation": Case(
        before=unrevoked(10, 10, HAS_LESS, parts([4])),
        target_epoch=12,
        target=parts([2, 3, 4], [5, 6, 7]),
        owned=[(ONE, 2), (ONE, 3), (ONE, 4), (TWO, 5), (TWO, 6)],
        client_has=HAS_LESS,
        after=stable(12, 10, parts([2, 3, 4], [5, 6, 7])),
    ),
    "testUnreleasedPartitionsToStable": Case(
        before=WAITS,
        target_epoch=12,
        target=HAS_LESS,
        owned=OF_BOTH,
        after=stable(12, 11, HAS_LESS),
    ),
    "testUnreleasedPartitionsToStableWithNewPartitions": Case(
        before=WAITS,
        target_epoch=11,
        target=parts([2, 3, 4], [5, 6, 7]),
        after=stable(11, 11, parts([2, 3, 4], [5, 6, 7])),
    ),
    "testUnreleasedPartitionsToUnreleasedPartitions": Case(
        before=WAITS,
        target_epoch=11,
        target=parts([2, 3, 4], [5, 6, 7]),
        owned=OF_BOTH,
        after=WAITS,
    ),
    "testUnreleasedPartitionsToUnrevokedPartitions": Case(
        before=WAITS,
        target_epoch=12,
        target=parts([3], [6]),
        owned=OF_BOTH,
        after=unrevoked(11, 11, parts([3], [6]), parts([2], [5])),
    ),
    **{
        f"testStableToStableWithAssignmentTopicsNoLongerInSubscription[{epoch}, {changed}]": Case(
            before=stable(10, 10, HAS_BOTH),
            target_epoch=epoch,
            target=HAS_BOTH,
            client_has=parts([], [4, 5, 6]),
            subscription=ONLY_TWO,
            has_subscription_changed=changed,
            after=stable(epoch, 10, parts([], [4, 5, 6])),
        )
        for epoch, changed in [(11, False), (11, True), (10, True)]
    },
    **{
        "testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription"
        f"[{epoch}, {changed}]": Case(
            before=stable(10, 10, HAS_BOTH),
            target_epoch=epoch,
            target=HAS_BOTH,
            client_has=HAS_BOTH,
            subscription=ONLY_TWO,
            has_subscription_changed=changed,
            after=unrevoked(10, 10, parts([], [4, 5, 6]), parts([1, 2, 3])),
        )
        for epoch, changed in [(11, False), (11, True), (10, True)]
    },
    "testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription": Case(
        before=GIVES_UP,
        target_epoch=12,
        target=parts([1, 3, 4], [6, 7]),
        client_has=HAS_BOTH,
        subscription=ONLY_TWO,
        has_subscription_changed=True,
        after=unrevoked(10, 10, parts([], [5, 6]), parts([1, 2, 3], [4])),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_next_step_of_a_member(case: Case) -> None:
    before = replace(case.before, subscribed_topics=case.subscription)
    after = Reconciliation(
        target_epoch=case.target_epoch,
        target=case.target,
        owned=case.owned,
        topic_ids=TOPICS.ids_of(before.subscribed_topics),
        has_subscription_changed=case.has_subscription_changed,
        owned_by_client=case.client_has,
    ).next_of(before)
    assert after == replace(case.after, subscribed_topics=case.subscription)
