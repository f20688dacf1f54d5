"""One log partition, as its leader writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator_state.log.record_batch import CorruptBatch, RecordBatch, read_record_batches
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch

KeyAndValue = tuple[bytes, bytes | None]


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class Written(NamedTuple):
    """A range of records of one log partition, with the batches that contain it.

    `from_offset` is the record offset of the first record. `to_offset` is the next offset after the
    last one.
    """

    log_partition: int
    batches: bytes
    from_offset: int
    to_offset: int
    high_watermark: int
    log_topic: str | None = None
    """The topic of the log partition; None for `__consumer_offsets`."""


@dataclass(slots=True)
class CoordinatorLog:
    """Record batches in offset order."""

    raw: list[bytes] = field(default_factory=list)
    next_offset: int = 0
    _taken_offset: int = 0

    def append(
        self, records: Sequence[KeyAndValue], now_ms: int, producer: Producer | None = None
    ) -> int:
        """Append records as one batch and return the record offset of the first one."""
        base_offset = self.next_offset
        numbered = [(delta, now_ms, key, value) for delta, (key, value) in enumerate(records)]
        by = {} if producer is None else producer._asdict()
        batch = write_record_batch(
            base_offset,
            numbered,
            **by,
            base_sequence=0,
            is_transactional=producer is not None,
        )
        self._add(batch, len(records))
        return base_offset

    def append_marker(self, producer: Producer, control_type: int, now_ms: int) -> int:
        """Append the marker that ends a transaction and return its record offset."""
        record_offset = self.next_offset
        batch = write_control_batch(record_offset, *producer, control_type, timestamp_ms=now_ms)
        self._add(batch, 1)
        return record_offset

    def batches(self) -> list[RecordBatch]:
        """Parse and return all batches of the log."""
        return [_intact(batch) for batch in read_record_batches(b"".join(self.raw))]

    @property
    def is_taken(self) -> bool:
        """Whether nothing was written since the last call of `take`."""
        return self._taken_offset == self.next_offset

    def take(self, log_partition: int = 0, log_topic: str | None = None) -> Written:
        """The records since the last call, without those that the cleaner has removed since."""
        begin, end = self._taken_offset, self.next_offset
        self._taken_offset = end
        first = len(self.raw)
        while first and int.from_bytes(self.raw[first - 1][:8], "big") >= begin:
            first -= 1
        batches = b"".join(self.raw[first:])
        return Written(log_partition, batches, begin, end, high_watermark=end, log_topic=log_topic)

    def replace(self, batches: Iterable[bytes]) -> None:
        """Replace all batches with cleaned ones. The next offset does not change."""
        self.raw = list(batches)

    def _add(self, batch: bytes, records: int) -> None:
        self.raw.append(batch)
        self.next_offset += records


def _intact(batch: RecordBatch | CorruptBatch) -> RecordBatch:
    if isinstance(batch, CorruptBatch):
        raise TypeError(f"corrupt batch with base offset {batch.base_offset}: {batch.reason}")
    return batch
