"""Random logs of `__transaction_state` and `__share_group_state`, and their states by reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from hypothesis import strategies as st

from coordinator_state.errors import CoordinatorStateError
from coordinator_state.log.record_batch import Record, RecordBatch, read_record_batches
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.records.record_types import RecordType
from coordinator_state.records.serde import decode_key, decode_value, encode_value
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.replay.share_partitions import replay_share_record
from coordinator_state.replay.transactions import transaction_of
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.random_logs import seed_lists
from tests.support.logs.topic_logs import (
    NOW_MS,
    UNKNOWN_TYPE,
    KeyAndValue,
    TopicLog,
    share_key,
    transaction_key,
    transaction_value,
)

States = dict[tuple[Any, ...], tuple[Any, int | None, int]]
"""The state of each key, its delivery timestamp, and the offset of the last record of the key."""
Outcomes = Counter[str]

_RECORD_TYPES: Final = {
    TRANSACTION_STATE_TOPIC: TRANSACTION_RECORD_TYPES,
    SHARE_STATE_TOPIC: SHARE_STATE_RECORD_TYPES,
}


def _transaction_record(choose: random.Random) -> KeyAndValue:
    started_ms = choose.choice([*[NOW_MS] * 5, NOW_MS + 1, -1, -(1 << 63)])
    value = transaction_value(
        choose.choice([0, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, -1]),
        producerId=choose.choice([5, 5, 5, 6]),
        producerEpoch=choose.randrange(2),
        transactionTimeoutMs=choose.choice([0, 60_000]),
        transactionPartitions=choose.choice(
            [None, [], [{"topic": "t", "partitionIds": [0, 1]}, {"topic": "u", "partitionIds": []}]]
        ),
        transactionStartTimestampMs=started_ms,
        transactionLastUpdateTimestampMs=choose.choice([-1, NOW_MS + 9, (1 << 63) - 1]),
        clientTransactionVersion=choose.randrange(3),
    )
    return transaction_key(choose.choice(["x", "x", "é"])), value


def share_fields(choose: random.Random, record_type: int) -> dict[str, Any]:
    """The fields of a ShareSnapshot (0) or ShareUpdate (1) value."""
    batches = _overlapping(choose) if choose.random() < 0.3 else _disjoint(choose)
    snapshot_fields = {
        "stateEpoch": choose.randrange(5),
        "createTimestamp": choose.randrange(1, 1_000),
        "writeTimestamp": choose.randrange(1, 1_000),
    }
    return {
        **({} if record_type else snapshot_fields),
        "snapshotEpoch": choose.randrange(5),
        "leaderEpoch": choose.choice((-1, *range(5))),
        "startOffset": choose.choice((-1, -1, choose.randrange(60))),
        "deliveryCompleteCount": choose.choice((-1, *range(9))),
        "stateBatches": [
            {
                "firstOffset": first,
                "lastOffset": last,
                "deliveryState": choose.choice((0, 0, 1, 2, 2, 3, 4)),
                "deliveryCount": choose.randint(1, 3),
            }
            for first, last in batches
        ],
    }


def _overlapping(choose: random.Random) -> list[tuple[int, int]]:
    firsts = [choose.randrange(60) for _ in range(choose.randrange(8))]
    return [(first, first + choose.randrange(15)) for first in firsts]


def _disjoint(choose: random.Random) -> list[tuple[int, int]]:
    """In order, some contiguous, as a broker writes them."""
    bounds = sorted(choose.sample(range(80), choose.randrange(12)))
    ranges = [(first, end - 1) for first, end in pairwise(bounds)]
    return [offsets for offsets in ranges if choose.random() < 0.8]


def _share_record(choose: random.Random) -> KeyAndValue:
    record_type = choose.choice([0, 1, 1])
    value = share_fields(choose, record_type)
    group_id, partition = choose.choice([("g", 0), ("g", 0), ("g", 1), ("h", 0)])
    key = share_key(partition, record_type, group_id)
    return key, encode_value(SHARE_STATE_RECORD_TYPES[record_type], 0, value)


def append_random(log: TopicLog, seed: int) -> None:
    """Append what a seed stands for: mostly a record, else a tombstone, a marker or garbage."""
    choose = random.Random(seed)
    draw = _transaction_record if log.topic == TRANSACTION_STATE_TOPIC else _share_record
    key, value = draw(choose)
    place = {"gap": choose.choice([0, 0, 0, 3]), "timestamp_ms": NOW_MS + choose.randrange(9)}
    match choose.randrange(12):
        case 0 | 1:
            log.append((key, None), **place)
        case 2:
            log.marker()
        case 3:
            keys = [None, b"", UNKNOWN_TYPE, choose.randbytes(choose.randrange(9)), b"\0\0\0\1"]
            log.append((choose.choice(keys), choose.choice([value, None])), **place)
        case 4:
            cut = (value or b"")[: choose.randrange(20)]
            garbage = choose.choice([cut, choose.randbytes(choose.randrange(40))])
            log.append((key, garbage), **place)
        case _:
            log.append((key, value), **place)


def topic_logs(topic: str, log_partition: int = 0) -> st.SearchStrategy[TopicLog]:
    def of_seeds(seeds: Sequence[int]) -> TopicLog:
        log = TopicLog(topic, log_partition)
        for seed in seeds:
            append_random(log, seed)
        return log

    return seed_lists(25).map(of_seeds)


def reference(log: TopicLog) -> tuple[States, Outcomes]:
    """The states after a log, and the number of records by outcome."""
    states: States = {}
    outcomes: Outcomes = Counter()
    for batch in read_record_batches(bytes(log.raw)):
        assert isinstance(batch, RecordBatch)
        for record in batch.records:
            if batch.is_control:
                outcomes["ignored"] += 1
                continue
            try:
                key = decode_key(record.key or b"", _RECORD_TYPES[log.topic])
                name = tuple(uuid_text(v) if n == "topicId" else v for n, v in key.fields.items())
                place = (log.log_partition, *name)
                before, *_ = states.get(place, (None, None, -1))
                state = _next_state(log.topic, before, key.record_type, record)
            except CoordinatorStateError:
                outcomes["quarantined"] += 1
            else:
                outcomes["applied"] += 1
                states[place] = state, delivery_timestamp_ms(state), record.record_offset
    return {place: state for place, state in states.items() if state[0] is not None}, outcomes


def delivery_timestamp_ms(state: Any) -> int | None:
    """That of a share partition, which is no part of its equality; None for a transaction."""
    timestamp_ms: int | None = getattr(state, "delivery_timestamp_ms", None)
    return timestamp_ms


def _next_state(topic: str, before: Any, record_type: RecordType, record: Record) -> Any:
    fields = None if record.value is None else decode_value(record_type, record.value).fields
    if topic == SHARE_STATE_TOPIC:
        return replay_share_record(before, record_type.id, fields, record.timestamp_ms)
    return None if fields is None else transaction_of(fields)
