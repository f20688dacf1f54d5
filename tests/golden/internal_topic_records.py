"""Golden records of `__transaction_state` and `__share_group_state`, of every version and field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.golden.cases import MAX_INT32, MAX_INT64, MIN_INT64, TOPIC_ID, TOPIC_ID_OF_ONES, UNICODE
from tests.golden.kafka_messages import KafkaMessages

Json = dict[str, Any]

_BATCHES = [
    {"firstOffset": 0, "lastOffset": MAX_INT64, "deliveryState": 0, "deliveryCount": 1},
    {"firstOffset": 7, "lastOffset": 7, "deliveryState": 4, "deliveryCount": 32_767},
]


def _transaction(**fields: Any) -> Json:
    """All fields that every version has."""
    return {
        "producerId": 4_000,
        "producerEpoch": 3,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 1,
        "transactionPartitions": [
            {"topic": "__consumer_offsets", "partitionIds": [49]},
            {"topic": UNICODE, "partitionIds": [0, MAX_INT32]},
        ],
        "transactionLastUpdateTimestampMs": 1_700_000_000_001,
        "transactionStartTimestampMs": 1_700_000_000_000,
        **fields,
    }


_TAGGED = {
    "previousProducerId": 3_999,
    "nextProducerId": 4_001,
    "clientTransactionVersion": 2,
    "nextProducerEpoch": 0,
}
_TRANSACTIONS: list[tuple[str, int, Json]] = [
    ("v0", 0, _transaction()),
    ("v0 without partitions", 0, _transaction(transactionStatus=0, transactionPartitions=None)),
    ("v1", 1, _transaction()),
    ("v1 with tagged fields", 1, _transaction(**_TAGGED)),
    (
        "v1 extremes",
        1,
        _transaction(
            producerId=MAX_INT64,
            producerEpoch=-1,
            transactionTimeoutMs=-1,
            transactionStatus=7,
            transactionPartitions=[],
            transactionLastUpdateTimestampMs=MIN_INT64,
            transactionStartTimestampMs=-1,
        ),
    ),
    ("v1 without partitions", 1, _transaction(transactionPartitions=None)),
]


def _snapshot(**fields: Any) -> Json:
    return {
        "snapshotEpoch": 2,
        "stateEpoch": 3,
        "leaderEpoch": 4,
        "startOffset": 5,
        "createTimestamp": 6,
        "writeTimestamp": 7,
        "stateBatches": _BATCHES,
        **fields,
    }


def _update(**fields: Any) -> Json:
    return {
        "snapshotEpoch": 2,
        "leaderEpoch": 4,
        "startOffset": -1,
        "stateBatches": _BATCHES,
        **fields,
    }


_SHARE_STATES: list[tuple[str, int, Json]] = [
    ("snapshot", 0, _snapshot()),
    ("snapshot with a count", 0, _snapshot(deliveryCompleteCount=9)),
    ("snapshot without batches", 0, _snapshot(snapshotEpoch=MAX_INT32, stateBatches=[])),
    ("update", 1, _update()),
    ("update with a count", 1, _update(deliveryCompleteCount=0)),
    ("update without batches", 1, _update(startOffset=MAX_INT64, stateBatches=[])),
]


def transaction_records() -> Iterator[Json]:
    """Both versions of the value, and tombstones."""
    with KafkaMessages(coordinator="transaction") as kafka:
        for name, version, value in _TRANSACTIONS:
            yield _record(kafka, name, 0, {"transactionalId": "t"}, version, value)
        for transactional_id in ("", UNICODE, "t" * 300):
            key = {"transactionalId": transactional_id}
            yield _record(kafka, f"tombstone {len(transactional_id)}", 0, key, 0, None)


def share_state_records() -> Iterator[Json]:
    """Snapshots, updates and tombstones."""
    with KafkaMessages(coordinator="share") as kafka:
        for name, record_type, value in _SHARE_STATES:
            key = {"groupId": "g", "topicId": TOPIC_ID, "partition": 1}
            yield _record(kafka, name, record_type, key, 0, value)
        for record_type in (0, 1):
            key = {"groupId": UNICODE, "topicId": TOPIC_ID_OF_ONES, "partition": MAX_INT32}
            yield _record(kafka, f"tombstone of type {record_type}", record_type, key, 0, None)


def _record(
    kafka: KafkaMessages, name: str, record_type: int, key: Json, version: int, value: Json | None
) -> Json:
    raw_key, raw_value = kafka.serialize(record_type, key, version, value)
    return {
        "name": name,
        "key": raw_key.hex(),
        "value": None if raw_value is None else raw_value.hex(),
        "json": kafka.converted(raw_key, raw_value),
        "formatted": kafka.formatted(record_type, raw_key, raw_value),
    }
