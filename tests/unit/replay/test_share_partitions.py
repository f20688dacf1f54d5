"""The replay rules of share partitions, and how their state batches are combined.

Tests that name one of Kafka's follow ShareCoordinatorShardTest.java (share-coordinator/src/test/
java/org/apache/kafka/coordinator/share at trunk, commit 004b22768f69), and
PersisterStateBatchCombinerTest.java and PersisterStateBatchCombinerStressTest.java (commits
1d302da7157d and 62d5e3b7a783), after KAFKA-20691.
`tests/golden/test_share_state_replay.py` compares the replay of random records with Kafka's own
shard.
"""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from coordinator_state.records.serde import decode_value, encode_versioned
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
Record = tuple[int, Json | None]
"""Record type and fields; no fields are a tombstone."""


def batch_fields(text: str) -> list[Json]:
    """Batches as `first-last:state/count`; state 0 is available, 1 acquired, 2 acknowledged."""
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return [
        dict(zip(names, map(int, re.split("[-:/]", batch)), strict=True)) for batch in text.split()
    ]


def state_batches(text: str) -> tuple[StateBatch, ...]:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    return tuple(
        StateBatch(**dict(zip(names, fields.values(), strict=True)))
        for fields in batch_fields(text)
    )


def snapshot(batches: str = "5-9:0/1", **fields: Any) -> Record:
    value = {
        "snapshotEpoch": 2,
        "stateEpoch": 3,
        "leaderEpoch": 4,
        "startOffset": 5,
        "deliveryCompleteCount": 6,
        "createTimestamp": 7,
        "writeTimestamp": 8,
        "stateBatches": batch_fields(batches),
    }
    return SHARE_SNAPSHOT, value | fields


def update(batches: str = "", **fields: Any) -> Record:
    value = {
        "snapshotEpoch": 2,
        "leaderEpoch": -1,
        "startOffset": -1,
        "deliveryCompleteCount": 6,
        "stateBatches": batch_fields(batches),
    }
    return SHARE_UPDATE, value | fields


TOMBSTONE: Record = (SHARE_SNAPSHOT, None)
STATE = SharePartition(
    snapshot_epoch=2,
    state_epoch=3,
    leader_epoch=4,
    start_offset=5,
    delivery_complete_count=6,
    create_timestamp_ms=7,
    write_timestamp_ms=8,
    state_batches=state_batches("5-9:0/1"),
)
REPLAYED: dict[str, tuple[list[Record], SharePartition | None]] = {
    "testReplayWithShareSnapshot: the second replaces the first": (
        [snapshot("0-10:0/1", snapshotEpoch=0, leaderEpoch=1), snapshot()],
        STATE,
    ),
    "testDeleteStateSuccess: an update after the tombstone finds no state": (
        [snapshot(), TOMBSTONE, update("5-9:0/1", leaderEpoch=4, startOffset=5)],
        replace(STATE, state_epoch=0, create_timestamp_ms=None, write_timestamp_ms=None),
    ),
    "testNonSequentialBatchUpdates: the second batch is not lost": (
        [
            snapshot("100-109:1/1 110-119:1/2 120-129:1/0", startOffset=100),
            update("100-109:2/1", deliveryCompleteCount=10),
            update("120-129:2/1", startOffset=110, deliveryCompleteCount=10),
        ],
        replace(
            STATE,
            start_offset=110,
            delivery_complete_count=10,
            state_batches=state_batches("110-119:1/2 120-129:2/1"),
        ),
    ),
    # 3 is ARCHIVING of share.version 2 (KIP-1191); no release has 9.
    "newer states are kept and merged": (
        [snapshot(), update("5-6:3/5 7-7:9/5", deliveryCompleteCount=6)],
        replace(STATE, state_batches=state_batches("5-6:3/5 7-7:9/5 8-9:0/1")),
    ),
    "a tombstone of the type of an update": ([snapshot(), (SHARE_UPDATE, None)], None),
    "records of other types are ignored": ([snapshot(), (2, snapshot()[1]), (2, None)], STATE),
}


@pytest.mark.parametrize(("records", "expected"), REPLAYED.values(), ids=REPLAYED)
def test_replay(records: list[Record], expected: SharePartition | None) -> None:
    state = None
    for record_type, value in records:
        state = replay_share_record(state, record_type, value)
    assert state == expected


def test_the_delivery_timestamp_is_that_of_the_last_change() -> None:
    """A snapshot of an idle share partition has only another epoch and write timestamp."""
    records = [
        snapshot(),
        snapshot(snapshotEpoch=3, writeTimestamp=99),
        update("5-5:2/1"),
        update(leaderEpoch=9),
        update(startOffset=6),
        update(deliveryCompleteCount=7),
        TOMBSTONE,
        update(startOffset=6),
    ]
    timestamps = []
    state: SharePartition | None = None
    for timestamp_ms, (record_type, value) in enumerate(records):
        state = replay_share_record(state, record_type, value, timestamp_ms)
        timestamps.append(state and state.delivery_timestamp_ms)
    assert timestamps == [0, 0, 2, 2, 4, 5, None, 7]


def test_records_of_early_access_have_no_times_and_no_count() -> None:
    expected = replace(
        STATE, delivery_complete_count=-1, create_timestamp_ms=None, write_timestamp_ms=None
    )
    state: SharePartition | None = None
    for record_type, value in (snapshot(), update()):
        kind = SHARE_STATE_RECORD_TYPES[record_type]
        schema = kind.early_access_value
        assert value is not None
        assert schema is not None
        fields = {field.name: value[field.name] for field in schema.fields}
        decoded = decode_value(kind, encode_versioned(schema, 0, fields)).fields
        state = replay_share_record(state, record_type, decoded)
        assert state == expected


COMBINED: list[tuple[str, str, int, str]] = [
    # testStateBatchCombineSameState
    ("100-110:0/1", "100-110:0/1", -1, "100-110:0/1"),
    ("100-110:0/1", "100-105:0/1", -1, "100-110:0/1"),
    ("100-110:0/1", "100-115:0/1", -1, "100-115:0/1"),
    ("100-110:0/1", "105-108:0/1", -1, "100-110:0/1"),
    ("100-110:0/1", "105-110:0/1", -1, "100-110:0/1"),
    ("100-110:0/1", "105-115:0/1", -1, "100-115:0/1"),
    ("100-110:0/1", "111-115:0/1", -1, "100-115:0/1"),
    # testStateBatchCombineDifferentStates
    ("100-110:0/1", "100-110:0/2", -1, "100-110:0/2"),
    ("100-110:0/3", "100-110:0/1", -1, "100-110:0/3"),
    ("100-110:0/1", "100-105:0/2", -1, "100-105:0/2 106-110:0/1"),
    ("100-110:0/3", "100-105:0/1", -1, "100-110:0/3"),
    ("100-110:0/1", "100-115:0/2", -1, "100-115:0/2"),
    ("100-110:0/3", "100-115:0/1", -1, "100-110:0/3 111-115:0/1"),
    ("100-115:0/1", "105-110:1/1", -1, "100-104:0/1 105-110:1/1 111-115:0/1"),
    ("100-115:1/1", "105-110:0/1", -1, "100-115:1/1"),
    ("100-110:0/1", "105-110:0/2", -1, "100-104:0/1 105-110:0/2"),
    ("100-110:0/2", "105-110:0/1", -1, "100-110:0/2"),
    ("100-110:0/1", "105-115:0/2", -1, "100-104:0/1 105-115:0/2"),
    ("100-110:0/2", "105-115:0/1", -1, "100-110:0/2 111-115:0/1"),
    # testStateBatchCombineComplexCases
    (
        *("100-110:0/1 121-130:0/1", "111-119:2/2 116-123:2/2", -1),
        "100-110:0/1 111-123:2/2 124-130:0/1",
    ),
    ("100-110:0/1", "101-105:1/2 101-115:2/2 101-120:3/2", -1, "100-100:0/1 101-120:3/2"),
    (
        *("100-110:0/1 121-130:0/1", "111-119:2/2 116-123:2/2", 120),
        "120-123:2/2 124-130:0/1",
    ),
    (
        *("111-120:0/1", "111-113:0/2 114-114:2/1 115-119:0/2", -1),
        "111-113:0/2 114-114:2/1 115-119:0/2 120-120:0/1",
    ),
    # testStateBatchCombineCornerCases
    ("100-130:0/1", "", 120, "120-130:0/1"),
    ("", "100-130:0/1", 120, "120-130:0/1"),
    ("", "", 120, ""),
    ("", "", -1, ""),
    ("100-110:0/1", "100-110:0/1 120-130:2/1", -1, "100-110:0/1 120-130:2/1"),
    ("0-5:2/1", "0-5:2/1 11-15:0/1", -1, "0-5:2/1 11-15:0/1"),
    ("0-5:0/1", "0-5:0/1 11-15:0/1", -1, "0-5:0/1 11-15:0/1"),
    # A batch may end at the greatest offset.
    (
        *(f"0-{2**63 - 1}:0/1", "7-7:4/2", -1),
        f"0-6:0/1 7-7:4/2 8-{2**63 - 1}:0/1",
    ),
]


@pytest.mark.parametrize(("stored", "new", "start_offset", "expected"), COMBINED)
def test_state_batch_combine(stored: str, new: str, start_offset: int, expected: str) -> None:
    combined = combine_state_batches(state_batches(f"{stored} {new}"), start_offset)
    assert tuple(combined) == state_batches(expected)


def test_many_contiguous_batches_of_one_state_become_one() -> None:
    """As `manyShuffledSameStateBatchesCoalesceIntoOne`; other states stay apart."""
    one_state = [f"{first}-{first + 9}:0/1" for first in range(0, 50_000, 10)]
    Random(42).shuffle(one_state)
    combined = combine_state_batches(state_batches(" ".join(one_state)), -1)
    assert tuple(combined) == state_batches("0-49999:0/1")
    alternating = " ".join(f"{10 * n}-{10 * n + 9}:{n % 2 * 2}/1" for n in range(1_000))
    combined = combine_state_batches(state_batches(alternating), -1)
    assert tuple(combined) == state_batches(alternating)
