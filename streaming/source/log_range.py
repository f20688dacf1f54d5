"""Reading ranges of log partitions: raw batches in, rows of `LOG_ROW_SCHEMA` out.

Several ranges are read at once, and the next fetch is in flight while the last one is decoded.
Leaders fill the ranges in their order, so few of them are half-read at any time. What a range's
later commits supersede is dropped across fetches too: the rows that survive are held, compacted
again as they grow, and given up early where they would take too much memory, which costs rows but
no correctness.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from coordinator_state.log_rows import LOG_ROW_SCHEMA, ROW_KIND_PROGRESS
from streaming.kafka.fetch import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_PARTITION_BYTES,
    RETRY_TIMEOUT_MS,
    FetchedRecords,
)

# Everything in a range is below the high watermark, so a leader has nothing to wait for but its own
# recovery.
_MAX_WAIT_MS: Final = 500
_MAX_HELD_BYTES: Final = 128 << 20
_COMPACTION_STEP_ROWS: Final = 50_000
_BATCH_ROWS: Final = 20_000
_BATCH_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """What one micro-batch reads of one log partition: offsets `from_offset` to `to_offset` - 1.

    `high_watermark` and `leader_epoch` are those of the planning, for the progress row.
    """

    log_partition: int
    from_offset: int
    to_offset: int
    high_watermark: int
    leader_epoch: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.from_offset >= self.to_offset


class Fetcher(Protocol):
    """What is needed of a `LogClient`."""

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = ...,
        max_partition_bytes: int = ...,
        max_wait_ms: int = ...,
    ) -> dict[int, FetchedRecords]:
        """Fetch record sets, see `LogClient.fetch`."""


class _RangeReading:
    """How far one range is read, and the rows of it that are still held."""

    def __init__(self, log_range: LogRange, *, compact: bool) -> None:
        self.range = log_range
        self.position = log_range.from_offset
        self._compacts = compact
        self._records_read = 0
        self._records_superseded = 0
        self._bytes_read = 0
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._compacted_rows = 0

    @property
    def is_done(self) -> bool:
        return self.position >= self.range.to_offset

    @property
    def held_bytes(self) -> int:
        return sum(batch.nbytes for batch in self._held)

    def decode(self, records: bytes) -> bool:
        """Hold the rows of the record set at the position; return whether it moved on."""
        # Only workers decode; planning a query need not wait for the compiler to load.
        from coordinator_state import kernel

        decoded = kernel.decode_record_set(
            records,
            log_partition=self.range.log_partition,
            from_offset=self.position,
            to_offset=self.range.to_offset,
            compact=self._compacts,
        )
        has_advanced = decoded.next_offset > self.position
        self.position = decoded.next_offset
        self._records_read += decoded.records_read
        self._records_superseded += decoded.records_superseded
        self._bytes_read += decoded.bytes_read
        if decoded.rows.num_rows:
            self._held.append(decoded.rows)
            self._held_rows += decoded.rows.num_rows
        # Waiting until the rows have doubled keeps the work of all compactions linear.
        if self._held_rows > 2 * self._compacted_rows + _COMPACTION_STEP_ROWS:
            self.compact()
        return has_advanced

    def compact(self) -> None:
        """Drop what is superseded across the record sets that are held."""
        from coordinator_state import kernel

        if self._compacts and len(self._held) > 1:
            rows, superseded = kernel.compact(pa.Table.from_batches(self._held))
            self._held = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
            self._held_rows = sum(batch.num_rows for batch in self._held)
            self._records_superseded += superseded
        self._compacted_rows = self._held_rows

    def release(self) -> list[pa.RecordBatch]:
        """Give the held rows away: later rows cannot supersede them any more."""
        released, self._held = self._held, []
        self._held_rows = self._compacted_rows = 0
        return released

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give away the last rows and the `progress` row."""
        self.compact()
        yield from self.release()
        row: dict[str, Any] = {
            "row_kind": ROW_KIND_PROGRESS,
            "log_partition": self.range.log_partition,
            "record_offset": self.range.to_offset,
            "from_offset": self.range.from_offset,
            "high_watermark": self.range.high_watermark,
            "log_leader_epoch": self.range.leader_epoch,
            "records_read": self._records_read,
            "records_superseded": self._records_superseded,
            "bytes_read": self._bytes_read,
        }
        yield pa.RecordBatch.from_pylist([row], schema=LOG_ROW_SCHEMA)


class _FetchAhead:
    """One fetch in flight, on a thread of its own, while the last one is decoded."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fetch-ahead")
        self._in_flight: Future[dict[int, FetchedRecords]] | None = None
        self._max_bytes = DEFAULT_MAX_BYTES
        self._max_partition_bytes = DEFAULT_MAX_PARTITION_BYTES
        self._advanced_at = time.monotonic()

    def begin(self, readings: Iterable[_RangeReading]) -> None:
        """Fetch for these readings, unless a fetch is in flight or there are none."""
        positions = {reading.range.log_partition: reading.position for reading in readings}
        if positions and self._in_flight is None:
            self._in_flight = self._thread.submit(
                self._fetcher.fetch,
                positions,
                max_bytes=self._max_bytes,
                max_partition_bytes=self._max_partition_bytes,
                max_wait_ms=_MAX_WAIT_MS,
            )

    def finish(self) -> dict[int, FetchedRecords]:
        """Wait for the fetch in flight."""
        if self._in_flight is None:
            return {}
        in_flight, self._in_flight = self._in_flight, None
        return in_flight.result()

    def note(self, *, has_records: bool, has_advanced: bool) -> None:
        """Grow the limits where a batch did not fit; give up where nothing helps.

        Raises:
            TimeoutError: no fetch has moved any range on for as long as a `LogClient` tries.
        """
        if has_advanced:
            self._advanced_at = time.monotonic()
            self._max_bytes = DEFAULT_MAX_BYTES
            self._max_partition_bytes = DEFAULT_MAX_PARTITION_BYTES
        elif has_records:
            self._max_bytes *= 2
            self._max_partition_bytes *= 2
        if time.monotonic() - self._advanced_at > RETRY_TIMEOUT_MS / 1000:
            raise TimeoutError(
                f"no records for {RETRY_TIMEOUT_MS / 1000:.0f} s below what was the high watermark"
            )

    def close(self) -> None:
        """Do not wait for a fetch that nobody wants any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def read_ranges(
    fetcher: Fetcher, ranges: Sequence[LogRange], *, compact: bool
) -> Iterator[pa.RecordBatch]:
    """Read the ranges to their ends; the last row of each is its `progress` row.

    Every record of a range is either a row or counted as superseded there. With `compact`, a plain
    commit may be dropped that a later plain commit of its key within the range supersedes.

    Raises:
        LogTruncated: an offset of a range is not in the log any more.
        TimeoutError: a leader does not get to the end of a range.
    """
    yield from _rebatch(_read(fetcher, ranges, compact=compact))


def _read(
    fetcher: Fetcher, ranges: Sequence[LogRange], *, compact: bool
) -> Iterator[pa.RecordBatch]:
    unread: dict[int, _RangeReading] = {}
    for log_range in ranges:
        reading = _RangeReading(log_range, compact=compact)
        if reading.is_done:
            yield from reading.finish()
        else:
            unread[log_range.log_partition] = reading

    fetches = _FetchAhead(fetcher)
    try:
        while unread:
            fetches.begin(unread.values())
            fetched = fetches.finish()
            arrived = {p: answer for p, answer in fetched.items() if answer.records}
            fetches.begin(reading for p, reading in unread.items() if p not in arrived)
            has_advanced = False
            for log_partition, answer in arrived.items():
                has_advanced |= unread[log_partition].decode(answer.records)
            if not arrived:
                has_advanced = _skip_to_ends(unread, fetched)
            fetches.note(has_records=bool(arrived), has_advanced=has_advanced)
            for log_partition in [p for p, reading in unread.items() if reading.is_done]:
                yield from unread.pop(log_partition).finish()
            yield from _limit_held_bytes(list(unread.values()), _MAX_HELD_BYTES if compact else 0)
    finally:
        fetches.close()


def _skip_to_ends(
    unread: Mapping[int, _RangeReading], fetched: Mapping[int, FetchedRecords]
) -> bool:
    """Take the ranges as read whose leader has nothing between their position and their end.

    Compaction may remove the last records before the high watermark. A leader fills its answer as
    far as the limits allow, so only an answer without any records says that there are none.
    """
    has_advanced = False
    for log_partition, answer in fetched.items():
        reading = unread[log_partition]
        if answer.high_watermark >= reading.range.to_offset:
            reading.position = reading.range.to_offset
            has_advanced = True
    return has_advanced


def _limit_held_bytes(readings: list[_RangeReading], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Compact, then give away the rows of the largest readings, until the rest fits."""
    for shrink in (_RangeReading.compact, _RangeReading.release):
        readings.sort(key=lambda reading: reading.held_bytes, reverse=True)
        for reading in readings:
            if sum(other.held_bytes for other in readings) <= max_bytes:
                return
            yield from shrink(reading) or ()


def _rebatch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches and cut large ones: what crosses to the JVM is of moderate size."""
    waiting: list[pa.RecordBatch] = []
    waiting_rows = waiting_bytes = 0
    for batch in batches:
        for piece in _cut(batch):
            if waiting and (
                waiting_rows + piece.num_rows > _BATCH_ROWS
                or waiting_bytes + piece.nbytes > _BATCH_BYTES
            ):
                yield _join(waiting)
                waiting, waiting_rows, waiting_bytes = [], 0, 0
            waiting.append(piece)
            waiting_rows += piece.num_rows
            waiting_bytes += piece.nbytes
    if waiting:
        yield _join(waiting)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until it is small enough, or one row."""
    if batch.num_rows > 1 and (batch.num_rows > _BATCH_ROWS or batch.nbytes > _BATCH_BYTES):
        middle = batch.num_rows // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    elif batch.num_rows:
        yield batch


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
