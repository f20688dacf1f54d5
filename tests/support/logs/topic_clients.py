"""Logs of several internal topics in memory, and a source that reads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.kafka.fetch import FetchedRecords, LogDescription
from streaming.source.coordinator_log import CoordinatorLogStreamReader
from tests.support.logs.memory_log import TOPIC_ID, MemoryLog, MemoryLogClient, reader_of
from tests.support.logs.topic_logs import transaction_key, transaction_value

Offset = dict[str, Any]

EVERYTHING = ReadAllAvailable()
LONG_MS = 600_000
"""The longest wait of a test that must not wait."""
BOTH = {
    TRANSACTION_STATE_TOPIC: {"log_partitions": [0, 1], "start_offsets": {}},
    SHARE_STATE_TOPIC: {"log_partitions": [0], "start_offsets": {}},
}
END = {OFFSETS_TOPIC: {0: 10}, TRANSACTION_STATE_TOPIC: {0: 4, 1: 2}, SHARE_STATE_TOPIC: {0: 1}}
"""The ends of the logs of `topic_clients`."""


class TopicClient(MemoryLogClient):
    """A client of a topic; a leader holds a fetch until it has records."""

    def __init__(self, topic: str, topic_id: str, log_partitions: int) -> None:
        super().__init__({p: MemoryLog() for p in range(log_partitions)})
        self.topic, self.topic_id = topic, topic_id
        self.arrived = threading.Condition()
        self.failure: Exception | None = None
        self.waits = 0
        self.is_waiting = False

    def describe(self) -> LogDescription:
        return LogDescription(
            topic=self.topic,
            cluster_id=self.cluster_id,
            topic_id=self.topic_id,
            leaders=dict(self.leaders),
        )

    def append(self, log_partition: int = 0, records: int = 1) -> None:
        """Append records, which end a fetch that waits for them."""
        with self.arrived:
            log = self.logs[log_partition]
            for _ in range(records):
                record = (0, 0, transaction_key(), transaction_value())
                log.append(write_record_batch(log.high_watermark, [record]))
            self.arrived.notify_all()

    def fail(self, error: Exception) -> None:
        """End a fetch that waits with an error."""
        with self.arrived:
            self.failure = error
            self.arrived.notify_all()

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = 1 << 20,
        max_partition_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
    ) -> dict[int, FetchedRecords]:
        with self.arrived:
            self.waits += max_wait_ms > 0
            self.is_waiting = max_wait_ms > 0
            self.arrived.wait_for(lambda: self._has_news(positions), max_wait_ms / 1000)
            self.is_waiting = False
            if self.failure is not None:
                raise self.failure
            return super().fetch(positions, max_bytes, max_partition_bytes)

    def _has_news(self, positions: Mapping[int, int]) -> bool:
        news = (self.logs[p].high_watermark > at for p, at in positions.items())
        return self.failure is not None or any(news)


Clients = dict[str, TopicClient]


def topic_clients() -> Clients:
    """Logs of ten commits, of four and two transactions, and of one share partition."""
    found = {
        OFFSETS_TOPIC: TopicClient(OFFSETS_TOPIC, TOPIC_ID, 1),
        TRANSACTION_STATE_TOPIC: TopicClient(TRANSACTION_STATE_TOPIC, "tx", 2),
        SHARE_STATE_TOPIC: TopicClient(SHARE_STATE_TOPIC, "share", 1),
    }
    for number in range(10):
        found[OFFSETS_TOPIC].logs[0].commit("g", number)
    found[TRANSACTION_STATE_TOPIC].append(0, records=4)
    found[TRANSACTION_STATE_TOPIC].append(1, records=2)
    found[SHARE_STATE_TOPIC].append()
    return found


def reader(topics: Mapping[str, Any] = BOTH, **options: str) -> CoordinatorLogStreamReader:
    return reader_of(other_topics=json.dumps(topics), **options)


def positions(offset: Offset) -> dict[str, dict[int, int]]:
    """The next offset of each topic and log partition."""
    of_topics = {OFFSETS_TOPIC: offset, **offset["others"]}
    return {
        topic: {int(p): next_offset for p, (next_offset, _) in of_topic["p"].items()}
        for topic, of_topic in of_topics.items()
    }


def at_end(one: CoordinatorLogStreamReader) -> Offset:
    """The offset at the end of every log."""
    return one.latestOffset(one.initialOffset(), EVERYTHING)
