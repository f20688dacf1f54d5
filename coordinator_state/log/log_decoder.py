"""The reference decoder: record sets to rows of the `coordinator_log` source; see also `kernel`.

Every record becomes exactly one row, decodable or not. Damaged bytes count as one record, whose row
names the lost record offsets. No content of the bytes raises an error. `log_rows` describes the row
kinds.

Compaction keeps more than Kafka's log cleaner, because state and history depend on more than the
last record of a key. A plain commit is dropped if a later plain commit has the same key, no smaller
committed offset, and a timestamp of the same interval. Tombstones, transactional records and
markers are kept. A commit before a tombstone is kept, too, because it creates its group.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.log_rows import (
    LOG_ROW_SCHEMA,
    MOST_STEPS_BACK,
    ROW_KIND_MARKER,
    ROW_KIND_OFFSET,
    ROW_KIND_RECORD,
    ROW_KIND_UNDECODABLE,
)
from coordinator_state.log.record import NO_TIMESTAMP, Record, read_control_key
from coordinator_state.log.record_batch import (
    NO_PRODUCER_EPOCH,
    CorruptBatch,
    RecordBatch,
    read_frame,
)
from coordinator_state.log.record_set import Bounds, Rest, frame_record_set
from coordinator_state.records.offset_commit_value import offset_commit_values
from coordinator_state.records.record_types import (
    GROUP_METADATA_TYPE,
    NO_PRODUCER_ID,
    OFFSET_COMMIT_TYPES,
)
from coordinator_state.records.serde import DecodedKey, DecodedValue, decode_key, decode_value
from coordinator_state.wire.primitives import read_int16

MIN_TIMESTAMP_MS: Final = -62_135_596_800_000
MAX_TIMESTAMP_MS: Final = 253_402_300_799_999
"""Years 1 to 9999: the range of timestamps in the tables; other values are clamped to it."""

MAX_CORRUPT_BYTES: Final = 1024 * 1024
"""The row of a corrupt batch keeps at most this many of its bytes."""

Row = dict[str, Any]
Batch = RecordBatch | CorruptBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecordSet:
    """The records of a record set within a range of record offsets.

    Attributes:
        rows: one row per record that compaction kept.
        next_offset: the first record offset that is not processed, at most the end of the range.
            Gaps, empty batches and damaged bytes are processed.
        last_base_offset: the base offset of the last batch, -1 without a batch.
        records_read: the number of rows and of superseded records.
        records_superseded: the number of records that compaction dropped.
        bytes_read: the size of all batches with a record offset in the range.
        rest: the bytes at the end of the record set that cannot be judged yet.
    """

    rows: pa.RecordBatch
    next_offset: int
    last_base_offset: int
    records_read: int
    records_superseded: int
    bytes_read: int
    rest: Rest


def decode_record_set(
    buffer: bytes | memoryview, offsets: OffsetRange, sampling: CommitSampling | None = None
) -> DecodedRecordSet:
    """Decode the records of a range of record offsets, in log order.

    With `sampling`, superseded commits are dropped, see above.
    """
    rows: list[Row] = []
    next_offset = offsets.from_offset
    bytes_read = 0
    view = memoryview(buffer)
    frames, rest = frame_record_set(view, offsets)
    for batch in (read_frame(view, frame) for frame in frames):
        next_offset = offsets.next_offset(batch, next_offset)
        if offsets.overlaps(batch):
            bytes_read += batch.size_bytes
            rows.extend(offsets.rows_of(batch))
    records_read = len(rows)
    if sampling is not None:
        rows = _compacted(rows, sampling)
    return DecodedRecordSet(
        rows=pa.RecordBatch.from_pylist(rows, schema=LOG_ROW_SCHEMA),
        next_offset=next_offset,
        last_base_offset=frames[-1].base_offset if frames else -1,
        records_read=records_read,
        records_superseded=records_read - len(rows),
        bytes_read=bytes_read,
        rest=rest,
    )


def decode_corrupt_batch(batch: Batch, offsets: OffsetRange) -> DecodedRecordSet:
    """Make the row of damaged bytes, as the result of a separate record set."""
    rows = pa.RecordBatch.from_pylist(list(offsets.rows_of(batch)), schema=LOG_ROW_SCHEMA)
    return DecodedRecordSet(
        rows=rows,
        next_offset=offsets.next_offset(batch, offsets.from_offset),
        last_base_offset=batch.base_offset,
        records_read=rows.num_rows,
        records_superseded=0,
        bytes_read=batch.size_bytes if offsets.overlaps(batch) else 0,
        rest=Rest(0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange(Bounds):
    """The requested range of record offsets of one log partition: `from_offset` up to `to_offset`.

    `log_topic` is None for `__consumer_offsets`. Keys and values of other topics are not decoded.
    """

    log_partition: int
    log_topic: str | None = None

    def next_offset(self, batch: Batch, so_far: int) -> int:
        """Return the next offset after this batch, at most the end of the range."""
        last_offset = self._last_offset(batch)
        return max(so_far, min(last_offset, self.to_offset - 1) + 1)

    def overlaps(self, batch: Batch) -> bool:
        """Whether the batch has a record offset in the range."""
        last_offset = self._last_offset(batch)
        return last_offset >= self.from_offset and batch.base_offset < self.to_offset

    def rows_of(self, batch: Batch) -> Iterator[Row]:
        """Yield one row per record in the range, and one for damaged bytes."""
        if isinstance(batch, CorruptBatch):
            yield from self._corrupt_rows(batch)
            return
        for record in batch.records:
            if self._holds(record.record_offset):
                yield self.row_of(batch, record)
        if batch.remainder is not None:
            for row in self._corrupt_rows(batch.remainder):
                yield row | _producer_columns(batch)

    def row_of(self, batch: RecordBatch, record: Record) -> Row:
        """Make the row of one record; `batch` needs only the fields of the batch header."""
        timestamp_ms = _timestamp_column(record.timestamp_ms)
        decode = _record_columns if self.log_topic is None else _raw_columns
        return (
            {
                "log_topic": self.log_topic,
                "log_partition": self.log_partition,
                "record_offset": record.record_offset,
                "record_timestamp_ms": timestamp_ms,
            }
            | _producer_columns(batch)
            | (_control_columns(record) if batch.is_control else decode(record))
        )

    def _holds(self, offset: int) -> bool:
        return self.from_offset <= offset < self.to_offset

    def _last_offset(self, batch: Batch) -> int:
        """Damaged bytes without a batch after them lose all records of the range."""
        return self.to_offset - 1 if batch.last_offset is None else batch.last_offset

    def _corrupt_rows(self, batch: CorruptBatch) -> Iterator[Row]:
        """Yield one row if a lost record is in the range; it also names lost records after it."""
        first, last = max(batch.base_offset, self.from_offset), self._last_offset(batch)
        if first > min(last, self.to_offset - 1):
            return
        reason = batch.reason
        if last > first:
            reason += f"; record offsets {first} to {last} are lost"
        if len(batch.raw) > MAX_CORRUPT_BYTES:
            reason += f" ({len(batch.raw) - MAX_CORRUPT_BYTES} of {len(batch.raw)} bytes omitted)"
        yield {
            "row_kind": ROW_KIND_UNDECODABLE,
            "log_topic": self.log_topic,
            "log_partition": self.log_partition,
            "record_offset": first,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
            "is_transactional": False,
            "raw_value": batch.raw[:MAX_CORRUPT_BYTES],
            "reason": reason,
        }


def is_offset(row: Row) -> bool:
    """Whether the row is a commit or the tombstone of a commit."""
    return bool(row["row_kind"] == ROW_KIND_OFFSET)


def is_modern_record(row: Row) -> bool:
    """Whether the row is a record of a consumer, share or streams group."""
    is_record: bool = row["row_kind"] == ROW_KIND_RECORD
    return is_record and row["record_type"] > GROUP_METADATA_TYPE


def _compacted(rows: list[Row], sampling: CommitSampling) -> list[Row]:
    """Drop superseded commits.

    These commits are kept:

    - both commits of a step back, where a smaller committed offset follows a larger one: they show
      who moved the offset back, and from where;
    - the commits before and after a tombstone or transactional commit of their key;
    - the first commit of each key: it may be a step back from a commit before `rows`;
    - the last commit of each key in each interval of time (`CommitSampling`);
    - the last commit of a key before a record of its group: the effect of that record may depend on
      whether a commit created the group.

    Only the last `MOST_STEPS_BACK` steps back are kept.
    """
    kept: set[int] = set()
    later_records: Counter[str] = Counter()
    steps_back = 0
    following: dict[tuple[str, str, int], _Commit] = {}
    for index in reversed(range(len(rows))):
        row = rows[index]
        if not is_offset(row):
            later_records[row.get("group_id") or ""] += is_modern_record(row)
            kept.add(index)
            continue
        key = row["group_id"], row["topic"], row["partition"]
        later = following.get(key)
        if not _is_plain_commit(row):
            kept.add(index)
            if later is not None:
                following[key] = later._replace(committed_offset=-math.inf)
            continue
        commit = _Commit(
            index,
            row["committed_offset"],
            later_records[row["group_id"]],
            sampling.interval(_timestamp_of(row)),
        )
        if later is None or later[2:] != commit[2:]:
            kept.add(index)
        is_step_back = later is not None and commit.committed_offset > later.committed_offset
        if later is not None and is_step_back and steps_back < MOST_STEPS_BACK:
            steps_back += 1
            kept |= {index, later.place}
        following[key] = commit
    kept.update(first.place for first in following.values())
    return [row for index, row in enumerate(rows) if index in kept]


def _is_plain_commit(row: Row) -> bool:
    is_plain: bool = row["producer_id"] == NO_PRODUCER_ID and not row["is_transactional"]
    return is_plain and not row["is_tombstone"]


class _Commit(NamedTuple):
    """A commit, the number of later records of its group, and the interval of its timestamp."""

    place: int
    committed_offset: float
    later_records: int
    interval: tuple[int, int]


def _timestamp_of(row: Row) -> int:
    timestamp_ms: int | None = row["record_timestamp_ms"]
    return NO_TIMESTAMP if timestamp_ms is None else timestamp_ms


def _producer_columns(batch: RecordBatch) -> Row:
    return {
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "is_transactional": batch.is_transactional,
    }


def _control_columns(record: Record) -> Row:
    if record.key is None:
        return _undecodable_columns(record, "control record: null key")
    try:
        version, control_type = read_control_key(record.key)
    except DecodeError as error:
        return _undecodable_columns(record, f"control record key: {error}")
    if version < 0:
        return _undecodable_columns(record, f"control record key: negative version {version}")
    return {"row_kind": ROW_KIND_MARKER, "control_type": control_type}


def _record_columns(record: Record) -> Row:
    if record.key is None:
        return _undecodable_columns(record, "null key")
    try:
        key = decode_key(record.key)
        value = None
        if record.value is not None:
            value = decode_value(key.record_type, record.value)
    except (DecodeError, UnknownRecordType) as error:
        return _undecodable_columns(record, str(error)) | _record_type_column(record.key)
    if key.record_type.id in OFFSET_COMMIT_TYPES:
        return _offset_columns(key, value)
    return {
        "row_kind": ROW_KIND_RECORD,
        "record_type": key.record_type.id,
        "group_id": key.group_id,
        "is_tombstone": record.value is None,
        "raw_key": record.key,
        "raw_value": record.value,
    }


def _raw_columns(record: Record) -> Row:
    if record.key is None:
        return _undecodable_columns(record, "null key")
    return {
        "row_kind": ROW_KIND_RECORD,
        "is_tombstone": record.value is None,
        "raw_key": record.key,
        "raw_value": record.value,
    } | _record_type_column(record.key)


def _offset_columns(key: DecodedKey, value: DecodedValue | None) -> Row:
    columns = {
        "row_kind": ROW_KIND_OFFSET,
        "record_type": key.record_type.id,
        "group_id": key.group_id,
        "topic": key.fields["topic"],
        "partition": key.fields["partition"],
        "is_tombstone": value is None,
    }
    if value is None:
        return columns
    values = offset_commit_values(value.fields)
    for name in ("commit_timestamp_ms", "expire_timestamp_ms"):
        values[name] = None if values[name] is None else _clamped(values[name])
    return columns | values | {"value_version": value.version}


def _undecodable_columns(record: Record, reason: str) -> Row:
    return {
        "row_kind": ROW_KIND_UNDECODABLE,
        "reason": reason,
        "raw_key": record.key,
        "raw_value": record.value,
    }


def _record_type_column(key: bytes) -> Row:
    try:
        record_type, _ = read_int16(memoryview(key), 0)
    except DecodeError:
        return {}
    return {"record_type": record_type}


def _timestamp_column(timestamp_ms: int) -> int | None:
    return None if timestamp_ms == NO_TIMESTAMP else _clamped(timestamp_ms)


def _clamped(timestamp_ms: int) -> int:
    return max(MIN_TIMESTAMP_MS, min(timestamp_ms, MAX_TIMESTAMP_MS))
