"""Kafka's own cases of assignors, 4.2.0: RangeAssignorTest, OptimizedUniformAssignmentBuilderTest.

Each row or function is named after the case it follows; `tests/kafka-cases.md` has the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from uuid import UUID

import pytest

from coordinator_state.model.assignors import Subscriber, Targets, range_assignor, uniform_assignor
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.wire.primitives import uuid_from_text

Has = Mapping[str, set[int]]
"""Partitions by topic name."""

IDS = {
    "T1": uuid_from_text("T1-A4s3VTwiI5CTbEp6POw"),
    "T2": uuid_from_text("T2-B4s3VTwiI5YHbPp6YUe"),
    "T3": uuid_from_text("T3-CU8fVTLCz5YMkLoDQsa"),
}
"""Those of Kafka's cases: a hash map goes through topic 2, topic 3, topic 1."""

TOPIC_1_FIRST = {"T1": IDS["T2"], "T2": IDS["T1"]}
"""For cases where what members had is an ordered map, with topic 1 before topic 2.

Here hashes order it, whatever comes first in a row.
"""


@dataclass(frozen=True)
class Case:
    """`topics` have so many partitions; `members` are subscribed names and what each had."""

    topics: Mapping[str, int]
    members: Mapping[str, tuple[str, Has]]
    expected: Mapping[str, Has]
    ids: Mapping[str, UUID] = field(default_factory=lambda: IDS)


def subscribers(case: Case) -> dict[str, Subscriber]:
    topics = Topics({name: Topic(case.ids[name], n) for name, n in case.topics.items()})
    return {
        member_id: Subscriber(None, topics.ids_of(names.split()), by_id(case, had))
        for member_id, (names, had) in case.members.items()
    }


def by_id(case: Case, has: Has) -> dict[UUID, frozenset[int]]:
    return {case.ids[name]: frozenset(partitions) for name, partitions in has.items()}


def expected(case: Case) -> Targets:
    return {member_id: by_id(case, has) for member_id, has in case.expected.items()}


# --- RangeAssignorTest

RANGE = {
    "testOneMemberNoTopic": Case({}, {"A": ("", {})}, {"A": {}}),
    "testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions": Case(
        {"T1": 3, "T3": 2},
        {"A": ("T1 T3", {}), "B": ("T1 T3", {})},
        {"A": {"T1": {0, 1}, "T3": {0}}, "B": {"T1": {2}, "T3": {1}}},
    ),
    "testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions": Case(
        {"T1": 3, "T2": 3, "T3": 2},
        {"A": ("T1 T2", {}), "B": ("T3", {}), "C": ("T2 T3", {})},
        {
            "A": {"T1": {0, 1, 2}, "T2": {0, 1}},
            "B": {"T3": {0}},
            "C": {"T2": {2}, "T3": {1}},
        },
    ),
    "testFirstAssignmentNumMembersGreaterThanNumPartitions": Case(
        {"T1": 3, "T3": 2},
        {"A": ("T1 T3", {}), "B": ("T1 T3", {}), "C": ("T1 T3", {})},
        {"A": {"T1": {0}, "T3": {0}}, "B": {"T1": {1}, "T3": {1}}, "C": {"T1": {2}}},
    ),
    "testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded": Case(
        {"T1": 2, "T2": 2},
        {
            "A": ("T1 T2", {"T1": {0}, "T2": {0}}),
            "B": ("T1 T2", {"T1": {1}, "T2": {1}}),
            "C": ("T1 T2", {}),
        },
        {"A": {"T1": {0}, "T2": {0}}, "B": {"T1": {1}, "T2": {1}}, "C": {}},
    ),
    "testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics": Case(
        {"T1": 4, "T2": 4},
        {
            "A": ("T1 T2", {"T1": {0, 1}, "T2": {0, 1}}),
            "B": ("T1 T2", {"T1": {2}, "T2": {2}}),
        },
        {"A": {"T1": {0, 1}, "T2": {0, 1}}, "B": {"T1": {2, 3}, "T2": {2, 3}}},
    ),
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics": Case(
        {"T1": 3, "T2": 3},
        {
            "A": ("T1 T2", {"T1": {0, 1}, "T2": {0, 1}}),
            "B": ("T1 T2", {"T1": {2}, "T2": {2}}),
            "C": ("T1 T2", {}),
        },
        {
            "A": {"T1": {0}, "T2": {0}},
            "B": {"T1": {1}, "T2": {1}},
            "C": {"T1": {2}, "T2": {2}},
        },
    ),
    "testReassignmentWhenOneMemberAddedAndOnePartition"
    "AfterInitialAssignmentWithTwoMembersTwoTopics": Case(
        {"T1": 4, "T2": 3},
        {
            "A": ("T1 T2", {"T1": {0, 1}, "T2": {0, 1}}),
            "B": ("T1 T2", {"T1": {2}, "T2": {2}}),
            "C": ("T1", {}),
        },
        {"A": {"T1": {0, 1}, "T2": {0, 1}}, "B": {"T1": {2}, "T2": {2}}, "C": {"T1": {3}}},
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": Case(
        {"T1": 3, "T2": 3},
        {"B": ("T1 T2", {"T1": {2}, "T2": {2}})},
        {"B": {"T1": {0, 1, 2}, "T2": {0, 1, 2}}},
    ),
    "testReassignmentWhenMultipleSubscriptionsRemoved"
    "AfterInitialAssignmentWithThreeMembersTwoTopics": Case(
        {"T1": 3, "T2": 3, "T3": 2},
        {
            "A": ("T1", {"T1": {0, 1, 2}, "T2": {0}}),
            "B": ("T1 T2 T3", {"T2": {1}}),
            "C": ("T2", {"T2": {2}, "T3": {0, 1}}),
        },
        {
            "A": {"T1": {0, 1}},
            "B": {"T1": {2}, "T2": {0, 1}, "T3": {0, 1}},
            "C": {"T2": {2}},
        },
    ),
}


@pytest.mark.parametrize("case", RANGE.values(), ids=RANGE)
def test_range(case: Case) -> None:
    assert range_assignor(subscribers(case)) == expected(case)


@pytest.mark.parametrize(
    ("partitions", "instance_ids"),
    [
        pytest.param(3, {"A": "instanceA", "B": "instanceB"}, id="testStaticMembership"),
        pytest.param(
            5, {"A": "instanceA", "C": "instanceC", "B": None}, id="testMixedStaticMembership"
        ),
    ],
)
def test_range_of_a_static_member_that_comes_back(
    partitions: int, instance_ids: dict[str, str | None]
) -> None:
    def subscriber(instance_id: str | None) -> Subscriber:
        return Subscriber(instance_id, {IDS["T1"]: partitions}, {})

    members = {m: subscriber(instance_id) for m, instance_id in instance_ids.items()}
    before = range_assignor(members)
    members["memberA1"] = members.pop("A")
    after = range_assignor(members)
    assert after == {"memberA1" if m == "A" else m: target for m, target in before.items()}
    assert all(after.values())


# --- OptimizedUniformAssignmentBuilderTest

UNIFORM = {
    "testOneMemberNoTopicSubscription": Case({"T1": 3}, {"A": ("", {})}, {}),
    "testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks": Case(
        {"T1": 3, "T3": 2},
        {"A": ("T1 T3", {}), "B": ("T1 T3", {})},
        {"A": {"T3": {0, 1}}, "B": {"T1": {0, 1, 2}}},
    ),
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions": Case(
        {"T3": 2},
        {"A": ("T3", {}), "B": ("T3", {}), "C": ("T3", {})},
        {"A": {}, "B": {"T3": {0}}, "C": {"T3": {1}}},
    ),
    "testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment": Case(
        {"T1": 3, "T2": 3},
        {
            "A": ("T1 T2", {"T2": {0, 1}, "T1": {0, 1}}),
            "B": ("T1 T2", {"T2": {2}, "T1": {2}}),
        },
        {"A": {"T1": {0, 1}, "T2": {0}}, "B": {"T1": {2}, "T2": {1, 2}}},
        TOPIC_1_FIRST,
    ),
    "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics": Case(
        {"T1": 6, "T2": 5},
        {
            "A": ("T1 T2", {"T1": {0, 2}, "T2": {0}}),
            "B": ("T1 T2", {"T1": {1}, "T2": {1, 2}}),
        },
        {"A": {"T1": {0, 2}, "T2": {0, 3, 4}}, "B": {"T1": {1, 3, 4, 5}, "T2": {1, 2}}},
    ),
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics": Case(
        {"T1": 3, "T2": 3},
        {
            "A": ("T1 T2", {"T2": {0}, "T1": {0, 2}}),
            "B": ("T1 T2", {"T2": {1, 2}, "T1": {1}}),
            "C": ("T1 T2", {}),
        },
        {"A": {"T1": {0, 2}}, "B": {"T1": {1}, "T2": {1}}, "C": {"T2": {0, 2}}},
        TOPIC_1_FIRST,
    ),
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics": Case(
        {"T1": 3, "T2": 3},
        {
            "A": ("T1 T2", {"T1": {0}, "T2": {0}}),
            "B": ("T1 T2", {"T1": {1}, "T2": {1}}),
        },
        {"A": {"T1": {0}, "T2": {0, 2}}, "B": {"T1": {1, 2}, "T2": {1}}},
    ),
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics": Case(
        {"T1": 2, "T2": 2},
        {
            "A": ("T2", {"T1": {0}, "T2": {0}}),
            "B": ("T2", {"T1": {1}, "T2": {1}}),
        },
        {"A": {"T2": {0}}, "B": {"T2": {1}}},
    ),
    "testReassignmentStickinessWhenAlreadyBalanced": Case(
        {"T1": 5},  # and topic 2, to which two members subscribe, is not there
        {
            "A": ("T1", {"T1": {0, 3}}),
            "B": ("T1 T2", {"T1": {1}}),
            "C": ("T1 T2", {"T1": {2, 4}}),
        },
        {"A": {"T1": {0, 3}}, "B": {"T1": {1}}, "C": {"T1": {2, 4}}},
    ),
}


@pytest.mark.parametrize("case", UNIFORM.values(), ids=UNIFORM)
def test_uniform(case: Case) -> None:
    members = subscribers(case)
    targets = uniform_assignor(members)
    assert targets == expected(case)
    assert_valid_and_balanced(members, targets)


def test_validity_and_balance_for_large_sample_set() -> None:
    random = Random(0)
    topic_ids = {UUID(int=random.getrandbits(128)): 3 for _ in range(100)}
    members = {f"member{number}": Subscriber(None, topic_ids, {}) for number in range(1, 50)}
    targets = uniform_assignor(members)
    assert targets.keys() == members.keys()
    assert_valid_and_balanced(members, targets)


def assert_valid_and_balanced(members: Mapping[str, Subscriber], targets: Targets) -> None:
    for member_id, target in targets.items():
        assert target.keys() <= members[member_id].topic_ids.keys()
    of_member = [{(t, n) for t, ns in target.items() for n in ns} for target in targets.values()]
    for one, other in combinations(of_member, 2):
        assert one.isdisjoint(other)
        assert abs(len(one) - len(other)) <= 1
