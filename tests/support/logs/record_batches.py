"""Record batches of Kafka's own classes, and what is read of them.

The vectors are what `MemoryRecords.builder(buffer, magic, Compression.of(type).build(),
CREATE_TIME, 100)` of kafka-clients 4.2.0 writes for three appends, and
`MemoryRecords.withEndTransactionMarker`.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from coordinator_state.log.record_batch import CorruptBatch, RecordBatch, read_record_batches
from coordinator_state.log.record_batch_writer import write_record_batch

KAFKA = {
    (0, "none"): (
        "0000000000000064000000128697724c0000000000026b3000000002763000000000000000650000001"
        "04c9f5bc20000ffffffff0000000276310000000000000066000000108b23e3da0000000000026b32ff"
        "ffffff"
    ),
    (0, "gzip"): (
        "0000000000000066000000550a34068e0001ffffffff000000471f8b08000000000000ff636000831420"
        "166a9b5ee403e631651b80c832038824432a100bf8cc8f3ec4c0f01f08c0728650b934905cb7f2e35b50"
        "9d462015005dd0fa7756000000"
    ),
    (0, "snappy"): (
        "00000000000000660000006db612b9f20002ffffffff0000005f82534e41505059000000000100000001"
        "0000004b56000009012064000000128697724c050f1c026b300000000276010601013865000000104c9f"
        "5bc20000ffffffff051c04310009015066000000108b23e3da0000000000026b32ffffffff"
    ),
    (0, "lz4"): (
        "00000000000000660000006813d1ad4c0003ffffffff0000005a04224d1860401a4b0000001200010091"
        "64000000128697724c0f0080026b3000000002760600000200f10065000000104c9f5bc20000ffffffff"
        "1c001031190040000000661c00418b23e3da0e0070026b32ffffffff00000000"
    ),
    (1, "none"): (
        "00000000000000640000001a60d6d754010000000000000003e8000000026b3000000002763000000000"
        "0000006500000018c6c70136010000000000000003edffffffff00000002763100000000000000660000"
        "0018e9ce736d010000000000000003eb000000026b32ffffffff"
    ),
    (1, "gzip"): (
        "000000000000006600000063bbc56cb2010100000000000003edffffffff0000004d1f8b080000000000"
        "00ff63608003a9846bd74318a11ce617408229db004496194005419212c78e339ac155bdfd0f04603586"
        "502126909a97e78a73e16a5e834d3202a90400398e64656e000000"
    ),
    (1, "snappy"): (
        "00000000000000660000007b6eded61a010200000000000003edffffffff0000006582534e4150505900"
        "00000001000000010000005"
        "16e00001901141a60d6d754010d101c03e8000000026b300106007601060101011d1018c6c7013601090"
        "1011403edffffffff052400310110010a1c00000018e9ce736d152428eb000000026b32ffffffff"
    ),
    (1, "lz4"): (
        "0000000000000066000000797ce89e0a010300000000000003edffffffff0000006304224d1860408254"
        "00000016000100631a60d6d7540110008003e8000000026b30060010760600000200001d005018c6c701"
        "3609000002006103edffffffff240010311000000a008500000018e9ce736d2400b0eb000000026b32ff"
        "ffffff00000000"
    ),
    (2, "none"): (
        "00000000000000640000004effffffff02fc54d22800000000000200000000000003e800000000000003"
        "edffffffffffffffffffffffffffff0000000314000000046b300476300010000a020104763100100006"
        "04046b320100"
    ),
    (2, "gzip"): (
        "000000000000006400000060ffffffff022c57410500010000000200000000000003e800000000000003"
        "edffffffffffffffffffffffffffff000000031f8b08000000000000ff1361606060c936602933601060"
        "e062626429330432d85858b28d18190004e3cb761d000000"
    ),
    (2, "snappy"): (
        "000000000000006400000064ffffffff020baecaa000020000000200000000000003e800000000000003"
        "edffffffffffffffffffffffffffff0000000382534e415050590000000001000000010000001f1d7014"
        "000000046b300476300010000a02010476310010000604046b320100"
    ),
    (2, "lz4"): (
        "00000000000000640000005dffffffff02f614fb1300030000000200000000000003e800000000000003"
        "edffffffffffffffffffffffffffff0000000304224d186040821d00008014000000046b300476300010"
        "000a02010476310010000604046b32010000000000"
    ),
    (2, "zstd"): (
        "00000000000000640000005affffffff027c78066500040000000200000000000003e800000000000003"
        "edffffffffffffffffffffffffffff0000000328b52ffd0058e8000014000000046b300476300010000a"
        "02010476310010000604046b320100010000"
    ),
}
KAFKA_MARKER = (
    "000000000000000700000042000000030259fc5369003000000000000000000000002a000000000000002a0000"
    "00000000004d0005ffffffff000000012000000008000000010c00000000000900"
)
MESSAGES: list[tuple[int, int, bytes | None, bytes | None]] = [
    (100, 1000, b"k0", b"v0"),
    (101, 1005, None, b"v1"),
    (102, 1003, b"k2", None),
]
DELTAS = [(offset - 100, timestamp_ms, key, value) for offset, timestamp_ms, key, value in MESSAGES]


def records_of(raw: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = []
    for batch in read_record_batches(raw):
        assert isinstance(batch, RecordBatch)
        assert batch.remainder is None
        found += [(r.record_offset, r.timestamp_ms, r.key, r.value) for r in batch.records]
    return found


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
