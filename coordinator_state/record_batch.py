"""Record batches (magic 2), and around them the reading of any log or fetch response.

A batch is a header of 61 bytes and its records, compressed as a whole; the CRC-32C covers
everything from the attributes on. Offsets and timestamps of records are deltas to the header's.
Compaction leaves gaps and empty batches (`records_count` 0, offsets kept); a control batch holds
transaction markers. Older entries (magic 0 and 1) are those of `message_set`, and come out as
batches too.

Reading never raises: what does not hold together becomes a `CorruptBatch`, and reading goes on with
the next batch where the length field leads there. Batches follow one another without a gap, so the
sum of `size_bytes` is how much of the buffer was consumed; a batch cut at its end is left over, for
the last batch of a fetch response is cut as a rule.

Source: clients/src/main/java/org/apache/kafka/common/record/DefaultRecordBatch.java,
DefaultRecord.java and ByteBufferLogInputStream.java at 4.2.0; KIP-98, KIP-534 (delete horizon).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from crc32c import crc32c

from coordinator_state.compression import compression_name, decompress
from coordinator_state.errors import CorruptRecordBatch, DecodeError
from coordinator_state.message_set import MESSAGE_OVERHEAD_BYTES, read_message_set_entry
from coordinator_state.record import NO_TIMESTAMP, Record, read_record
from coordinator_state.record_types import NO_PRODUCER_ID

__all__ = [
    "CorruptBatch",
    "Record",
    "RecordBatch",
    "read_batch_body",
    "read_batch_header",
    "read_record_batches",
]

NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length, which the length does not count."""
BATCH_HEADER_BYTES: Final = 61
CRC_START: Final = 21
"""The attributes, where the checksummed part of a batch begins."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

MAX_BASE_OFFSET: Final = 2**63 - 2**31
"""Beyond this, an int32 delta would leave the int64 range."""

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""From the base offset to the count of records."""
MAGIC_POSITION: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptBatch:
    """Bytes that are no batch, or in `RecordBatch.remainder` no records.

    `last_offset` is None where the header cannot tell it.
    """

    base_offset: int
    last_offset: int | None
    size_bytes: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """A batch of any magic with its records in log order.

    `size_bytes` counts the bytes in the log, header included. `base_timestamp_ms` of a batch with a
    delete horizon is that horizon. Where a record inside is broken, `remainder` holds the rest of
    the batch from there on, its `base_offset` being the offset after the last good record.
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
    """Every complete batch of a record set, in order.

    Where a length is less than any batch has, nothing behind it can be found: the rest of the
    buffer is one corrupt batch.
    """
    view = memoryview(buffer)
    while (size_bytes := _next_batch_size(view)) is not None:
        yield _read_batch(view[:size_bytes])
        view = view[size_bytes:]


def read_batch_header(view: memoryview) -> RecordBatch:
    """The header of a magic 2 batch as a batch without its records; nothing is checked but sense.

    Raises:
        CorruptRecordBatch: offsets or counts that no batch has, or an unknown compression.
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
    """The header of one whole batch of magic 2 and its decompressed records, checksum verified.

    Raises:
        CorruptRecordBatch: wrong checksum, nonsense in the header, or a broken compressed stream.
    """
    (crc,) = struct.unpack_from(">I", view, CRC_START - 4)
    actual = crc32c(view[CRC_START:])
    if actual != crc:
        raise CorruptRecordBatch(f"CRC-32C is {actual:#010x}, not {crc:#010x}", position=17)
    header = read_batch_header(view)
    body = view[BATCH_HEADER_BYTES:]
    if header.compression != "none" and header.records_count:
        body = memoryview(decompress(header.compression, body))
    return header, body


def _next_batch_size(view: memoryview) -> int | None:
    """Bytes of the batch at the start; None where it is cut or nothing is left."""
    if len(view) < LOG_OVERHEAD_BYTES:
        return None
    (length,) = struct.unpack_from(">i", view, 8)
    if length < MESSAGE_OVERHEAD_BYTES[0]:
        return len(view)
    size_bytes = LOG_OVERHEAD_BYTES + int(length)
    if size_bytes > len(view):
        return None
    return len(view) if size_bytes < _least_size(view[MAGIC_POSITION]) else size_bytes


def _least_size(magic: int) -> int:
    if magic == 2:
        return BATCH_HEADER_BYTES
    return LOG_OVERHEAD_BYTES + MESSAGE_OVERHEAD_BYTES.get(magic, MESSAGE_OVERHEAD_BYTES[0])


def _read_batch(view: memoryview) -> RecordBatch | CorruptBatch:
    base_offset, length = struct.unpack_from(">qi", view)
    last_offset: int | None = None
    try:
        magic = view[MAGIC_POSITION] if len(view) > MAGIC_POSITION else 0
        if length < _least_size(magic) - LOG_OVERHEAD_BYTES:
            raise CorruptRecordBatch(f"impossible batch length {length}", position=8)
        if magic < 2:
            last_offset = base_offset
            return _read_legacy_batch(view)
        if magic > 2:
            raise CorruptRecordBatch(f"unknown magic {magic}", position=MAGIC_POSITION)
        last_offset = _claimed_last_offset(view)
        return _with_records(*read_batch_body(view))
    except CorruptRecordBatch as error:
        return CorruptBatch(
            base_offset=base_offset,
            last_offset=last_offset,
            size_bytes=len(view),
            reason=error.message,
            raw=bytes(view),
        )


def _read_legacy_batch(view: memoryview) -> RecordBatch:
    entry = read_message_set_entry(view)
    last_offset = int.from_bytes(view[:8], "big", signed=True)
    if last_offset < 0:
        raise CorruptRecordBatch(f"impossible offset {last_offset}", position=0)
    messages = entry.messages
    return RecordBatch(
        base_offset=messages[0].record_offset,
        last_offset=last_offset,
        size_bytes=len(view),
        magic=entry.magic,
        compression=entry.compression,
        is_log_append_time=entry.is_log_append_time,
        base_timestamp_ms=messages[0].timestamp_ms,
        max_timestamp_ms=max(message.timestamp_ms for message in messages),
        records_count=len(messages),
        records=messages,
    )


def _claimed_last_offset(view: memoryview) -> int | None:
    base_offset, *_, last_offset_delta = struct.unpack_from(">qiibIhi", view)
    if last_offset_delta < 0 or not 0 <= base_offset <= MAX_BASE_OFFSET:
        return None
    return int(base_offset + last_offset_delta)


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
            reason = f"{len(body) - position} bytes behind the last record"
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
