"""An estimate of how much of the log fits in a micro-batch, from a sample of the unread log.

All transactional commits, tombstones and group records stay in the micro-batch and go through the
memory of the process that plans it, group records with their keys and values. With the engine
`driver` that is one process; with the engine `spark` all tasks share the rows. Of plain commits,
only the first of each key stays, and the last one in each interval of time. So a micro-batch may
span many commits if they have few keys.

The number of keys is estimated by capture and recapture (Chapman's estimator), from the number of
keys at one place of the log, at another place, and at both. Repetitions within a place do not
count, so a burst of commits for one key does not hide other keys.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.record import Record
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.log.record_set import BATCH_HEADER_BYTES
from coordinator_state.records.record_types import NO_PRODUCER_ID, OFFSET_COMMIT_TYPES
from streaming.source import MOST_RECORDS_PER_TRIGGER
from streaming.source.log_range import Fetcher

MOST_STAYING_BYTES: Final = 128 << 20
"""The most bytes of rows of a process; transactional commits become Python objects, ten times as
large."""
PLAIN_COMMIT_WEIGHT: Final = 0.25
"""The weight of a byte of a plain commit, whose rows never become Python objects."""
# For so few offsets no sample is fetched.
_FEW_OFFSETS: Final = 100_000
_PLACES: Final = (0, 1)
_PLACE_BYTES: Final = 64 << 10
_PLACE_RECORDS: Final = 256
_FEWEST_RECORDS: Final = 8192
"""Over all log partitions of a place; enough to find keys twice among 100,000 keys."""
_ROW_BYTES: Final = 200
"""The size of a row in Arrow, without key and value."""
_RECORD_BYTES: Final = 200
"""The size of a record of another topic than `__consumer_offsets` in the log."""
_LAST_OFFSET_DELTA: Final = 23
_RECORDS_COUNT: Final = 57
"""Places in the header of a record batch."""
_ROWS_PER_KEY: Final = 2
"""The first commit and the last one; each interval of time has another one."""


@dataclass(slots=True)
class _Sample:
    """The records of some batches of a log partition."""

    records: int = 0
    staying_bytes: int = 0
    plain_bytes: int = 0
    plain_commits: int = 0
    keys: tuple[set[bytes], set[bytes]] = field(default_factory=lambda: (set(), set()))
    timestamps_ms: list[int] = field(default_factory=list)
    """Of the batches."""

    def intervals(self, sampling: CommitSampling) -> int:
        """The intervals in the time of the whole span: the second place is in its middle."""
        first_ms, middle_ms = min(self.timestamps_ms), max(self.timestamps_ms)
        return sampling.intervals_between(first_ms, 2 * middle_ms - first_ms)

    def add(self, place: int, batch: RecordBatch, *, is_compacted: bool) -> None:
        self.timestamps_ms.append(batch.max_timestamp_ms)
        for record in batch.records:
            self.records += 1
            size_bytes = _ROW_BYTES + len(record.key or b"") + len(record.value or b"")
            if is_compacted and record.key is not None and _is_plain_commit(batch, record):
                self.plain_commits += 1
                self.plain_bytes += size_bytes
                self.keys[place].add(record.key)
            else:
                self.staying_bytes += size_bytes


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Estimate of the records that stay in a span of the log, if it resembles the samples."""

    total_offsets: int
    staying_bytes: float
    plain_commits: float
    plain_bytes: float
    keys: int
    intervals: int

    def weighted_bytes(self, offsets: int) -> int:
        """The bytes of the rows that stay; those of plain commits are weighted."""
        share = offsets / self.total_offsets
        size_bytes = share * self.staying_bytes
        if self.plain_commits:
            commits = share * self.plain_commits
            keys = self.keys * -math.expm1(-commits / self.keys)
            rows = min(commits, keys * (_ROWS_PER_KEY + share * self.intervals))
            size_bytes += PLAIN_COMMIT_WEIGHT * rows * self.plain_bytes / self.plain_commits
        return int(size_bytes)


def offsets_that_fit(
    fetcher: Fetcher,
    next_offsets: Mapping[int, int],
    left: Mapping[int, int],
    *,
    sampling: CommitSampling | None,
    most_bytes: int = MOST_STAYING_BYTES,
) -> int:
    """The number of offsets that a micro-batch may span if its rows have to fit in memory.

    The sample is small: it may miss rare transactions, and it underestimates the number of keys if
    few keys have most of the commits.

    Args:
        fetcher: fetches the batches.
        next_offsets: the next offset of each log partition.
        left: the number of unread offsets of each log partition.
        sampling: the sampling of plain commits; None if all of them stay.
        most_bytes: the most bytes of rows in all processes.
    """
    total = sum(left.values())
    if total <= _FEW_OFFSETS:
        return MOST_RECORDS_PER_TRIGGER
    samples: dict[int, _Sample] = defaultdict(_Sample)
    for log_partition, place, _, batch in sampled_batches(fetcher, next_offsets, left):
        samples[log_partition].add(place, batch, is_compacted=sampling is not None)
    samples = {p: sample for p, sample in samples.items() if sample.records}
    intervals = [] if sampling is None else [s.intervals(sampling) for s in samples.values()]
    # A record with a wrong timestamp counts for its log partition only.
    estimate = _estimate(samples, left, sorted(intervals)[len(intervals) // 2] if intervals else 0)
    return max(
        1,
        bisect_right(range(MOST_RECORDS_PER_TRIGGER), most_bytes, key=estimate.weighted_bytes),
    )


def _estimate(samples: Mapping[int, _Sample], left: Mapping[int, int], intervals: int) -> _Estimate:
    # A log partition without a sample (a batch is larger than a place) counts like the others.
    unread = sum(left.values()) / max(1, sum(left[p] for p in samples))
    scaled = {p: unread * left[p] / sample.records for p, sample in samples.items()}
    first, second = (sum(len(s.keys[place]) for s in samples.values()) for place in _PLACES)
    both = sum(len(s.keys[0] & s.keys[1]) for s in samples.values())
    return _Estimate(
        total_offsets=sum(left.values()),
        staying_bytes=sum(scaled[p] * sample.staying_bytes for p, sample in samples.items()),
        plain_commits=sum(scaled[p] * sample.plain_commits for p, sample in samples.items()),
        plain_bytes=sum(scaled[p] * sample.plain_bytes for p, sample in samples.items()),
        keys=(first + 1) * (second + 1) // (both + 1),
        intervals=intervals,
    )


def offsets_of_records(
    fetcher: Fetcher, next_offsets: Mapping[int, int], left: Mapping[int, int], most_records: int
) -> dict[int, int]:
    """The record offsets of each log partition that have about this many records in all.

    A compacted log has gaps of any size between its batches, so record offsets alone do not tell.
    One answer of limited bytes from each leader does. Log partitions with few offsets come first.
    """
    unread = sorted((n, p) for p, n in left.items() if n > 0)
    most_bytes = most_records * _RECORD_BYTES
    fetched = fetcher.fetch(
        {p: next_offsets[p] for _, p in unread},
        max_bytes=most_bytes,
        max_partition_bytes=most_bytes,
        max_wait_ms=0,
    )
    offset_counts, budget = dict.fromkeys(left, 0), most_records
    for place, (count, log_partition) in enumerate(unread):
        start = next_offsets[log_partition]
        if log_partition in fetched:
            view = memoryview(fetched[log_partition].records)
            quota = budget // (len(unread) - place)
            end, records = _end_of(view, start, start + count, max(quota, 1))
            offset_counts[log_partition] = end - start
            budget = max(budget - records, 0)
    # No batch is readable: the tasks read this range, and report the lost record offsets.
    return (
        offset_counts
        if any(offset_counts.values())
        else {p: min(n, most_records) for p, n in left.items()}
    )


def _end_of(view: memoryview, start: int, end: int, most_records: int) -> tuple[int, int]:
    """The offset after the first batches of a record set, and the number of their records.

    It trusts the headers of the batches: `LogCursor` checks them, and reads past damaged ones.
    """
    position, reached, records = 0, start, 0
    while position + BATCH_HEADER_BYTES <= len(view) and records < most_records:
        base_offset, length = struct.unpack_from(">qi", view, position)
        (last_offset_delta,) = struct.unpack_from(">i", view, position + _LAST_OFFSET_DELTA)
        (count,) = struct.unpack_from(">i", view, position + _RECORDS_COUNT)
        last_offset = base_offset + last_offset_delta
        if min(length, last_offset_delta + 1, count) < 0 or not reached <= last_offset < end:
            break
        position, reached, records = position + 12 + length, last_offset + 1, records + count
    return reached, records


def sampled_batches(
    fetcher: Fetcher, next_offsets: Mapping[int, int], left: Mapping[int, int]
) -> Iterator[tuple[int, int, int, RecordBatch]]:
    """Batches of two places of each log partition: its number, the place, an offset, the batch.

    Between that offset and the batch the log has no records.
    """
    unread = {p: n for p, n in left.items() if n > 0}
    most_records = max(_PLACE_RECORDS, _FEWEST_RECORDS // max(1, len(unread)))
    for place in _PLACES:
        starts = {p: next_offsets[p] + n * place // len(_PLACES) for p, n in unread.items()}
        fetched = fetcher.fetch(
            starts,
            max_bytes=_PLACE_BYTES * len(starts),
            max_partition_bytes=_PLACE_BYTES,
            max_wait_ms=0,
        )
        for log_partition, answer in fetched.items():
            start, records = starts[log_partition], 0
            end = starts[log_partition] + unread[log_partition] // len(_PLACES)
            for batch in read_record_batches(answer.records):
                if not isinstance(batch, RecordBatch) or (records and batch.base_offset >= end):
                    break
                yield log_partition, place, start, batch
                start, records = batch.last_offset + 1, records + len(batch.records)
                if records >= most_records:
                    break


def _is_plain_commit(batch: RecordBatch, record: Record) -> bool:
    is_alone = batch.producer_id == NO_PRODUCER_ID and not batch.is_transactional
    if not is_alone or record.value is None or record.key is None or len(record.key) < 2:
        return False
    (record_type,) = struct.unpack_from(">h", record.key)
    return record_type in OFFSET_COMMIT_TYPES
