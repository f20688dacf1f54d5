"""`__consumer_offsets` in memory, and a client of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import InputPartition

from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from streaming.kafka.fetch import FetchedRecords
from streaming.kafka.leaders import LogDescription
from streaming.kafka.seen_log import EpochEntry, OffsetAndEpoch
from streaming.source.coordinator_log import CoordinatorLogDataSource, CoordinatorLogStreamReader
from streaming.source.log_range import LogRange
from tests.support.logs.logs import offset_key, offset_value

CLUSTER_ID, TOPIC_ID = "a-cluster", "a-topic"
BOOTSTRAP = {"kafka.bootstrap.servers": "broker:9092"}


@dataclass
class MemoryLog:
    """One log partition: record batches with their first and last offsets."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    log_start: int = 0
    high_watermark: int = 0

    def append(self, raw: bytes, records: int = 1, *, gap: int = 0) -> None:
        base_offset = self.high_watermark + gap
        self.batches.append((base_offset, base_offset + records - 1, raw))
        self.high_watermark = base_offset + records

    def commit(self, group_id: str, committed_offset: int | None, *, gap: int = 0) -> None:
        value = None if committed_offset is None else offset_value(committed_offset)
        record = (0, 0, offset_key(group_id, "t", 0), value)
        self.append(write_record_batch(self.high_watermark + gap, [record]), gap=gap)

    def transaction(self, group_id: str, producer_id: int) -> None:
        record = (0, 0, offset_key(group_id, "t", 0), offset_value(1))
        self.append(
            write_record_batch(
                self.high_watermark,
                [record],
                producer_id=producer_id,
                producer_epoch=0,
                is_transactional=True,
            )
        )
        self.append(write_control_batch(self.high_watermark, producer_id, 0, 1))


ENTRIES = (EpochEntry(3, 0),)


class MemoryLogClient:
    """What a `LogClient` does, over logs in memory; `fetches` are the positions of each request."""

    def __init__(self, logs: Mapping[int, MemoryLog]) -> None:
        self.logs = dict(logs)
        self.leaders = dict.fromkeys(self.logs, (1, 5))
        self.cluster_id, self.topic_id = CLUSTER_ID, TOPIC_ID
        self.expected: Mapping[int, OffsetAndEpoch] = {}
        self.fetches: list[dict[int, int]] = []
        self.limits: list[tuple[int, int]] = []
        self.is_closed = False
        self.arrivals: list[tuple[int, str]] = []

    def describe(self) -> LogDescription:
        return LogDescription(
            topic="__consumer_offsets",
            cluster_id=self.cluster_id,
            topic_id=self.topic_id,
            leaders=dict(self.leaders),
        )

    def earliest_offsets(self, log_partitions: Collection[int]) -> dict[int, int]:
        return {p: self.logs[p].log_start for p in log_partitions}

    def expect(self, seen: Mapping[int, OffsetAndEpoch]) -> None:
        self.expected = dict(seen)

    def log_ends(self, log_partitions: Collection[int]) -> dict[int, OffsetAndEpoch]:
        return {
            p: OffsetAndEpoch(self.logs[p].high_watermark, self.leaders[p][1])
            for p in log_partitions
        }

    def with_entries(self, ends: Mapping[int, OffsetAndEpoch]) -> dict[int, OffsetAndEpoch]:
        return {p: end._replace(entries=ENTRIES) for p, end in ends.items()}

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = 1 << 20,
        max_partition_bytes: int = 1 << 20,
        max_wait_ms: int = 0,  # noqa: ARG002
    ) -> dict[int, FetchedRecords]:
        self.fetches.append(dict(positions))
        self.limits.append((max_bytes, max_partition_bytes))
        if self.arrivals:
            log_partition, group_id = self.arrivals.pop()
            self.logs[log_partition].commit(group_id, 1)
        fetched = {}
        for log_partition, position in positions.items():
            log = self.logs[log_partition]
            records = self._records(log, position, min(max_bytes, max_partition_bytes))
            max_bytes = max(0, max_bytes - len(records))
            fetched[log_partition] = FetchedRecords(
                records=records,
                high_watermark=log.high_watermark,
            )
        return fetched

    def _records(self, log: MemoryLog, position: int, size_bytes: int) -> bytes:
        records = b"".join(raw for _, last, raw in log.batches if last >= position)
        return records[:size_bytes]

    def close(self) -> None:
        self.is_closed = True


def range_of(
    log_partition: int, to_offset: int, from_offset: int = 0, high_watermark: int | None = None
) -> LogRange:
    """A range of a log partition; it ends at the high watermark if that is None."""
    return LogRange(
        log_partition=log_partition,
        from_offset=from_offset,
        end=OffsetAndEpoch(to_offset, 5),
        high_watermark=to_offset if high_watermark is None else high_watermark,
    )


def reader_of(**options: str) -> CoordinatorLogStreamReader:
    texts = BOOTSTRAP | {"long_poll_ms": "20"} | options
    data_source = CoordinatorLogDataSource(texts)
    return data_source.streamReader(data_source.schema())


def rows_of(
    reader: CoordinatorLogStreamReader, partitions: Sequence[InputPartition]
) -> list[dict[str, Any]]:
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    for batch in batches:
        assert batch.schema.equals(LOG_ROW_SCHEMA)
    return [row for batch in batches for row in batch.to_pylist()]


def positions_of(offset: Mapping[str, Any]) -> dict[int, int]:
    return {int(p): position for p, (position, *_) in offset["p"].items()}


def progress_of(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    return {row["log_partition"]: row for row in rows if row["row_kind"] == "progress"}


def assert_accounted(rows: Sequence[Mapping[str, Any]]) -> None:
    """Every record read is a row or superseded; the progress row is a log partition's last."""
    emitted: Counter[int] = Counter()
    ended: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        assert row["log_partition"] not in ended
        if row["row_kind"] == "progress":
            ended[row["log_partition"]] = row
        else:
            emitted[row["log_partition"]] += 1
    for log_partition, progress in ended.items():
        superseded = progress["records_superseded"]
        assert progress["records_read"] == emitted[log_partition] + superseded
    assert set(emitted) <= set(ended)
