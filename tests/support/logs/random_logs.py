"""Random logs of `__consumer_offsets`, for the tests that hold something to the reference loader.

A log is a sequence of events in a small world (a few groups, partitions and producers), so that
they meet: commits of every version, tombstones, interleaved transactions, records of groups of
every type, and records that no loader can read.

Each event is drawn from a seed of its own, so that hypothesis can leave out those that do not
matter, and a log can be drawn without hypothesis too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from hypothesis import strategies as st

from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from tests.support.logs.logs import BASE_TIMESTAMP_MS, Event, group_value, offset_key, offset_value
from tests.support.logs.modern_records import ModernRecords, Topic

GROUPS: Final = ("a", "b", "\u00e9")
TOPICS: Final = ((UUID(int=1), "t"), (UUID(int=2), "u"))
SESSION_TIMEOUT_MS: Final = 1_800_000
LEADER_CHANGE: Final = 2

UNREADABLE: Final = (
    Event(key=None, value=b"x"),
    Event(key=b"", value=b"x"),
    Event(key=b"\x03\xe7g", value=b"x"),
    Event(key=b"\x00\x01\x00\x01\xff", value=None),
    Event(key=offset_key("a", "t", 0), value=b"\x00\x09"),
    Event(key=offset_key("a", "t", 0), value=b"\x00\x03\x00"),
    Event(key=encode_key(RECORD_TYPES[2], {"group": "a"}), value=b"\x00\x03\x00"),
    Event(key=encode_key(RECORD_TYPES[3], {"groupId": "a"}), value=b"\x00\x00\x00"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomEvents:
    """Draws the events of one log partition; three groups and two topics of a cluster."""

    group_ids: Sequence[str] = GROUPS
    topics: Sequence[Topic] = TOPICS

    def draw(self, seed: int) -> list[Event]:
        """One event, or a few that belong together."""
        choose = random.Random(seed)
        number = choose.randrange(10)
        if number < 4:
            return [self._commit(choose)]
        if number == 4:
            return [self._marker(choose)]
        if number == 5:
            return [self._classic_record(choose)]
        if number == 6:
            return [choose.choice(UNREADABLE)]
        return self._modern_records(choose)

    def _commit(self, choose: random.Random) -> Event:
        # One key far more often than the others: rules show where records meet.
        first, second, third = self.group_ids
        keys = [(first, "t", 0)] * 5 + [(first, "t", 1), (first, "u", 0)]
        group_id, topic, partition = choose.choice([*keys, (second, "t", 0), (third, "t", 0)])
        version = choose.randrange(5)
        fields: dict[str, Any] = {"metadata": choose.choice(["", "m", "\u2603 \x1b[31m"])}
        if version == 1:
            fields["expireTimestamp"] = choose.choice([-1, BASE_TIMESTAMP_MS])
        if version >= 3:
            fields["leaderEpoch"] = choose.choice([-1, 7])
        if version >= 4:
            fields["topicId"] = choose.choice([UUID(int=0), UUID(int=77)])
        is_tombstone = choose.random() < 0.4
        producer_id, is_transactional = choose.choice(
            [
                (-1, False),
                (_producer(choose), True),
                # An idempotent producer without a transaction: the two loaders disagree about it.
                (_producer(choose), choose.random() < 0.5),
            ]
        )
        return Event(
            key=offset_key(group_id, topic, partition, record_type=choose.choice([0, 1])),
            value=None if is_tombstone else offset_value(choose.randrange(10), version, **fields),
            producer_id=producer_id,
            is_transactional=is_transactional,
            gap=_gap(choose),
        )

    def _marker(self, choose: random.Random) -> Event:
        return Event(
            producer_id=_producer(choose),
            is_transactional=True,
            # A leader change is no end of a transaction for the new loader.
            control_type=choose.choice([0, 1, 1, 1, LEADER_CHANGE]),
            gap=_gap(choose),
        )

    def _classic_record(self, choose: random.Random) -> Event:
        value = None
        if choose.random() < 0.3:
            # Rebalances that change no member; Kafka refuses to load the second group.
            generation = choose.randrange(6)
            value = group_value(
                choose.choice([["m1", "m2"], ["m1", "m2"], ["m1", "m1"]]),
                generation=generation,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                subscribed_generation=choose.choice([-1, generation]),
            )
        elif choose.random() < 0.6:
            value = group_value(
                choose.sample(["m1", "m2", "m3"], choose.randrange(4)),
                protocol_type=choose.choice(["", "consumer", "connect"]),
                generation=choose.randrange(6),
                version=choose.randrange(5),
                session_timeout_ms=SESSION_TIMEOUT_MS,
            )
        group_id = choose.choice(self.group_ids)
        return Event(key=encode_key(RECORD_TYPES[2], {"group": group_id}), value=value)

    def _modern_records(self, choose: random.Random) -> list[Event]:
        # A broker writes none of them in a transaction, but reads them there.
        producer_id = choose.choice([-1, -1, -1, 1])
        return [
            Event(key=key, value=value, producer_id=producer_id, is_transactional=producer_id != -1)
            for key, value in ModernRecords(choose, self.topics).draw(self.group_ids)
        ]


def seed_lists(max_size: int) -> st.SearchStrategy[list[int]]:
    """Seeds, by size first: lists of hypothesis are mostly too short for anything to meet."""
    return st.integers(0, max_size).flatmap(
        lambda size: st.lists(st.integers(0, 1 << 32), min_size=size, max_size=size)
    )


def logs() -> st.SearchStrategy[list[Event]]:
    """Random logs, all with the same groups."""
    events = RandomEvents()
    return seed_lists(30).map(lambda seeds: [event for s in seeds for event in events.draw(s)])


def random_log(choose: random.Random, group_prefix: str = "", max_size: int = 30) -> list[Event]:
    """A log without hypothesis; `group_prefix` keeps the groups of log partitions apart."""
    events = RandomEvents(group_ids=[f"{group_prefix}{group}" for group in GROUPS])
    seeds = [choose.getrandbits(32) for _ in range(choose.randint(0, max_size))]
    return [event for seed in seeds for event in events.draw(seed)]


def _producer(choose: random.Random) -> int:
    return choose.choice([1, 1, 2])


def _gap(choose: random.Random) -> int:
    return choose.choice([0, 0, 0, 0, 1, 5])
