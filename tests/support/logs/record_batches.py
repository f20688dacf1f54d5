"""Message sets of the formats before Kafka 0.11, and batches that are damaged."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from coordinator_state.log.record_batch import (
    LOG_APPEND_TIME_FLAG,
    CorruptBatch,
    read_record_batches,
)
from coordinator_state.wire.compression import COMPRESSIONS, compress
from coordinator_state.wire.primitives import write_int64, write_nullable_bytes


def only_corrupt(raw: bytes) -> CorruptBatch:
    (batch,) = read_record_batches(raw)
    assert isinstance(batch, CorruptBatch), batch
    assert batch.raw == raw
    assert batch.size_bytes == len(raw)
    return batch


def write_message_set(
    messages: Sequence[tuple[int, int, bytes | None, bytes | None]],
    *,
    magic: int,
    compression: str = "none",
    is_log_append_time: bool = False,
) -> bytes:
    """Write messages of (offset, timestamp_ms, key, value); compressed, they are one wrapper.

    Magic 0 has no timestamps.

    Raises:
        EncodeError: this message format does not support the compression.
    """
    attributes = LOG_APPEND_TIME_FLAG if is_log_append_time and magic > 0 else 0
    if compression == "none":
        return b"".join(_write_entry(message, magic, attributes) for message in messages)
    first_offset = messages[0][0] if magic > 0 else 0
    inner = b"".join(
        _write_entry((offset - first_offset, timestamp_ms, key, value), magic, 0)
        for offset, timestamp_ms, key, value in messages
    )
    wrapper = (
        messages[-1][0],
        max(timestamp_ms for _, timestamp_ms, _, _ in messages),
        None,
        compress(compression, inner, magic=magic),
    )
    return _write_entry(wrapper, magic, attributes | COMPRESSIONS.index(compression))


def _write_entry(
    message: tuple[int, int, bytes | None, bytes | None], magic: int, attributes: int
) -> bytes:
    offset, timestamp_ms, key, value = message
    body = bytearray(struct.pack(">bb", magic, attributes))
    if magic > 0:
        write_int64(body, timestamp_ms)
    write_nullable_bytes(body, key)
    write_nullable_bytes(body, value)
    checksum = struct.pack(">I", zlib.crc32(body))
    return struct.pack(">qi", offset, len(body) + 4) + checksum + bytes(body)
