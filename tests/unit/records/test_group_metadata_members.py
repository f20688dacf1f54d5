"""Members of GroupMetadata values compared as bytes, against the replay.

`property/test_serde.py` compares values that are read by lengths with those of the schema.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

from coordinator_state.insight.group_events import GroupEventReplay, repeated_rebalance
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.group_metadata_members import MembersOutline
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, RECORD_TYPES
from coordinator_state.records.serde import decode_versioned, encode_value
from coordinator_state.replay.group_replay import GroupRecord
from tests.support.logs.logs import group_value

_TYPE = RECORD_TYPES[GROUP_METADATA_TYPE]


OTHER_BYTES = [
    (b"client of m2", b"client of m9"),
    (b"\x00\x00\x00\x01\x00\x00\x00\x01\xff", b"\x00\x00\x00\x01\x00\x00\x00\x05\xff"),
]
"""The client and the partition of the second member, and others."""


def outline(raw: bytes) -> MembersOutline:
    """The outline of a value that has one."""
    members = MembersOutline.of(raw)
    assert members is not None
    return members


def test_a_value_repeats_members_only_if_the_replay_finds_no_change_of_them() -> None:
    choose = random.Random(1)
    values = [
        group_value(
            choose.choice([*([["m1", "m2"]] * 4), ["m2", "m1"], ["m1", "m1"], ["m1"]]),
            protocol_type=choose.choice(["consumer", "consumer", ""]),
            generation=choose.randrange(3),
            version=choose.choice([3, 3, 3, 2, 0]),
            session_timeout_ms=choose.choice([1, 10_000]),
            subscribed_generation=choose.randrange(3),
        ).replace(*choose.choice([*([(b"", b"")] * 8), *OTHER_BYTES]))
        for _ in range(3_000)
    ]
    outcomes: Counter[bool] = Counter()
    for raws in pairwise(values):
        replay = GroupEventReplay()
        before, after = map(outline, raws)
        for record_offset, raw in enumerate(raws):
            value = decode_versioned(_TYPE.value, raw).fields
            record = GroupRecord(GROUP_METADATA_TYPE, "g", "", value, record_offset)
            events = replay.replay_record(record)
        if is_repeated := after.repeats(before):
            members = len(replay.groups.states["g"].members)
            event = repeated_rebalance("g", 1, members, before.generation, after.generation)
            assert events == ([] if event is None else [event])
        outcomes[is_repeated] += 1
    assert min(outcomes.values()) > 50


def test_a_value_without_members_or_in_a_flexible_version_has_no_outline() -> None:
    assert MembersOutline.of(group_value([])) is None
    assert MembersOutline.of(group_value(["m1"], version=4)) is None


def test_the_places_of_another_value_are_not_those_of_this_one() -> None:
    """Fields may be elsewhere in members of the same size."""

    def value(subscription_bytes: int, assignment_bytes: int, partition: int) -> bytes:
        topics = [{"topic": "t", "partitions": [partition]}]
        member = {
            "memberId": "m",
            "clientId": "c",
            "clientHost": "/h",
            "sessionTimeout": 1,
            "subscription": encode_subscription(
                {"topics": ["t"], "userData": b"u" * subscription_bytes}
            ),
            "assignment": encode_assignment(
                {"assignedPartitions": topics, "userData": b"u" * assignment_bytes}
            ),
        }
        fields = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m"}
        return encode_value(_TYPE, 0, {**fields, "members": [member]})

    raws = (value(100, 0, 1), value(0, 100, 1), value(0, 100, 2))
    first, second, third = map(outline, raws)
    assert len(first.members) == len(second.members) == len(third.members)
    assert not second.repeats(first)
    assert not third.repeats(second)
