"""Reads of ranges of log partitions: from raw batches to rows of `LOG_ROW_SCHEMA`.

Several ranges are read at once, each by its `LogCursor`. The next fetch is in flight while the last
one is decoded. Leaders fill the ranges in order, so few ranges are half-read at any time.
Superseded commits of a range are dropped across fetches, too: rows are held in memory and compacted
again as they grow. If they take too much memory, they are released early. This returns more rows,
but the result is the same.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.held_rows import HeldRows
from coordinator_state.log.log_decoder import OffsetRange
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA, ROW_KIND_PROGRESS
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import LogTruncated
from streaming.kafka.fetch import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_PARTITION_BYTES,
    LARGEST_MAX_BYTES,
    FetchedRecords,
)
from streaming.kafka.leaders import RETRY_TIMEOUT_MS
from streaming.kafka.seen_log import OffsetAndEpoch
from streaming.source.log_cursor import Answer, LogCursor

# A range ends at or below the high watermark, so a leader only waits while it recovers.
_MAX_WAIT_MS: Final = 500
_MAX_HELD_BYTES: Final = 128 << 20
_BATCH_ROWS: Final = 20_000
_BATCH_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The range that a micro-batch reads of a log partition: `from_offset` to `to_offset` - 1.

    `high_watermark` and the epochs of `end` come from the planning, for the progress row.
    """

    log_partition: int
    from_offset: int
    end: OffsetAndEpoch
    high_watermark: int
    topic: str = OFFSETS_TOPIC

    @property
    def to_offset(self) -> int:
        """The record offset after the last one to read."""
        return self.end.offset

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the log partition."""
        return self.topic, self.log_partition

    @property
    def log_topic(self) -> str | None:
        """The topic as rows have it."""
        return None if self.topic == OFFSETS_TOPIC else self.topic

    @property
    def is_empty(self) -> bool:
        """Whether the range has no offsets."""
        return self.from_offset >= self.to_offset


class Fetcher(Protocol):
    """The method of `LogClient` that reading needs."""

    def fetch(
        self,
        fetch_offsets: Mapping[int, int],
        /,
        max_bytes: int = ...,
        max_partition_bytes: int = ...,
        max_wait_ms: int = ...,
    ) -> dict[int, FetchedRecords]:
        """Fetch record sets, see `LogClient.fetch`."""


class _RangeReading:
    """The progress of reading one range, and its rows that are held."""

    def __init__(self, log_range: LogRange, sampling: CommitSampling | None) -> None:
        self.range = log_range
        self.cursor = LogCursor(
            OffsetRange(
                log_partition=log_range.log_partition,
                from_offset=log_range.from_offset,
                to_offset=log_range.to_offset,
                log_topic=log_range.log_topic,
            ),
            high_watermark=log_range.high_watermark,
            sampling=sampling,
        )
        self.held = HeldRows(sampling)
        self._records_read = 0
        self._records_superseded = 0
        self._bytes_read = 0

    def take(self, answer: Answer) -> bool:
        """Hold the rows of an answer; return whether it moved the cursor."""
        before = self.cursor.next_offset, self.cursor.fetch_offset
        for decoded in self.cursor.take(answer):
            self._records_read += decoded.records_read
            self._records_superseded += decoded.records_superseded
            self._bytes_read += decoded.bytes_read
            self.held.add(decoded.rows)
        return before != (self.cursor.next_offset, self.cursor.fetch_offset)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Release the last rows, then the `progress` row."""
        self.held.compact()
        yield from self.held.release()
        row: dict[str, Any] = {
            "row_kind": ROW_KIND_PROGRESS,
            "log_topic": self.range.log_topic,
            "log_partition": self.range.log_partition,
            "record_offset": self.range.to_offset,
            "from_offset": self.range.from_offset,
            "high_watermark": self.range.high_watermark,
            "log_leader_epoch": self.range.end.leader_epoch,
            "log_epoch_entries": self.range.end.entries_json,
            "records_read": self._records_read,
            "records_superseded": self._records_superseded + self.held.records_superseded,
            "bytes_read": self._bytes_read,
        }
        yield pa.RecordBatch.from_pylist([row], schema=LOG_ROW_SCHEMA)


class _FetchAhead:
    """One fetch in flight, on its own thread, while the last answer is decoded."""

    def __init__(self, fetcher: Fetcher, retry_timeout_ms: int) -> None:
        self._fetcher = fetcher
        self._retry_timeout_s = retry_timeout_ms / 1000
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fetch-ahead")
        self._in_flight: Future[dict[int, FetchedRecords]] | None = None
        self._limits = self._granted = _Limits()
        self._advanced_at = time.monotonic()

    def begin(self, readings: Collection[_RangeReading]) -> None:
        """Start a fetch for these readings, unless a fetch is in flight or there are none.

        Readings that need a larger answer are fetched only when no others are left.
        """
        asking = [r for r in readings if not r.cursor.needs_more] or readings
        fetch_offsets = {r.range.log_partition: r.cursor.fetch_offset for r in asking}
        if fetch_offsets and self._in_flight is None:
            self._granted = self._limits
            self._in_flight = self._thread.submit(
                self._fetcher.fetch,
                fetch_offsets,
                max_bytes=self._limits.max_bytes,
                max_partition_bytes=self._limits.max_partition_bytes,
                max_wait_ms=_MAX_WAIT_MS,
            )

    def finish(self) -> dict[int, Answer]:
        """Wait for the fetch in flight; return the useful answers.

        A leader fills its response up to the limits. An empty answer therefore says something about
        its log partition only if no log partition has records.
        """
        if self._in_flight is None:
            return {}
        in_flight, self._in_flight = self._in_flight, None
        fetched = in_flight.result()
        total_bytes = sum(len(response.records) for response in fetched.values())
        return {
            log_partition: Answer(
                response, self._granted.are_above(len(response.records), total_bytes)
            )
            for log_partition, response in fetched.items()
            if response.records or response.is_unreadable or not total_bytes
        }

    def note(self, *, has_advanced: bool, needs_more: bool) -> None:
        """Double the limits if a batch did not fit; give up after the retry timeout.

        Raises:
            TimeoutError: no range has advanced for the retry timeout.
        """
        if has_advanced:
            self._advanced_at = time.monotonic()
            self._limits = _Limits()
        elif needs_more:
            self._limits = self._limits.doubled()
        if time.monotonic() - self._advanced_at > self._retry_timeout_s:
            raise TimeoutError(
                f"no records for {self._retry_timeout_s:g} s below the planned high watermark; the "
                "leader may still be recovering"
            )

    def close(self) -> None:
        """Stop without waiting for the fetch in flight."""
        self._thread.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Limits:
    """The most bytes of an answer, for all log partitions and for one."""

    max_bytes: int = field(default_factory=lambda: DEFAULT_MAX_BYTES)
    max_partition_bytes: int = field(default_factory=lambda: DEFAULT_MAX_PARTITION_BYTES)

    def doubled(self) -> _Limits:
        return _Limits(
            min(2 * self.max_bytes, LARGEST_MAX_BYTES),
            min(2 * self.max_partition_bytes, LARGEST_MAX_BYTES),
        )

    def are_above(self, size_bytes: int, total_bytes: int) -> bool:
        """Whether an answer is not cut by the limits, or the limits cannot grow."""
        is_below = size_bytes < self.max_partition_bytes and total_bytes < self.max_bytes
        return is_below or self.max_partition_bytes >= LARGEST_MAX_BYTES


def read_ranges(
    fetcher: Fetcher,
    ranges: Sequence[LogRange],
    *,
    sampling: CommitSampling | None,
    retry_timeout_ms: int = RETRY_TIMEOUT_MS,
) -> Iterator[pa.RecordBatch]:
    """Read the ranges to their ends; the last row of each is its `progress` row.

    Every record of a range either has a row, or is counted as superseded in the `progress` row.
    With `sampling`, a plain commit may be dropped if a later plain commit of its key in the range
    supersedes it.

    Raises:
        LogTruncated: the log no longer has an offset of a range.
        TimeoutError: no range has advanced for `retry_timeout_ms`.
    """
    reading = _read(fetcher, ranges, sampling=sampling, retry_timeout_ms=retry_timeout_ms)
    yield from _rebatch(reading)


def _read(
    fetcher: Fetcher,
    ranges: Sequence[LogRange],
    *,
    sampling: CommitSampling | None,
    retry_timeout_ms: int,
) -> Iterator[pa.RecordBatch]:
    unread: dict[int, _RangeReading] = {}
    for log_range in ranges:
        reading = _RangeReading(log_range, sampling)
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
            yield from _limit_held_bytes(list(unread.values()), _MAX_HELD_BYTES if sampling else 0)
    finally:
        fetches.close()


def _finished(fetches: _FetchAhead, unread: Mapping[int, _RangeReading]) -> dict[int, Answer]:
    try:
        return fetches.finish()
    except LogTruncated as truncated:
        cursor = unread[truncated.log_partition].cursor
        if not truncated.record_offset < truncated.log_start <= cursor.next_offset:
            raise
        # Only records that are already read were deleted from the log.
        cursor.leave_anchor()
        return {}


def _limit_held_bytes(readings: list[_RangeReading], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Compact the largest readings, then release their rows, until the rest fits."""
    held = [reading.held for reading in readings]
    for shrink in (HeldRows.compact, HeldRows.release):
        held.sort(key=lambda rows: rows.size_bytes, reverse=True)
        for rows in held:
            if sum(others.size_bytes for others in held) <= max_bytes:
                return
            yield from shrink(rows) or ()


def _rebatch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches and cut large ones, for batches of moderate size on the way to the JVM."""
    parts: list[pa.RecordBatch] = []
    joined_rows = joined_bytes = 0
    for batch in batches:
        for piece in _cut(batch):
            if parts and (
                joined_rows + piece.num_rows > _BATCH_ROWS
                or joined_bytes + piece.nbytes > _BATCH_BYTES
            ):
                yield _join(parts)
                parts, joined_rows, joined_bytes = [], 0, 0
            parts.append(piece)
            joined_rows += piece.num_rows
            joined_bytes += piece.nbytes
    if parts:
        yield _join(parts)


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
