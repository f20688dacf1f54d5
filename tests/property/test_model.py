"""The state of a coordinator equals the state that its log loads to, whole and compacted.

`test_apply_plan.py` compares the tables with the loader.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.model.classic_group import ClassicGroup, CooperativeGroup
from coordinator_state.model.cleaner import clean
from coordinator_state.model.consumer_group import ConsumerGroup
from coordinator_state.model.group import Group, Member
from coordinator_state.model.group_coordinator import (
    MODELLED_RELEASE,
    GroupCoordinator,
    KnownGroup,
    Place,
    Refused,
)
from coordinator_state.model.log import Producer
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.replay.groups import CLASSIC
from coordinator_state.replay.groups import Group as LoadedGroup
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics
from coordinator_state.wire.primitives import uuid_text
from tests.support.tables.plan_tables import OFFSET_VALUES

GROUPS = ("g", "h")
TOPICS = ("t", "u")
RETENTION_MS = 60_000
SESSION_MS = 10_000
MOST_CLIENTS = 4
CLEANED_TIMES = 3
SEEDS, STEPS = 40, 80

State = dict[str, Any]


class RandomGroups:
    """A coordinator to whose groups everything happens; at the end its log is held against it."""

    def __init__(self, semantics: Semantics, seed: int) -> None:
        self.choose = random.Random(seed)
        self.topics = {topic: Topic(UUID(int=n), 3) for n, topic in enumerate(TOPICS, 1)}
        self.coordinator = GroupCoordinator(
            semantics,
            topics=Topics(self.topics),
            offsets_retention_ms=RETENTION_MS,
            seed=seed,
        )
        self.coordinator.now_ms = 1_700_000_000_000
        self.kinds: list[type[Group]] = [ClassicGroup, CooperativeGroup]
        if semantics is Semantics.COORDINATOR:
            self.kinds.append(ConsumerGroup)
        self.groups = {group_id: self._new(group_id) for group_id in GROUPS}
        self.actions: dict[Callable[[Group], None], int] = {
            self.start: 6,
            self.crash: 2,
            self.leave: 3,
            self.change_the_protocol: 2,
            self.change_a_topic: 1,
            self.commit: 12,
            self.end_transaction: 4,
            self.delete_offsets: 2,
            self.delete_group: 1,
            self.expire: 2,
            self.wait: 6,
        }

    def step(self) -> None:
        (action,) = self.choose.choices(list(self.actions), list(self.actions.values()))
        action(self.groups[self.choose.choice(GROUPS)])

    def _new(self, group_id: str) -> Group:
        kind = self.choose.choice(self.kinds)
        return kind(self.coordinator, group_id, TOPICS, session_timeout_ms=SESSION_MS)

    # --- members

    def start(self, group: Group) -> None:
        instance_id = self.choose.choice((None, None, "i", "j"))
        is_taken = instance_id in {m.instance_id for m in group.live if m.instance_id}
        if len(group.live) < MOST_CLIENTS and not is_taken:
            group.start(Member("c", "/h", instance_id))
            group.tick()

    def crash(self, group: Group) -> None:
        if group.live:
            group.crash(self.choose.choice(group.live))

    def leave(self, group: Group) -> None:
        if group.live:
            group.leave(self.choose.choice(group.live), for_good=self.choose.random() < 0.5)

    def change_the_protocol(self, group: Group) -> None:
        """All members leave, and others come with another protocol."""
        for member in group.live:
            group.crash(member)
        self.coordinator.now_ms += SESSION_MS
        group.tick()
        if group.is_empty:
            self.groups[group.group_id] = self._new(group.group_id)

    def change_a_topic(self, _group: Group) -> None:
        """It gets one more partition, or is created again."""
        topic = self.choose.choice(TOPICS)
        known = self.topics[topic]
        is_new = self.choose.random() < 0.5
        topic_id = UUID(int=known.topic_id.int + len(TOPICS)) if is_new else known.topic_id
        self.topics[topic] = Topic(topic_id, 3 if is_new else known.partitions + 1)
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                group.rebalance()
            group.tick()

    # --- offsets

    def _places(self) -> list[Place]:
        return self.choose.sample([(t, p) for t in TOPICS for p in range(2)], k=2)

    def commit(self, group: Group) -> None:
        """In the name of a member if there is one, or of nobody; some in a transaction."""
        offset = self.choose.randrange(100)
        member = self.choose.choice(group.live or [None])
        producer = self.choose.choice((None, None, Producer(1, 0), Producer(2, 0)))
        is_accepted = group.commit(dict.fromkeys(self._places(), offset), member, producer)
        assert is_accepted or not (group.is_empty and not group.live)

    def end_transaction(self, _group: Group) -> None:
        producer = Producer(self.choose.choice((1, 2)), 1)
        self.coordinator.end_transaction(producer, is_commit=self.choose.random() < 0.7)

    @property
    def _can_delete(self) -> bool:
        """Whether no pending offset can come back, as in Kafka 3 with the marker."""
        return not (self.coordinator.is_scala and self.coordinator.pending)

    def delete_offsets(self, group: Group) -> None:
        if not self._can_delete:
            return
        places = self._places()
        self.coordinator.delete_offsets([OffsetKey(group.group_id, *place) for place in places])

    def delete_group(self, group: Group) -> None:
        if not self._can_delete:
            return
        is_there = group.group_id in self.coordinator.groups
        try:
            self.coordinator.delete_group(group.group_id)
            assert is_there
        except Refused as refused:
            assert str(refused) == ("NON_EMPTY_GROUP" if is_there else "GROUP_ID_NOT_FOUND")

    def expire(self, _group: Group) -> None:
        self.coordinator.expire_offsets()

    def wait(self, _group: Group) -> None:
        self.coordinator.now_ms += self.choose.choice((1, 3_000, SESSION_MS, RETENTION_MS))
        for group in self.groups.values():
            group.tick()

    # --- the end

    def check(self) -> None:
        """The log, and what the cleaner leaves of it, load to the state of the coordinator."""
        expected = expected_state(self.coordinator)
        end = self.coordinator.log.next_offset
        assert self._loaded(b"".join(self.coordinator.log.raw)) == expected
        cleaned_batches = self.coordinator.log.batches()
        now_ms = self.coordinator.now_ms
        for _ in range(CLEANED_TIMES):
            raw = clean(
                cleaned_batches,
                upper_bound=self.choose.randint(0, end),
                now_ms=now_ms,
                delete_retention_ms=1,
                producer_id_expiration_ms=self.choose.choice([0, 1 << 60]),
            )
            now_ms += 2
            cleaned = b"".join(raw)
            cleaned_batches = [
                b for b in read_record_batches(cleaned) if isinstance(b, RecordBatch)
            ]
            assert without_simple(self._loaded(cleaned)) == without_simple(expected)

    def _loaded(self, log: bytes) -> State:
        """By the reference loader, as strict as a broker of Kafka 4."""
        semantics = self.coordinator.semantics
        is_strict = semantics is Semantics.COORDINATOR
        loader = ReferenceLoader(semantics, strict=is_strict, release=MODELLED_RELEASE)
        loader.load(read_record_batches(log))
        held = self.coordinator.groups
        return {
            "offsets": {key: _values(offset) for key, offset in loader.offsets.items()},
            "pending": _waiting(loader.pending),
            "groups": {
                group_id: _of_loader(group, is_known=_is_in_log(held.get(group_id)))
                for group_id, group in loader.groups.items()
            },
        }


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("semantics", list(Semantics))
def test_a_log_loads_to_the_state_of_its_coordinator(semantics: Semantics, seed: int) -> None:
    groups = RandomGroups(semantics, seed)
    for _ in range(STEPS):
        groups.step()
    groups.check()


# --- states


def expected_state(coordinator: GroupCoordinator) -> State:
    """The state that a loader of the coordinator's log must have."""
    with_offsets = {key.group_id for key in coordinator.offsets}
    with_offsets |= {key.group_id for keys in coordinator.pending.values() for key in keys}
    return {
        "offsets": {key: _values(offset) for key, offset in coordinator.offsets.items()},
        "pending": _waiting(coordinator.pending),
        "groups": {
            group_id: _of_model(group)
            for group_id, group in coordinator.groups.items()
            # A load of Kafka 3 finds simple groups by their offsets.
            if not coordinator.is_scala or _generation(group) or group_id in with_offsets
        },
    }


def _generation(group: KnownGroup) -> int:
    assert isinstance(group, ClassicGroup)
    return group.generation


def _is_in_log(group: KnownGroup | None) -> bool:
    """Whether the members of a group are those of its records: not while it rebalances."""
    return not (isinstance(group, ClassicGroup) and group.is_rebalancing)


def _of_model(group: KnownGroup) -> State:
    if isinstance(group, ClassicGroup):
        fields: State = {"type": CLASSIC, "generation": group.generation}
        if not _is_in_log(group):
            return fields
        assigned: State = {m: group.assignments[m] for m in group.members}
        fields["protocol_type"] = group.protocol_type
    else:
        assert isinstance(group, ConsumerGroup)
        fields = {"type": "consumer", "epochs": (group.epoch, group.target_epoch)}
        assigned = {
            member_id: (
                current.epoch,
                *(
                    sorted((uuid_text(topic_id), partition) for topic_id, partition in partitions)
                    for partitions in (current.assigned, group.targets[member_id], current.revoking)
                ),
            )
            for member_id, current in group.current.items()
        }
    members = {
        member_id: (member.client_id, member.host, member.instance_id, assigned[member_id])
        for member_id, member in group.members.items()
    }
    return {**fields, "state": group.state, "members": members}


def _of_loader(group: LoadedGroup, *, is_known: bool) -> State:
    if group.group_type == CLASSIC:
        fields: State = {"type": CLASSIC, "generation": group.generation}
        if not is_known:
            return fields
        assigned: State = {m.member_id: m.assignment_bytes for m in group.members}
        fields["protocol_type"] = group.protocol_type
    else:
        fields = {"type": group.group_type, "epochs": (group.group_epoch, group.assignment_epoch)}
        assigned = {
            member.member_id: (
                member.member_epoch,
                *(
                    sorted((p.topic_id, p.partition) for p in partitions or ())
                    for partitions in (
                        member.assignment,
                        member.target_assignment,
                        member.pending_revocation,
                    )
                ),
            )
            for member in group.members
        }
    members = {
        m.member_id: (m.client_id, m.client_host, m.group_instance_id, assigned[m.member_id])
        for m in group.members
    }
    return {**fields, "state": group.state, "members": members}


def without_simple(state: State) -> State:
    """Compaction takes away what made a group without a record of its own and without offsets."""
    held = {key.group_id for key in state["offsets"]}
    held |= {key.group_id for _, key in state["pending"]}
    return {
        **state,
        "groups": {
            group_id: group
            for group_id, group in state["groups"].items()
            if group.get("generation") != 0 or group_id in held
        },
    }


def _values(offset: CommittedOffset) -> tuple[Any, ...]:
    return tuple(getattr(offset, name) for name in OFFSET_VALUES)


def _waiting(pending: dict[int, dict[OffsetKey, CommittedOffset]]) -> dict[Any, Any]:
    return {
        (p, key): _values(offset) for p, keys in pending.items() for key, offset in keys.items()
    }
