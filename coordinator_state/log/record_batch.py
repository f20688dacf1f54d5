"""Record batches (magic 2), and the reader of any log or fetch response.

A batch is a header of 61 bytes and its records, compressed as a whole. The CRC-32C covers all bytes
from the attributes on. Offsets and timestamps of records are deltas to those in the header.
Compaction leaves gaps and empty batches (`records_count` 0, offsets kept). A control batch contains
transaction markers. Older entries (magic 0 and 1, see `message_set`) are returned as batches, too.

Reading never raises. Damaged bytes become a `CorruptBatch`, and reading continues at the next valid
batch (`record_set` finds it). The sum of `size_bytes` is the number of bytes read. An incomplete
batch at the end of the buffer is ignored: fetch responses usually end with one.

Source: clients/src/main/java/org/apache/kafka/common/record/DefaultRecordBatch.java,
DefaultRecord.java and ByteBufferLogInputStream.java at 4.2.0; KIP-98, KIP-534 (delete horizon).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from coordinator_state.errors import CorruptRecordBatch, DecodeError
from coordinator_state.log.message_set import read_message_set_entry
from coordinator_state.log.record import NO_TIMESTAMP, Record, read_record
from coordinator_state.log.record_set import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAX_BASE_OFFSET,
    Bounds,
    Frame,
    Rest,
    frame_record_set,
)
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.wire.compression import compression_name, decompress

__all__ = [
    "CorruptBatch",
    "Record",
    "RecordBatch",
    "read_batch_body",
    "read_batch_header",
    "read_frame",
    "read_record_batches",
    "read_rest",
]

NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""From the base offset to the count of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptBatch:
    """Bytes that are not a valid batch or, in `RecordBatch.remainder`, not valid records.

    The records from `base_offset` to `last_offset` are lost; `last_offset` is None if unknown.
    """

    base_offset: int
    last_offset: int | None
    size_bytes: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """A batch of any magic with its records in log order.

    `size_bytes` counts the bytes in the log, including the header. If the batch has a delete
    horizon, `base_timestamp_ms` is that horizon. If a record is damaged, `remainder` has the bytes
    from there on; its `base_offset` is the record offset after the last valid record.
    """

    base_offset: int
    last_offset: int
    size_bytes: int
    magic: int = 2
    compression: str = "none"
    leader_epoch: int = -1
    is_log_append_time: bool = False
    is_transactional: bool = False
    is_control: bool = False
    has_delete_horizon: bool = False
    base_timestamp_ms: int = NO_TIMESTAMP
    max_timestamp_ms: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    records_count: int = 0
    records: tuple[Record, ...] = ()
    remainder: CorruptBatch | None = None


def read_record_batches(buffer: bytes | memoryview) -> Iterator[RecordBatch | CorruptBatch]:
    """Read all complete batches of a record set, in order; a damaged range is a corrupt batch.

    Bytes at the end that are neither a batch nor the start of one are a corrupt batch with an
    unknown last offset.
    """
    view = memoryview(buffer)
    frames, rest = frame_record_set(view, Bounds())
    # If the first batch is damaged, its header is the only source of the first offset.
    next_offset = max(0, int.from_bytes(view[:8], "big", signed=True))
    for frame in frames:
        first_lost = min(next_offset, frame.last_offset)
        yield read_frame(view, frame._replace(base_offset=first_lost) if frame.damage else frame)
        next_offset = frame.last_offset + 1
    if rest.damage and not rest.is_cut:
        yield read_rest(view, rest, next_offset)


def read_frame(view: memoryview, frame: Frame) -> RecordBatch | CorruptBatch:
    """Read the batch of a frame."""
    raw, damage = view[frame.start : frame.end], frame.damage
    if not damage:
        try:
            if raw[MAGIC_POSITION] < 2:
                return _read_legacy_batch(raw)
            return _with_records(*read_batch_body(raw))
        except CorruptRecordBatch as error:
            damage = error.message
    return CorruptBatch(
        base_offset=frame.base_offset,
        last_offset=frame.last_offset,
        size_bytes=len(raw),
        reason=damage,
        raw=bytes(raw),
    )


def read_rest(view: memoryview, rest: Rest, base_offset: int) -> CorruptBatch:
    """Make the corrupt batch of damaged bytes at the end; their last offset is unknown."""
    raw = bytes(view[rest.start :])
    return CorruptBatch(
        base_offset=base_offset,
        last_offset=None,
        size_bytes=len(raw),
        reason=rest.damage,
        raw=raw,
    )


def read_batch_header(view: memoryview) -> RecordBatch:
    """Read the header of a magic 2 batch as a batch without records; the checksum is not checked.

    Raises:
        CorruptRecordBatch: an offset or count is impossible, or the compression is unknown.
    """
    (
        base_offset,
        batch_length,
        leader_epoch,
        magic,
        _crc,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    ) = BATCH_HEADER.unpack_from(view)
    if not 0 <= base_offset <= MAX_BASE_OFFSET:
        raise CorruptRecordBatch(f"impossible base offset {base_offset}", position=0)
    if last_offset_delta < 0:
        raise CorruptRecordBatch(f"negative last offset delta {last_offset_delta}", position=23)
    if records_count < 0:
        raise CorruptRecordBatch(f"negative records count {records_count}", position=57)
    return RecordBatch(
        base_offset=base_offset,
        last_offset=base_offset + last_offset_delta,
        size_bytes=LOG_OVERHEAD_BYTES + batch_length,
        magic=magic,
        compression=compression_name(attributes & COMPRESSION_MASK),
        leader_epoch=leader_epoch,
        is_log_append_time=bool(attributes & LOG_APPEND_TIME_FLAG),
        is_transactional=bool(attributes & TRANSACTIONAL_FLAG),
        is_control=bool(attributes & CONTROL_FLAG),
        has_delete_horizon=bool(attributes & DELETE_HORIZON_FLAG),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=records_count,
    )


def read_batch_body(view: memoryview) -> tuple[RecordBatch, memoryview]:
    """Read the header of one complete batch of magic 2 with a valid checksum, and decompress it.

    Returns:
        The header as a batch without records, and the bytes of the records.

    Raises:
        CorruptRecordBatch: the header or the compressed stream is invalid.
    """
    header = read_batch_header(view)
    body = view[BATCH_HEADER_BYTES:]
    if header.compression != "none" and header.records_count:
        body = memoryview(decompress(header.compression, body))
    return header, body


def _read_legacy_batch(view: memoryview) -> RecordBatch:
    entry = read_message_set_entry(view)
    messages = entry.messages
    return RecordBatch(
        base_offset=messages[0].record_offset,
        last_offset=int.from_bytes(view[:8], "big", signed=True),
        size_bytes=len(view),
        magic=entry.magic,
        compression=entry.compression,
        is_log_append_time=entry.is_log_append_time,
        base_timestamp_ms=messages[0].timestamp_ms,
        max_timestamp_ms=max(message.timestamp_ms for message in messages),
        records_count=len(messages),
        records=messages,
    )


def _with_records(header: RecordBatch, body: memoryview) -> RecordBatch:
    records: list[Record] = []
    position = 0
    reason = None
    try:
        for _ in range(header.records_count):
            record, position = read_record(
                body,
                position,
                base_offset=header.base_offset,
                base_timestamp_ms=header.base_timestamp_ms,
            )
            if header.is_log_append_time:
                record = replace(record, timestamp_ms=header.max_timestamp_ms)
            records.append(record)
        if position < len(body):
            reason = f"{len(body) - position} bytes after the last record"
    except DecodeError as error:
        reason = f"record {len(records)} of {header.records_count}: {error.message}"
    if reason is None:
        return replace(header, records=tuple(records))
    next_offset = records[-1].record_offset + 1 if records else header.base_offset
    remainder = CorruptBatch(
        base_offset=min(next_offset, header.last_offset),
        last_offset=header.last_offset,
        size_bytes=len(body) - position,
        reason=reason,
        raw=bytes(body[position:]),
    )
    return replace(header, records=tuple(records), remainder=remainder)
