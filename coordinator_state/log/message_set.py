"""Message sets, the format before Kafka 0.11 introduced record batches (magic 0 and 1).

An entry is an int64 offset, an int32 size and a message. A message is the CRC-32 of the bytes after
it, magic, attributes, in magic 1 a timestamp, then key and value with an int32 length each, -1 for
null.

A compressed message is a wrapper. Its value is a message set; its offset is the offset of the last
inner message. Inner offsets are absolute in magic 0 and relative in magic 1 (KIP-31). With log
append time the wrapper's timestamp applies to all inner messages (KIP-32).

Message sets have no producer ids and no control records. Compacted logs of old clusters still have
such entries.

Source: clients/src/main/java/org/apache/kafka/common/record/LegacyRecord.java and
AbstractLegacyRecordBatch.java at 3.9.1.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from coordinator_state.errors import CorruptRecordBatch, DecodeError
from coordinator_state.log.record import NO_TIMESTAMP, Record
from coordinator_state.wire.compression import compression_name, decompress
from coordinator_state.wire.primitives import (
    read_exactly,
    read_int64,
    read_nullable_bytes,
)

MESSAGE_OVERHEAD_BYTES: Final = {0: 14, 1: 22}
"""The minimum size of a message by magic: all fields except key and value."""

_ENTRY_HEADER: Final = struct.Struct(">qi")
_MESSAGE_HEADER: Final = struct.Struct(">Ibb")
_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME_FLAG: Final = 0x08


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSetEntry:
    """One entry of the outer message set, with its uncompressed messages."""

    magic: int
    compression: str
    is_log_append_time: bool
    messages: tuple[Record, ...]


def read_message_set_entry(view: memoryview) -> MessageSetEntry:
    """Read one whole entry, wrapper or not.

    One invalid inner message makes the whole wrapper corrupt, as in a broker: inner offsets are
    known only after the last message was read.

    Raises:
        CorruptRecordBatch: the checksum, a length, the compression or an inner message is invalid.
    """
    offset, _ = _ENTRY_HEADER.unpack_from(view)
    message = view[_ENTRY_HEADER.size :]
    magic, attributes = _check_message(message)
    is_log_append_time = magic > 0 and bool(attributes & _LOG_APPEND_TIME_FLAG)
    compression = compression_name(attributes & _COMPRESSION_MASK)
    wrapper = _read_message(message, magic, offset)
    messages: tuple[Record, ...] = (wrapper,)
    if compression != "none":
        messages = _read_inner_messages(wrapper, magic, compression, is_log_append_time)
    return MessageSetEntry(
        magic=magic,
        compression=compression,
        is_log_append_time=is_log_append_time,
        messages=messages,
    )


def _check_message(message: memoryview) -> tuple[int, int]:
    """Verify the checksum of a complete message; return its magic and attributes."""
    crc, magic, attributes = _MESSAGE_HEADER.unpack_from(message)
    if len(message) < MESSAGE_OVERHEAD_BYTES.get(magic, 0):
        raise CorruptRecordBatch(f"message of {len(message)} bytes", position=0)
    actual = zlib.crc32(message[4:])
    if actual != crc:
        raise CorruptRecordBatch(f"CRC-32 is {actual:#010x}, not {crc:#010x}", position=0)
    return magic, attributes


def _read_message(message: memoryview, magic: int, offset: int) -> Record:
    position = _MESSAGE_HEADER.size
    timestamp_ms = NO_TIMESTAMP
    try:
        if magic > 0:
            timestamp_ms, position = read_int64(message, position)
        key, position = read_nullable_bytes(message, position)
        value, position = read_nullable_bytes(message, position)
    except DecodeError as error:
        raise CorruptRecordBatch(f"message: {error.message}", position=error.position) from error
    if position != len(message):
        raise CorruptRecordBatch(
            f"message of {len(message)} bytes ends at byte {position}", position=position
        )
    return Record(record_offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)


def _read_inner_messages(
    wrapper: Record, magic: int, compression: str, is_log_append_time: bool
) -> tuple[Record, ...]:
    if wrapper.value is None:
        raise CorruptRecordBatch("compressed message without a value", position=0)
    view = memoryview(decompress(compression, wrapper.value, magic=magic))
    messages: list[Record] = []
    position = 0
    # An incomplete last message is ignored; `DataLogInputStream` takes it as the end, too.
    while position + _ENTRY_HEADER.size <= len(view):
        offset, size = _ENTRY_HEADER.unpack_from(view, position)
        position += _ENTRY_HEADER.size
        if size < MESSAGE_OVERHEAD_BYTES[0]:
            raise CorruptRecordBatch(f"message of {size} bytes inside a wrapper", position=position)
        if position + size > len(view):
            break
        message, position = read_exactly(view, position, size)
        messages.append(_read_inner_message(memoryview(message), magic, offset))
    if not messages:
        raise CorruptRecordBatch("compressed message without inner messages", position=0)
    shift = wrapper.record_offset - messages[-1].record_offset if magic > 0 else 0
    placed = tuple(
        Record(
            record_offset=message.record_offset + shift,
            timestamp_ms=wrapper.timestamp_ms if is_log_append_time else message.timestamp_ms,
            key=message.key,
            value=message.value,
        )
        for message in messages
    )
    if not all(0 <= message.record_offset <= wrapper.record_offset for message in placed):
        raise CorruptRecordBatch(
            "offset inside a wrapper is negative or larger than the wrapper's", position=0
        )
    return placed


def _read_inner_message(message: memoryview, wrapper_magic: int, offset: int) -> Record:
    magic, attributes = _check_message(message)
    if magic != wrapper_magic:
        raise CorruptRecordBatch(
            f"magic {magic} inside a wrapper of magic {wrapper_magic}", position=0
        )
    if attributes & _COMPRESSION_MASK:
        raise CorruptRecordBatch("compressed message inside a compressed one", position=0)
    return _read_message(message, magic, offset)
