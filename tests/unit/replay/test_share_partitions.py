"""The replay rules of share partitions.

Tests that name one of Kafka's follow ShareCoordinatorShardTest.java (share-coordinator/src/test/
java/org/apache/kafka/coordinator/share at trunk, commit 004b22768f69).
`tests/golden/test_share_state_replay.py` compares the replay with Kafka's own shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from coordinator_state.records.serde import decode_value, encode_value, encode_versioned
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.replay.share_partitions import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    SharePartition,
    StateBatch,
    combine_state_batches,
    replay_share_record,
)

Json = dict[str, Any]
Batch = tuple[int, int, int, int]
"""First offset, last offset, delivery state, delivery count."""

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4


def state_batches(*batches: Batch) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    )


def batch_fields(batches: Iterable[Batch]) -> list[Json]:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return [dict(zip(names, batch, strict=True)) for batch in batches]


def snapshot(*batches: Batch, **fields: Any) -> Json:
    return {
        "snapshotEpoch": 2,
        "stateEpoch": 3,
        "leaderEpoch": 4,
        "startOffset": 5,
        "deliveryCompleteCount": 6,
        "createTimestamp": 7,
        "writeTimestamp": 8,
        "stateBatches": batch_fields(batches),
        **fields,
    }


def update(*batches: Batch, **fields: Any) -> Json:
    return {
        "snapshotEpoch": 2,
        "leaderEpoch": -1,
        "startOffset": -1,
        "deliveryCompleteCount": 6,
        "stateBatches": batch_fields(batches),
        **fields,
    }


STATE = SharePartition(
    snapshot_epoch=2,
    state_epoch=3,
    leader_epoch=4,
    start_offset=5,
    delivery_complete_count=6,
    create_timestamp_ms=7,
    write_timestamp_ms=8,
    state_batches=state_batches((5, 9, AVAILABLE, 1)),
)


def replayed(*records: tuple[int, Json | None]) -> SharePartition:
    state = None
    for record_type, value in records:
        state = replay_share_record(state, record_type, value)
    assert state is not None
    return state


def test_a_snapshot_is_the_state() -> None:
    assert replayed((SHARE_SNAPSHOT, snapshot((5, 9, AVAILABLE, 1)))) == STATE


def test_the_delivery_timestamp_is_that_of_the_last_change() -> None:
    """A snapshot of an idle share partition has only another epoch and write timestamp."""
    states = []
    state: SharePartition | None = None
    for timestamp_ms, (record_type, value) in enumerate(
        (
            (SHARE_SNAPSHOT, snapshot((5, 9, AVAILABLE, 1))),
            (SHARE_SNAPSHOT, snapshot((5, 9, AVAILABLE, 1), snapshotEpoch=3, writeTimestamp=99)),
            (SHARE_UPDATE, update((5, 5, ACKNOWLEDGED, 1))),
            (SHARE_UPDATE, update(leaderEpoch=9)),
            (SHARE_UPDATE, update(startOffset=6)),
            (SHARE_UPDATE, update(deliveryCompleteCount=7)),
            (SHARE_SNAPSHOT, None),
            (SHARE_UPDATE, update(startOffset=6)),
        )
    ):
        state = replay_share_record(state, record_type, value, timestamp_ms)
        states.append(state and state.delivery_timestamp_ms)
    assert states == [0, 0, 2, 2, 4, 5, None, 7]


def test_replay_with_share_snapshot() -> None:
    """A second snapshot replaces the first."""
    first = snapshot((0, 10, AVAILABLE, 1), snapshotEpoch=0, leaderEpoch=1)
    second = snapshot((11, 12, AVAILABLE, 1), snapshotEpoch=1, leaderEpoch=2)
    assert replayed((SHARE_SNAPSHOT, first), (SHARE_SNAPSHOT, second)) == replace(
        STATE,
        snapshot_epoch=1,
        leader_epoch=2,
        state_batches=state_batches((11, 12, AVAILABLE, 1)),
    )


def test_batches_of_a_snapshot_are_stored_as_they_are() -> None:
    batches = ((0, 3, AVAILABLE, 1), (4, 9, AVAILABLE, 1))
    state = replayed((SHARE_SNAPSHOT, snapshot(*batches)))
    assert state.state_batches == state_batches(*batches)
    # The next update combines them.
    state = replayed((SHARE_SNAPSHOT, snapshot(*batches, startOffset=0)), (SHARE_UPDATE, update()))
    assert state.state_batches == state_batches((0, 9, AVAILABLE, 1))


def test_an_update_changes_its_fields_only() -> None:
    fields = {"snapshotEpoch": 20, "leaderEpoch": 40, "startOffset": 7, "deliveryCompleteCount": 60}
    assert replay_share_record(STATE, SHARE_UPDATE, update(**fields)) == replace(
        STATE,
        leader_epoch=40,
        start_offset=7,
        delivery_complete_count=60,
        state_batches=state_batches((7, 9, AVAILABLE, 1)),
    )


@pytest.mark.parametrize(
    ("field", "attribute", "value"),
    [("leaderEpoch", "leader_epoch", 4), ("startOffset", "start_offset", 5)],
)
def test_minus_one_leaves_a_field_unchanged(field: str, attribute: str, value: int) -> None:
    after = replay_share_record(STATE, SHARE_UPDATE, update(**{field: -1}))
    assert getattr(after, attribute) == value
    after = replay_share_record(STATE, SHARE_UPDATE, update(**{field: 0}))
    assert getattr(after, attribute) == 0


def test_minus_one_is_a_delivery_complete_count() -> None:
    after = replay_share_record(STATE, SHARE_UPDATE, update(deliveryCompleteCount=-1))
    assert after == replace(STATE, delivery_complete_count=-1)


def test_a_start_offset_may_move_back() -> None:
    after = replay_share_record(STATE, SHARE_UPDATE, update(startOffset=0))
    assert after == replace(STATE, start_offset=0)


def test_a_start_offset_past_all_batches_drops_them() -> None:
    after = replay_share_record(STATE, SHARE_UPDATE, update(startOffset=10))
    assert after == replace(STATE, start_offset=10, state_batches=())


def test_the_start_offset_before_cuts_new_batches() -> None:
    after = replay_share_record(STATE, SHARE_UPDATE, update((0, 6, ACKNOWLEDGED, 1)))
    assert after is not None
    assert after.state_batches == state_batches((5, 6, ACKNOWLEDGED, 1), (7, 9, AVAILABLE, 1))


def test_an_update_without_a_snapshot_is_the_state() -> None:
    batches = ((0, 3, AVAILABLE, 1), (4, 9, AVAILABLE, 1))
    value = update(*batches, leaderEpoch=4, startOffset=5)
    first = SharePartition(
        snapshot_epoch=2,
        state_epoch=0,
        leader_epoch=4,
        start_offset=5,
        delivery_complete_count=6,
        create_timestamp_ms=None,
        write_timestamp_ms=None,
        state_batches=state_batches(*batches),
    )
    assert replayed((SHARE_UPDATE, value)) == first
    assert replayed((SHARE_UPDATE, value), (SHARE_UPDATE, update())) == replace(
        first, state_batches=state_batches((5, 9, AVAILABLE, 1))
    )
    assert replayed((SHARE_UPDATE, update())).start_offset == -1


@pytest.mark.parametrize("record_type", [SHARE_SNAPSHOT, SHARE_UPDATE])
@pytest.mark.parametrize("before", [STATE, None])
def test_a_tombstone_removes_the_state(before: SharePartition | None, record_type: int) -> None:
    assert replay_share_record(before, record_type, None) is None


def test_delete_state_success() -> None:
    """An update after the tombstone finds no state."""
    value = update((5, 9, AVAILABLE, 1), leaderEpoch=1)
    state = replayed((SHARE_SNAPSHOT, snapshot()), (SHARE_SNAPSHOT, None), (SHARE_UPDATE, value))
    assert (state.state_epoch, state.create_timestamp_ms) == (0, None)


@pytest.mark.parametrize("value", [snapshot(), None])
def test_records_of_other_types_are_ignored(value: Json | None) -> None:
    assert replay_share_record(STATE, 2, value) == STATE


def test_non_sequential_batch_updates() -> None:
    """The second batch is not lost while the first and the third are acknowledged."""
    state = replayed(
        (
            SHARE_SNAPSHOT,
            snapshot(
                (100, 109, ACQUIRED, 1),
                (110, 119, ACQUIRED, 2),
                (120, 129, ACQUIRED, 0),
                startOffset=100,
            ),
        ),
        (SHARE_UPDATE, update((100, 109, ACKNOWLEDGED, 1), deliveryCompleteCount=10)),
        (
            SHARE_UPDATE,
            update((120, 129, ACKNOWLEDGED, 1), startOffset=110, deliveryCompleteCount=10),
        ),
    )
    assert (state.start_offset, state.delivery_complete_count) == (110, 10)
    assert state.state_batches == state_batches(
        (110, 119, ACQUIRED, 2), (120, 129, ACKNOWLEDGED, 1)
    )


def test_decoded_records_are_replayed() -> None:
    kind, kind_of_update = (SHARE_STATE_RECORD_TYPES[number] for number in (0, 1))
    value = snapshot((5, 9, AVAILABLE, 1))
    decoded = decode_value(kind, encode_value(kind, 0, value)).fields
    assert replay_share_record(None, SHARE_SNAPSHOT, decoded) == STATE
    value = update((5, 9, ARCHIVED, 2))
    decoded = decode_value(kind_of_update, encode_value(kind_of_update, 0, value)).fields
    assert replay_share_record(STATE, SHARE_UPDATE, decoded) == replace(
        STATE, state_batches=state_batches((5, 9, ARCHIVED, 2))
    )


def test_records_of_early_access_have_no_times_and_no_count() -> None:
    state: SharePartition | None = None
    for record_type, value in (
        (SHARE_SNAPSHOT, snapshot((5, 9, AVAILABLE, 1))),
        (SHARE_UPDATE, update()),
    ):
        kind = SHARE_STATE_RECORD_TYPES[record_type]
        schema = kind.early_access_value
        assert schema is not None
        early = {field.name: value[field.name] for field in schema.fields}
        decoded = decode_value(kind, encode_versioned(schema, 0, early)).fields
        state = replay_share_record(state, record_type, decoded)
        assert state == replace(
            STATE, delivery_complete_count=-1, create_timestamp_ms=None, write_timestamp_ms=None
        )


def test_each_offset_has_the_state_of_the_batch_that_wins() -> None:
    random = Random(1)
    for _ in range(300):
        firsts = [random.randrange(40) for _ in range(random.randrange(8))]
        batches = [
            (first, first + random.randrange(12), random.choice((0, 2, 4)), random.randint(1, 3))
            for first in firsts
        ]
        start_offset = random.choice((-1, random.randrange(40)))
        expected: dict[int, tuple[int, int]] = {}
        for first, last, state, count in batches:
            for offset in range(max(first, start_offset), last + 1):
                expected[offset] = max(expected.get(offset, (0, 0)), (count, state))
        combined = combine_state_batches(state_batches(*batches), start_offset)
        assert {
            offset: (batch.delivery_count, batch.delivery_state)
            for batch in combined
            for offset in range(batch.first_offset, batch.last_offset + 1)
        } == expected
        # No fewer batches have these states.
        starts = [o for o, state in expected.items() if expected.get(o - 1) != state]
        assert [batch.first_offset for batch in combined] == sorted(starts)


def test_a_batch_may_end_at_the_greatest_offset() -> None:
    greatest = 2**63 - 1
    batches = state_batches((0, greatest, AVAILABLE, 1), (7, 7, ARCHIVED, 2))
    assert combine_state_batches(batches, -1) == state_batches(
        (0, 6, AVAILABLE, 1), (7, 7, ARCHIVED, 2), (8, greatest, AVAILABLE, 1)
    )
