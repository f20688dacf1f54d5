"""Record batches of Kafka's own classes, and what is read of them.

`golden/record_batches.json` has what `MemoryRecords.builder(buffer, magic,
Compression.of(type).build(), CREATE_TIME, 100)` of kafka-clients 4.2.0 writes for three appends,
and a marker of `MemoryRecords.withEndTransactionMarker`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from crc32c import crc32c

from coordinator_state.log.record_batch import (
    LOG_APPEND_TIME_FLAG,
    CorruptBatch,
    RecordBatch,
    read_record_batches,
)
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.wire.compression import COMPRESSIONS, compress
from coordinator_state.wire.primitives import write_int64, write_nullable_bytes

_GOLDEN = Path(__file__).parents[2] / "golden" / "record_batches.json"
*_BATCHES, _MARKER = json.loads(_GOLDEN.read_text())
KAFKA: dict[tuple[int, str], str] = {
    (batch["magic"], batch["compression"]): batch["raw"] for batch in _BATCHES
}
"""The batches in hex, by magic and compression."""
KAFKA_MARKER: str = _MARKER["raw"]
MESSAGES: list[tuple[int, int, bytes | None, bytes | None]] = [
    (100, 1000, b"k0", b"v0"),
    (101, 1005, None, b"v1"),
    (102, 1003, b"k2", None),
]
DELTAS = [(offset - 100, timestamp_ms, key, value) for offset, timestamp_ms, key, value in MESSAGES]


def records_of(raw: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    records = []
    for batch in read_record_batches(raw):
        assert isinstance(batch, RecordBatch)
        assert batch.remainder is None
        records += [(r.record_offset, r.timestamp_ms, r.key, r.value) for r in batch.records]
    return records


def only(raw: bytes) -> RecordBatch | CorruptBatch:
    (batch,) = read_record_batches(raw)
    return batch


def only_good(raw: bytes) -> RecordBatch:
    batch = only(raw)
    assert isinstance(batch, RecordBatch), batch
    return batch


def only_corrupt(raw: bytes) -> CorruptBatch:
    batch = only(raw)
    assert isinstance(batch, CorruptBatch), batch
    assert batch.raw == raw
    assert batch.size_bytes == len(raw)
    return batch


def changed(raw: bytes, position: int, layout: str, value: int, *, reseal: bool = False) -> bytes:
    """The batch with one field changed; `reseal` makes the checksum right again."""
    out = bytearray(raw)
    struct.pack_into(layout, out, position, value)
    if reseal:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def with_body(body: bytes) -> bytes:
    """A batch whose records are these bytes, with a wrong count of records and checksum."""
    raw = write_record_batch(0, [], leader_epoch=0)
    raw = changed(raw, 27, ">q", 0)
    return changed(raw, 8, ">i", 49 + len(body)) + body


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
