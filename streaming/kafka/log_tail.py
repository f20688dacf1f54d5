"""The offsets at the end of a log that hold no record for a `read_committed` consumer.

A consumer commits the offset after the last record that it received. Transaction markers, records
of aborted transactions and the gaps and empty batches that compaction leaves take offsets, but a
consumer does not receive them.

Source: clients/src/main/java/org/apache/kafka/clients/consumer/internals/CompletedFetch.java
(`nextFetchedRecord`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coordinator_state.errors import CorruptRecordBatch, DecodeError
from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import CorruptBatch, read_batch_header, read_frame
from coordinator_state.log.record_set import MAGIC_POSITION, Bounds, Frame, frame_record_set

_ABORT: Final = 0
_WINDOWS: Final = (16, 256)
"""So many offsets are read first: most logs end with a record, or with a few offsets without one.
"""
_FETCH_BYTES: Final = 16_384
"""About two hundred markers of 78 bytes."""
_LONG_FETCH_BYTES: Final = 262_144
"""A long tail is fetched in larger parts."""
_MOST_FETCH_BYTES: Final = 4 * 1024 * 1024
_FIRST_MAGIC_WITH_TRANSACTIONS: Final = 2


class LogTail:
    """The offsets from a consumer's position to the end of a log, as they are fetched.

    The last ones are fetched first. Only if they have no record, those before them are fetched.
    Records that are appended meanwhile do not count.

    Attributes:
        end: the end of the log.
        next_offset: the offset to fetch next.
        fetch_bytes: the bytes to fetch.
        offsets: the number of offsets after the last record, None until it is known. All of them
            count if there is no record.
    """

    def __init__(self, first: int, end: int) -> None:
        self._first, self.end = first, end
        self._begins = sorted({first, *(max(first, end - offsets) for offsets in _WINDOWS)})
        self.next_offset = self._from = self._begins.pop()
        self._until = end
        self.offsets: int | None = None
        self.fetch_bytes = _FETCH_BYTES
        self._is_empty = False
        self._last_record = first - 1

    def take(self, records: bytes, aborted: Iterable[tuple[int, int]]) -> None:
        """Read the next fetched bytes.

        Args:
            records: the bytes, with whole batches.
            aborted: the producer id and the first offset of each aborted transaction in them.

        Raises:
            DecodeError: a damaged batch.
        """
        self._is_empty = False
        begins = sorted(aborted, key=lambda transaction: transaction[1])
        aborting: set[int] = set()
        view = memoryview(records)
        frames, rest = frame_record_set(view, Bounds())
        last_batch = None
        for frame in frames:
            if frame.damage:
                raise CorruptRecordBatch(frame.damage, position=frame.start)
            while begins and begins[0][1] <= frame.last_offset:
                aborting.add(begins.pop(0)[0])
            if _has_records(view, frame, aborting) and frame.base_offset < self.end:
                last_batch = frame
            self.next_offset = max(self.next_offset, frame.last_offset + 1)
        if last_batch is not None:
            last_record = min(_last_record(view, last_batch), self.end - 1)
            self._last_record = max(self._last_record, last_record)
        if rest.damage and not rest.is_cut:
            raise CorruptRecordBatch(rest.damage, position=rest.start)
        if self.next_offset < self._until:
            # Without a frame, the batch does not fit.
            most_bytes = _LONG_FETCH_BYTES if frames else _MOST_FETCH_BYTES
            self.fetch_bytes = max(self.fetch_bytes, min(4 * self.fetch_bytes, most_bytes))
        if self.next_offset >= self._until:
            self._read_to_end()

    def take_nothing(self) -> None:
        """Note an empty answer. Two in a row mean that the log has no more batches."""
        if self._is_empty:
            self._read_to_end()
        self._is_empty = True

    def _read_to_end(self) -> None:
        if self._last_record >= self._first or self._from == self._first:
            self.offsets = self.end - 1 - self._last_record
        else:
            self._until, self._from = self._from, self._begins.pop()
            self.next_offset = self._from


def _has_records(view: memoryview, frame: Frame, aborting: set[int]) -> bool:
    """Whether a batch has records for the consumer; an abort marker ends a transaction."""
    raw = view[frame.start : frame.end]
    if raw[MAGIC_POSITION] < _FIRST_MAGIC_WITH_TRANSACTIONS:
        return True
    header = read_batch_header(raw)
    if header.is_control:
        if _is_abort(view, frame):
            aborting.discard(header.producer_id)
        return False
    return bool(header.records_count) and not (
        header.is_transactional and header.producer_id in aborting
    )


def _last_record(view: memoryview, frame: Frame) -> int:
    """The offset of the last record of a batch; compaction keeps the last offset of its header."""
    batch = read_frame(view, frame)
    if isinstance(batch, CorruptBatch):
        raise CorruptRecordBatch(batch.reason, position=frame.start)
    if batch.remainder is not None:
        raise CorruptRecordBatch(batch.remainder.reason, position=frame.start)
    return max(record.record_offset for record in batch.records)


def _is_abort(view: memoryview, frame: Frame) -> bool:
    batch = read_frame(view, frame)
    records = () if isinstance(batch, CorruptBatch) else batch.records
    keys = (record.key for record in records if record.key is not None)
    try:
        return any(read_control_key(key)[1] == _ABORT for key in keys)
    except DecodeError:
        return False
