"""The uniform assignor where no random sequence reaches it, and the order of a Java hash map.

`integration/test_shard_oracle.py` compares both assignors with Kafka's.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.model.assignors import Subscriber, uniform_assignor
from coordinator_state.model.java_hash import in_hash_order

T, U = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("subscribed", [("tu", "tu", "tu"), ("tu", "t", "u"), ("t", "t", "u")])
def test_uniform_gives_every_partition_to_one_subscriber(subscribed: tuple[str, ...]) -> None:
    sizes = {"t": (T, 7), "u": (U, 4)}
    targets: dict[str, Any] = {}
    for count in (1, 2, 3, 2, 1):
        members = {
            f"m{number}": Subscriber(
                None,
                dict(sizes[topic] for topic in subscribed[number]),
                targets.get(f"m{number}", {}),
            )
            for number in range(count)
        }
        targets = uniform_assignor(members)
        given = [(t, p) for of in targets.values() for t, ps in of.items() for p in ps]
        wanted = {topic for number in range(count) for topic in subscribed[number]}
        assert sorted(given) == sorted(
            (topic_id, p) for topic_id, n in map(sizes.__getitem__, wanted) for p in range(n)
        )
        for member_id, assigned in targets.items():
            assert set(assigned) <= set(members[member_id].topic_ids)
        if len(set(subscribed[:count])) == 1:
            loads = [sum(map(len, assigned.values())) for assigned in targets.values()]
            assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize(
    ("t", "u"),
    [
        ("a2bb5ba1-9094-4265-b7e3-28ab74b9ca55", "2e207dd6-7b2a-4d8f-87d5-303ed3607ad7"),
        ("ffba6a35-4470-48a7-b252-4ba86662d25f", "5aeead2b-40a7-4574-a9d6-dc33d4a1115d"),
        ("9806a9f4-e997-46e3-9e2d-051ed0da18d6", "7c3e7253-4512-4601-9ffa-285aa63b96cc"),
    ],
)
def test_uniform_keeps_the_later_of_two_topics_in_one_bucket(t: str, u: str) -> None:
    """Topic ids of a broker of 4.2.0, whose first member kept the topic u."""
    topics = {UUID(t): 10, UUID(u): 10}
    alone = uniform_assignor({"a": Subscriber(None, topics, {})})
    both = uniform_assignor(
        {"a": Subscriber(None, topics, alone["a"]), "b": Subscriber(None, topics, {})}
    )
    assert [*alone["a"]] == [UUID(u), UUID(t)]
    assert both == {
        "a": {UUID(u): frozenset(range(10))},
        "b": {UUID(t): frozenset(range(10))},
    }


def test_the_order_of_a_java_hash_map() -> None:
    """As `new HashSet<>(List.of(...))` and the keys of a `HashMap` print themselves with JDK 17."""
    assert in_hash_order(["range", "roundrobin", "sticky"]) == ["sticky", "range", "roundrobin"]
    numbers = [19, 18, 17, 16, 5, 15, 6, 14, 3, 13, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]
    members = [f"member-{number}" for number in range(20)]
    assert in_hash_order(members) == [f"member-{number}" for number in numbers]
    ids = [UUID(int=(0x123456789ABCDEF0 * number << 64) + 77 * number) for number in range(5)]
    assert in_hash_order(ids) == [ids[number] for number in (0, 4, 3, 2, 1)]
