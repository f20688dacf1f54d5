"""The assignors of consumer groups, which compute target assignments.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/assignor/
RangeAssignor.java, UniformAssignor.java and UniformHomogeneousAssignmentBuilder.java at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from coordinator_state.model.java_hash import in_hash_order
from coordinator_state.model.topics import Assigned

Targets = dict[str, Assigned]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as input of an assignor.

    `topic_ids` has the number of partitions by topic id; `target` is the previous target.
    """

    group_instance_id: str | None
    topic_ids: Mapping[UUID, int]
    target: Assigned


Assignor = Callable[[Mapping[str, Subscriber]], Targets]


def range_assignor(members: Mapping[str, Subscriber]) -> Targets:
    """Assign a range of each topic to every subscriber of it, static members first."""
    ordered = sorted(members, key=lambda m: _range_order(m, members[m]))
    topics = {t: n for m in ordered for t, n in members[m].topic_ids.items()}
    targets: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in ordered}
    for topic_id, partitions in topics.items():
        subscribers = [m for m in ordered if topic_id in members[m].topic_ids]
        least, extra = divmod(partitions, len(subscribers))
        start = 0
        for number, member_id in enumerate(subscribers):
            end = start + least + (number < extra)
            if start < end:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, str]:
    instance_id = member.group_instance_id
    return instance_id is None, member_id if instance_id is None else instance_id


def uniform_assignor(members: Mapping[str, Subscriber]) -> Targets:
    """Assign partitions evenly, with as few moves as possible.

    This is Kafka's algorithm if all members subscribe to the same topics. Otherwise the result is
    as balanced as Kafka's, but rarely the same.
    """
    subscriptions = [set(member.topic_ids) for member in members.values()]
    if all(topics == subscriptions[0] for topics in subscriptions):
        return _uniform_of_same_topics(members)
    return _uniform_of_other_topics(members)


def _uniform_of_same_topics(members: Mapping[str, Subscriber]) -> Targets:
    topics = next(iter(members.values())).topic_ids if members else {}
    if not topics:
        return {}
    assigned = {(t, n) for m in members.values() for t, ns in m.target.items() for n in ns}
    left = [
        (t, n) for t in in_hash_order(topics) for n in range(topics[t]) if (t, n) not in assigned
    ]
    least, extras = divmod(sum(topics.values()), len(members))
    kept: dict[str, dict[UUID, set[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for number, member_id in enumerate(in_hash_order(members)):
        target = members[member_id].target
        quota, takes_extra = least + (extras > 0), extras > 0
        kept[member_id] = {}
        for topic_id in [t for t in in_hash_order(target) if t in topics]:
            partitions = in_hash_order(sorted(target[topic_id]))
            stay = partitions[: max(quota, 0)]
            quota -= len(stay)
            left += [(topic_id, partition) for partition in partitions[len(stay) :]]
            if stay:
                kept[member_id][topic_id] = set(stay)
        if quota > 0 and takes_extra and len(members) - number > extras:
            # Another member may keep the extra partition without a move.
            quota, takes_extra = quota - 1, False
        if quota > 0:
            unfilled.append((member_id, quota))
        extras -= takes_extra
    given = iter(left)
    for member_id, quota in unfilled:
        added: dict[UUID, set[int]] = {}
        for _, (topic_id, partition) in zip(range(quota), given, strict=False):
            of_member = kept[member_id] if topic_id in kept[member_id] else added
            of_member.setdefault(topic_id, set()).add(partition)
        # HashMap.computeIfAbsent inserts at the head of a bucket.
        kept[member_id] = {**dict(reversed(added.items())), **kept[member_id]}
    return _frozen(kept)


def _uniform_of_other_topics(members: Mapping[str, Subscriber]) -> Targets:
    kept: dict[str, dict[UUID, set[int]]] = {
        member_id: {t: set(p) for t, p in member.target.items() if t in member.topic_ids}
        for member_id, member in members.items()
    }
    assigned = {(t, n) for of_member in kept.values() for t, ns in of_member.items() for n in ns}
    topics = {t: n for member in members.values() for t, n in member.topic_ids.items()}

    def subscribers(topic_id: UUID) -> list[str]:
        return [m for m, member in members.items() if topic_id in member.topic_ids]

    def load(member_id: str) -> int:
        return sum(map(len, kept[member_id].values()))

    for topic_id, partitions in topics.items():
        for partition in range(partitions):
            if (topic_id, partition) not in assigned:
                least_loaded = min(subscribers(topic_id), key=load)
                kept[least_loaded].setdefault(topic_id, set()).add(partition)
    for topic_id in topics:
        candidates = subscribers(topic_id)
        while True:
            most_loaded = max(
                (m for m in candidates if kept[m].get(topic_id)), key=load, default=None
            )
            least_loaded = min(candidates, key=load)
            if most_loaded is None or load(most_loaded) - load(least_loaded) < 2:
                break
            kept[least_loaded].setdefault(topic_id, set()).add(kept[most_loaded][topic_id].pop())
    return _frozen(kept)


def _frozen(kept: Mapping[str, Mapping[UUID, set[int]]]) -> Targets:
    return {
        member_id: {topic_id: frozenset(p) for topic_id, p in of_member.items() if p}
        for member_id, of_member in kept.items()
    }


DEFAULT_ASSIGNOR: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assignor]] = {
    DEFAULT_ASSIGNOR: uniform_assignor,
    "range": range_assignor,
}
"""`group.consumer.assignors`; the first one is the default."""
