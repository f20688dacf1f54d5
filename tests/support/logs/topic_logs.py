"""Logs of `__transaction_state` and `__share_group_state`, and their rows in a micro-batch."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import (
    TRANSACTION_RECORD_TYPES,
    TRANSACTION_STATES,
)
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import TopicProgress

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
OF_TOPIC_ID = "id of the log"
"""The id of the internal topics."""
UNKNOWN_TYPE = b"\x00\x63rest"
"""The key of a record type that neither topic has."""

KeyAndValue = tuple[bytes | None, bytes | None]
_STATE_NUMBERS = {name: number for number, name in TRANSACTION_STATES.items()}


def transaction_key(transactional_id: str = "x") -> bytes:
    """The key of a TransactionLog record."""
    return encode_key(TRANSACTION_RECORD_TYPES[0], {"transactionalId": transactional_id})


def transaction_value(state: str | int = "Ongoing", *, version: int = 1, **fields: Any) -> bytes:
    """The value of a TransactionLog record, by Kafka's names of its fields."""
    value = {
        "producerId": 5,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": _STATE_NUMBERS[state] if isinstance(state, str) else state,
        "transactionPartitions": [{"topic": "t", "partitionIds": [0]}],
        "transactionLastUpdateTimestampMs": NOW_MS,
        "transactionStartTimestampMs": NOW_MS,
        **fields,
    }
    return encode_value(TRANSACTION_RECORD_TYPES[0], version, value)


def share_key(partition: int = 0, record_type: int = 0, group_id: str = "g") -> bytes:
    """The key of a ShareSnapshot (0) or ShareUpdate (1) record."""
    fields = {"groupId": group_id, "topicId": TOPIC_ID, "partition": partition}
    return encode_key(SHARE_STATE_RECORD_TYPES[record_type], fields)


def share_snapshot(start_offset: int = 0, **fields: Any) -> bytes:
    """The value of a ShareSnapshot record, by Kafka's names of its fields."""
    value = {
        "snapshotEpoch": 0,
        "stateEpoch": 1,
        "leaderEpoch": 3,
        "startOffset": start_offset,
        "deliveryCompleteCount": 1,
        "createTimestamp": NOW_MS,
        "writeTimestamp": NOW_MS,
        "stateBatches": [
            {"firstOffset": 4, "lastOffset": 6, "deliveryState": 2, "deliveryCount": 1}
        ],
        **fields,
    }
    return encode_value(SHARE_STATE_RECORD_TYPES[0], 0, value)


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


@dataclass
class TopicLog:
    """One log partition of a topic; `raw` are its record batches."""

    topic: str
    log_partition: int = 0
    raw: bytearray = field(default_factory=bytearray)
    next_offset: int = 0

    def append(self, *records: KeyAndValue, timestamp_ms: int = NOW_MS, gap: int = 0) -> None:
        """Append a batch for each record; a gap before the first is as compaction leaves it."""
        self.next_offset += gap
        for key, value in records:
            record = (0, timestamp_ms, key, value)
            self.raw += write_record_batch(self.next_offset, [record])
            self.next_offset += 1

    def marker(self) -> None:
        """Append the end of a transaction."""
        self.raw += write_control_batch(self.next_offset, 5, 0, 1, timestamp_ms=NOW_MS)
        self.next_offset += 1

    def rows(self, start: int = 0, end: int | None = None) -> pa.Table:
        """The rows of a range that a micro-batch has; the last one is its `progress` row."""
        end = self.next_offset if end is None else end
        written = (bytes(self.raw), start, end, self.next_offset, self.topic)
        return micro_batch([Written(self.log_partition, *written)])


def follow(progress: LoadProgress, topics: Iterable[str]) -> None:
    """Prepare the progress for micro-batches of topics, as the start of a query does."""
    for topic in topics:
        progress.others.setdefault(topic, TopicProgress(topic=topic, topic_id=OF_TOPIC_ID))
