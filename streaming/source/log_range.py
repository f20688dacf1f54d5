"""Reading ranges of log partitions: raw batches in, rows of `LOG_ROW_SCHEMA` out.

Several ranges are read at once, each by its `LogCursor`, and the next fetch is in flight while the
last one is decoded. Leaders fill the ranges in their order, so few of them are half-read at any
time. Superseded commits of a range are dropped across fetches too: the surviving rows are held,
compacted again as they grow, and given up early if they would take too much memory, which costs
rows but no correctness.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from coordinator_state.log.held_rows import HeldRows
from coordinator_state.log.log_decoder import OffsetRange
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA, ROW_KIND_PROGRESS
from streaming.errors import LogTruncated
from streaming.kafka.fetch import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_PARTITION_BYTES,
    LARGEST_MAX_BYTES,
    RETRY_TIMEOUT_MS,
    FetchedRecords,
)
from streaming.source.log_cursor import Answer, LogCursor

# Everything in a range is below the high watermark, so a leader has nothing to wait for but its own
# recovery.
_MAX_WAIT_MS: Final = 500
_MAX_HELD_BYTES: Final = 128 << 20
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
        self.cursor = LogCursor(
            OffsetRange(
                log_partition=log_range.log_partition,
                from_offset=log_range.from_offset,
                to_offset=log_range.to_offset,
            ),
            high_watermark=log_range.high_watermark,
            compact=compact,
        )
        self.held = HeldRows(compact)
        self._records_read = 0
        self._records_superseded = 0
        self._bytes_read = 0

    def take(self, answer: Answer) -> bool:
        """Hold the rows of an answer; return whether anything was learnt from it."""
        before = self.cursor.position, self.cursor.fetch_offset
        for decoded in self.cursor.take(answer):
            self._records_read += decoded.records_read
            self._records_superseded += decoded.records_superseded
            self._bytes_read += decoded.bytes_read
            self.held.add(decoded.rows)
        return before != (self.cursor.position, self.cursor.fetch_offset)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give away the last rows and the `progress` row."""
        self.held.compact()
        yield from self.held.release()
        row: dict[str, Any] = {
            "row_kind": ROW_KIND_PROGRESS,
            "log_partition": self.range.log_partition,
            "record_offset": self.range.to_offset,
            "from_offset": self.range.from_offset,
            "high_watermark": self.range.high_watermark,
            "log_leader_epoch": self.range.leader_epoch,
            "records_read": self._records_read,
            "records_superseded": self._records_superseded + self.held.records_superseded,
            "bytes_read": self._bytes_read,
        }
        yield pa.RecordBatch.from_pylist([row], schema=LOG_ROW_SCHEMA)


class _FetchAhead:
    """One fetch in flight, on a thread of its own, while the last one is decoded."""

    def __init__(self, fetcher: Fetcher, retry_timeout_ms: int) -> None:
        self._fetcher = fetcher
        self._retry_timeout_s = retry_timeout_ms / 1000
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fetch-ahead")
        self._in_flight: Future[dict[int, FetchedRecords]] | None = None
        self._limits = self._granted = _Limits()
        self._advanced_at = time.monotonic()

    def begin(self, readings: Collection[_RangeReading]) -> None:
        """Fetch for these readings, unless a fetch is in flight or there are none.

        Those that only a larger answer helps come last.
        """
        asking = [r for r in readings if not r.cursor.needs_more] or readings
        positions = {r.range.log_partition: r.cursor.fetch_offset for r in asking}
        if positions and self._in_flight is None:
            self._granted = self._limits
            self._in_flight = self._thread.submit(
                self._fetcher.fetch,
                positions,
                max_bytes=self._limits.max_bytes,
                max_partition_bytes=self._limits.max_partition_bytes,
                max_wait_ms=_MAX_WAIT_MS,
            )

    def finish(self) -> dict[int, Answer]:
        """Wait for the fetch in flight; give the answers that tell something.

        A leader fills its answer as far as the limits allow, so only where no log partition has
        records are there none.
        """
        if self._in_flight is None:
            return {}
        in_flight, self._in_flight = self._in_flight, None
        fetched = in_flight.result()
        total_bytes = sum(len(found.records) for found in fetched.values())
        return {
            log_partition: Answer(found, self._granted.are_above(len(found.records), total_bytes))
            for log_partition, found in fetched.items()
            if found.records or found.is_unreadable or not total_bytes
        }

    def note(self, *, has_advanced: bool, needs_more: bool) -> None:
        """Grow the limits where a batch did not fit; give up where nothing helps.

        Raises:
            TimeoutError: no fetch has moved any range on for the retry timeout.
        """
        if has_advanced:
            self._advanced_at = time.monotonic()
            self._limits = _Limits()
        elif needs_more:
            self._limits = self._limits.doubled()
        if time.monotonic() - self._advanced_at > self._retry_timeout_s:
            raise TimeoutError(
                f"no records for {self._retry_timeout_s:g} s below what was the high watermark"
            )

    def close(self) -> None:
        """Do not wait for a fetch that nobody wants any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Limits:
    """How much an answer may hold, of all log partitions and of one."""

    max_bytes: int = field(default_factory=lambda: DEFAULT_MAX_BYTES)
    max_partition_bytes: int = field(default_factory=lambda: DEFAULT_MAX_PARTITION_BYTES)

    def doubled(self) -> _Limits:
        return _Limits(
            min(2 * self.max_bytes, LARGEST_MAX_BYTES),
            min(2 * self.max_partition_bytes, LARGEST_MAX_BYTES),
        )

    def are_above(self, size_bytes: int, total_bytes: int) -> bool:
        """Whether a log partition's records end by themselves, or can be no more."""
        is_below = size_bytes < self.max_partition_bytes and total_bytes < self.max_bytes
        return is_below or self.max_partition_bytes >= LARGEST_MAX_BYTES


def read_ranges(
    fetcher: Fetcher,
    ranges: Sequence[LogRange],
    *,
    compact: bool,
    retry_timeout_ms: int = RETRY_TIMEOUT_MS,
) -> Iterator[pa.RecordBatch]:
    """Read the ranges to their ends; the last row of each is its `progress` row.

    Every record of a range is either a row or counted as superseded there. With `compact`, a plain
    commit may be dropped that a later plain commit of its key within the range supersedes.

    Raises:
        LogTruncated: an offset of a range is not in the log any more.
        TimeoutError: no range has moved on for `retry_timeout_ms`.
    """
    reading = _read(fetcher, ranges, compact=compact, retry_timeout_ms=retry_timeout_ms)
    yield from _rebatch(reading)


def _read(
    fetcher: Fetcher, ranges: Sequence[LogRange], *, compact: bool, retry_timeout_ms: int
) -> Iterator[pa.RecordBatch]:
    unread: dict[int, _RangeReading] = {}
    for log_range in ranges:
        reading = _RangeReading(log_range, compact=compact)
        if log_range.is_empty:
            yield from reading.finish()
        else:
            unread[log_range.log_partition] = reading

    fetches = _FetchAhead(fetcher, retry_timeout_ms)
    try:
        while unread:
            fetches.begin(unread.values())
            answers = _finished(fetches, unread)
            fetches.begin([reading for p, reading in unread.items() if p not in answers])
            moved = [unread[p].take(answer) for p, answer in answers.items()]
            fetches.note(
                has_advanced=any(moved),
                needs_more=any(unread[p].cursor.needs_more for p in answers),
            )
            for log_partition in [p for p, reading in unread.items() if reading.cursor.is_done]:
                yield from unread.pop(log_partition).finish()
            yield from _limit_held_bytes(list(unread.values()), _MAX_HELD_BYTES if compact else 0)
    finally:
        fetches.close()


def _finished(fetches: _FetchAhead, unread: Mapping[int, _RangeReading]) -> dict[int, Answer]:
    try:
        return fetches.finish()
    except LogTruncated as truncated:
        cursor = unread[truncated.log_partition].cursor
        if not truncated.record_offset < truncated.log_start <= cursor.position:
            raise
        # Only records that were read before are gone.
        cursor.leave_anchor()
        return {}


def _limit_held_bytes(readings: list[_RangeReading], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Compact, then give away the rows of the largest readings, until the rest fits."""
    held = [reading.held for reading in readings]
    for shrink in (HeldRows.compact, HeldRows.release):
        held.sort(key=lambda rows: rows.size_bytes, reverse=True)
        for rows in held:
            if sum(others.size_bytes for others in held) <= max_bytes:
                return
            yield from shrink(rows) or ()


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
