"""Record batches and message sets: bytes of Kafka's own classes, read, written and damaged.

`golden/record_batches.json` has what `MemoryRecords.builder(buffer, magic,
Compression.of(type).build(), CREATE_TIME, 100)` of kafka-clients 4.2.0 writes for three appends,
and a marker of `MemoryRecords.withEndTransactionMarker`.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from coordinator_state.log.record import NO_TIMESTAMP, Record
from coordinator_state.log.record_batch import (
    CorruptBatch,
    RecordBatch,
    read_batch_header,
    read_record_batches,
)
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.wire.compression import COMPRESSIONS, compress
from tests.support.logs.record_batches import only_corrupt, write_message_set

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


def only_good(raw: bytes) -> RecordBatch:
    (batch,) = read_record_batches(raw)
    assert isinstance(batch, RecordBatch), batch
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


class TestKafkasOwnBytes:
    @pytest.mark.parametrize(("magic", "compression"), KAFKA)
    def test_are_read(self, magic: int, compression: str) -> None:
        raw = bytes.fromhex(KAFKA[magic, compression])
        expected = [
            (offset, timestamp_ms if magic else NO_TIMESTAMP, key, value)
            for offset, timestamp_ms, key, value in MESSAGES
        ]
        assert records_of(raw) == expected
        for batch in read_record_batches(raw):
            assert isinstance(batch, RecordBatch)
            assert (batch.magic, batch.compression) == (magic, compression)
            assert batch.producer_id == -1
            assert not batch.is_transactional

    @pytest.mark.parametrize("compression", ["none", "snappy", "lz4"])
    def test_are_what_is_written_for_magic_2(self, compression: str) -> None:
        written = write_record_batch(100, DELTAS, compression=compression, leader_epoch=-1)
        assert written.hex() == KAFKA[2, compression]

    def test_marker(self) -> None:
        raw = bytes.fromhex(KAFKA_MARKER)
        assert raw == write_control_batch(
            7, 77, 5, 1, timestamp_ms=42, coordinator_epoch=9, leader_epoch=3
        )
        batch = only_good(raw)
        assert (batch.is_control, batch.is_transactional) == (True, True)
        assert (batch.producer_id, batch.producer_epoch, batch.leader_epoch) == (77, 5, 3)
        assert batch.records == (
            Record(record_offset=7, timestamp_ms=42, key=b"\0\0\0\1", value=b"\0\0\0\0\0\x09"),
        )


class TestRecordBatch:
    """`property/test_kernel.py` compares timestamps, gaps and headers with another reader."""

    @pytest.mark.parametrize("compression", COMPRESSIONS)
    def test_round_trip(self, compression: str) -> None:
        records = [(i * 3, 10_000 - i, b"k%d" % i, bytes(i)) for i in range(300)]
        producer: dict[str, Any] = {
            **{"producer_id": 2**40, "producer_epoch": 7, "base_sequence": 9},
            **{"is_transactional": True, "compression": compression, "leader_epoch": 4},
        }
        raw = write_record_batch(50, records, **producer)
        batch = only_good(raw)
        assert [
            (r.record_offset - 50, r.timestamp_ms, r.key, r.value) for r in batch.records
        ] == records
        assert replace(batch, records=()) == RecordBatch(
            base_offset=50,
            last_offset=50 + 299 * 3,
            size_bytes=len(raw),
            base_timestamp_ms=10_000,
            max_timestamp_ms=10_000,
            records_count=300,
            **producer,
        )
        assert read_batch_header(memoryview(raw)[:61]) == replace(batch, records=())

    def test_delete_horizon_stands_where_the_base_timestamp_was(self) -> None:
        batch = only_good(write_record_batch(0, DELTAS, delete_horizon_ms=5_000_000))
        assert (batch.has_delete_horizon, batch.base_timestamp_ms) == (True, 5_000_000)
        assert [record.timestamp_ms for record in batch.records] == [1000, 1005, 1003]

    def test_empty_batch_keeps_its_offsets(self) -> None:
        raw = write_record_batch(5, [], last_offset_delta=9, producer_id=3, compression="zstd")
        batch = only_good(raw)
        assert (batch.base_offset, batch.last_offset, batch.records_count) == (5, 14, 0)
        assert (batch.records, batch.compression, batch.producer_id) == ((), "none", 3)


class TestReading:
    def test_goes_through_batches_of_every_magic(self) -> None:
        raw = b""
        for number, (magic, compression) in enumerate(KAFKA):
            first = 10 * number
            messages = [(first + delta, at, key, value) for delta, at, key, value in DELTAS]
            if magic < 2:
                raw += write_message_set(messages, magic=magic, compression=compression)
            else:
                raw += write_record_batch(first, DELTAS, compression=compression)
        assert len(records_of(raw)) == 3 * len(KAFKA)
        assert sum(batch.size_bytes for batch in read_record_batches(raw)) == len(raw)

    def test_leaves_a_cut_batch_at_the_end_alone(self) -> None:
        whole = write_record_batch(0, DELTAS)
        following = write_record_batch(3, DELTAS)
        for size in range(len(following)):
            batches = list(read_record_batches(whole + following[:size]))
            assert [batch.base_offset for batch in batches] == [0]
            assert sum(batch.size_bytes for batch in batches) == len(whole)


class TestCorruptBatch:
    good = write_record_batch(10, DELTAS)
    following = write_record_batch(13, DELTAS)

    def read_with_following(self, raw: bytes) -> CorruptBatch:
        """Reading goes on behind the corrupt batch, which tells how far it reaches."""
        corrupt, good = read_record_batches(raw + self.following)
        assert isinstance(good, RecordBatch)
        assert good.base_offset == 13
        assert isinstance(corrupt, CorruptBatch)
        assert corrupt.last_offset == 12
        assert corrupt.raw == raw
        return corrupt

    def test_wrong_checksum(self) -> None:
        corrupt = self.read_with_following(changed(self.good, 70, ">b", 99))
        assert corrupt.reason.startswith("CRC-32C is 0x")
        assert corrupt.base_offset == 10

    @pytest.mark.parametrize("last_offset_delta", [-1, 0, 500, 2**31 - 1])
    def test_a_header_with_a_wrong_checksum_is_not_believed(self, last_offset_delta: int) -> None:
        raw = changed(self.good, 23, ">i", last_offset_delta)
        self.read_with_following(raw)
        assert only_corrupt(raw).last_offset is None

    @pytest.mark.parametrize(
        ("position", "layout", "value", "reason"),
        [
            (23, ">i", -1, "negative last offset delta -1"),
            (57, ">i", -3, "negative records count -3"),
            (21, ">h", 5, "unknown compression type 5"),
            (0, ">q", -1, "impossible base offset -1"),
            (0, ">q", 2**63 - 1, f"impossible base offset {2**63 - 1}"),
            (16, ">b", 3, "unknown magic 3"),
            (16, ">b", -1, "unknown magic 255"),
        ],
    )
    def test_header_without_sense(
        self, position: int, layout: str, value: int, reason: str
    ) -> None:
        raw = changed(self.good, position, layout, value, reseal=True)
        assert self.read_with_following(raw).reason == reason

    @pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
    def test_impossible_length(self, length: int) -> None:
        raw = changed(self.good, 8, ">i", length)
        assert self.read_with_following(raw).reason == f"impossible batch length {length}"

    @pytest.mark.parametrize("length", [50, 77, 79, 100, 168, 200])
    def test_a_wrong_length_hides_no_sound_batch(self, length: int) -> None:
        """Those of two batches together, among others."""
        assert len(self.good) - 12 + len(self.following) == 168
        self.read_with_following(changed(self.good, 8, ">i", length))
        corrupt, *good = read_record_batches(
            changed(self.good, 8, ">i", length)
            + self.following
            + write_record_batch(16, DELTAS)
            + write_record_batch(19, DELTAS)
        )
        assert corrupt.last_offset == 12
        assert [batch.base_offset for batch in good] == [13, 16, 19]

    def test_a_batch_within_a_record_is_no_batch_of_the_log(self) -> None:
        """Whoever writes a record could otherwise put any others behind a corrupt batch."""
        within = write_record_batch(11, [(0, 0, b"forged", b"x")])
        for forged in (within, within + write_record_batch(12, [(0, 0, b"forged", b"y")])):
            raw = changed(write_record_batch(10, [(0, 0, b"k", forged)]), 62, ">b", 77)
            corrupt, good = read_record_batches(raw + self.following)
            assert corrupt.last_offset == good.base_offset - 1 == 12

    def test_impossible_length_of_an_older_message(self) -> None:
        raw = changed(write_message_set(MESSAGES[:1], magic=1), 8, ">i", 21)
        assert only_corrupt(raw).reason == "impossible batch length 21"
        corrupt, *good = read_record_batches(raw + write_message_set(MESSAGES[1:], magic=1))
        assert corrupt.last_offset == 100
        assert [batch.base_offset for batch in good] == [101, 102]

    @pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
    def test_broken_compressed_stream(self, compression: str) -> None:
        raw = write_record_batch(10, DELTAS, compression=compression)
        corrupt = self.read_with_following(changed(raw, 61, ">q", 0, reseal=True))
        assert corrupt.reason.startswith(f"{compression}: ")


class TestRemainder:
    @pytest.mark.parametrize("compression", COMPRESSIONS)
    def test_records_before_a_broken_one_are_good(self, compression: str) -> None:
        raw = write_record_batch(0, [(0, 0, b"k", b"v"), (5, 0, b"k", b"w"), (7, 0, b"k", b"x")])
        body = raw[61:]
        broken = len(body) // 3
        damaged = body[:broken] + b"\x7f" + body[broken + 1 :]
        payload = compress(compression, damaged)
        header = changed(raw[:61], 8, ">i", 49 + len(payload))
        header = changed(header, 21, ">h", COMPRESSIONS.index(compression))
        batch = only_good(changed(header + payload, 57, ">i", 3, reseal=True))
        assert [record.record_offset for record in batch.records] == [0]
        assert batch.remainder == CorruptBatch(
            base_offset=1,
            last_offset=7,
            size_bytes=len(body) - broken,
            reason="record 1 of 3: length -64, 17 bytes left",
            raw=damaged[broken:],
        )

    @pytest.mark.parametrize(
        ("count", "good", "base_offset", "reason"),
        [
            # Not beyond the batch: the offset after its last one may be another batch's.
            (2**31 - 1, 3, 12, "record 3 of 2147483647: incomplete varint"),
            (1, 1, 11, "18 bytes after the last record"),
        ],
    )
    def test_a_wrong_count_of_records(
        self, count: int, good: int, base_offset: int, reason: str
    ) -> None:
        batch = only_good(changed(write_record_batch(10, DELTAS), 57, ">i", count, reseal=True))
        assert len(batch.records) == good
        assert batch.remainder is not None
        assert (batch.remainder.base_offset, batch.remainder.reason) == (base_offset, reason)

    @pytest.mark.parametrize(
        ("record", "reason"),
        [
            ("", "incomplete varint"),
            ("01", "length -1, 0 bytes left"),
            ("14 00", "length 10, 1 bytes left"),
            ("ffffffffff0f", "varint longer than 5 bytes"),
            ("00", "1 bytes needed, 0 left"),
            ("0e 00 00 00 01 01 00 00", "length 7, 6 bytes used"),
            ("0c 00 00 00 02 6b 00", "incomplete varint"),
            ("0c 00 00 00 7e 01 00", "63 bytes needed, 2 left"),
            ("0c 00 00 00 01 01 01", "negative header count -1"),
            ("0e 00 00 00 01 01 02 01", "record header without a key"),
        ],
    )
    def test_broken_first_record(self, record: str, reason: str) -> None:
        raw = changed(with_body(bytes.fromhex(record)), 57, ">i", 1, reseal=True)
        batch = only_good(raw)
        assert batch.records == ()
        assert batch.remainder is not None
        assert batch.remainder.reason == f"record 0 of 1: {reason}"


class TestMessageSet:
    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4"])
    def test_round_trip_with_gaps(self, magic: int, compression: str) -> None:
        messages = [
            (1000 + 7 * i, 5000 + i if magic else NO_TIMESTAMP, b"k%d" % i, bytes(500))
            for i in range(200)
        ]
        raw = write_message_set(messages, magic=magic, compression=compression)
        assert records_of(raw) == messages
        batches = list(read_record_batches(raw))
        assert len(batches) == (200 if compression == "none" else 1)
        assert (batches[0].base_offset, batches[-1].last_offset) == (1000, 1000 + 7 * 199)

    def test_log_append_time_of_a_wrapper_is_that_of_all_inside(self) -> None:
        raw = write_message_set(MESSAGES, magic=1, compression="gzip", is_log_append_time=True)
        assert [timestamp_ms for _, timestamp_ms, _, _ in records_of(raw)] == [1005, 1005, 1005]

    def test_wrong_checksum(self) -> None:
        raw = bytes.fromhex(KAFKA[1, "none"])
        corrupt, *good = read_record_batches(changed(raw, 30, ">b", 99))
        assert isinstance(corrupt, CorruptBatch)
        assert corrupt.reason == "CRC-32 is 0xb333cce1, not 0x60d6d754"
        assert (corrupt.base_offset, corrupt.last_offset) == (100, 100)
        assert [batch.base_offset for batch in good] == [101, 102]

    @pytest.mark.parametrize(
        ("message", "reason"),
        [
            ("00 00 ffffffff 00000005 6b", "message: 5 bytes needed, 1 left"),
            ("00 00 ffffffff ffffffff 6b", "message of 15 bytes ends at byte 14"),
            ("00 05 ffffffff ffffffff", "unknown compression type 5"),
            ("00 01 ffffffff ffffffff", "compressed message without a value"),
            ("00 04 ffffffff 00000001 6b", "message format 0 does not support zstd"),
            ("00 01 ffffffff 00000001 6b", "gzip: "),
            ("00 03 ffffffff 00000001 6b", "lz4: "),
        ],
    )
    def test_broken_message(self, message: str, reason: str) -> None:
        assert only_corrupt(entry(5, bytes.fromhex(message))).reason.startswith(reason)

    @pytest.mark.parametrize(
        ("magic", "inside", "reason"),
        [
            (0, b"", "compressed message without inner messages"),
            (0, struct.pack(">qi", 0, 3), "message of 3 bytes inside a wrapper"),
            (0, bytes.fromhex(KAFKA[1, "none"]), "magic 1 inside a wrapper of magic 0"),
            (0, bytes.fromhex(KAFKA[0, "gzip"]), "compressed message inside a compressed one"),
            (
                0,
                bytes.fromhex(KAFKA[0, "none"]),
                "offset inside a wrapper is negative or larger than the wrapper's",
            ),
            (1, changed(bytes.fromhex(KAFKA[1, "none"]), 30, ">b", 9), "CRC-32 is 0x"),
            (
                1,
                struct.pack(">qi", 0, 14) + bytes.fromhex("20d0b8e401") + bytes(9),
                "message of 14",
            ),
        ],
    )
    def test_broken_inside_a_wrapper(self, magic: int, inside: bytes, reason: str) -> None:
        packed = gzip.compress(inside)
        timestamp = bytes(8) if magic else b""
        message = bytes([magic, 1]) + timestamp + struct.pack(">ii", -1, len(packed)) + packed
        corrupt = only_corrupt(entry(5, message))
        assert corrupt.reason.startswith(reason)
        assert (corrupt.base_offset, corrupt.last_offset) == (5, 5)

    def test_message_cut_at_the_end_of_a_wrapper_is_left_out(self) -> None:
        packed = gzip.compress(bytes.fromhex(KAFKA[0, "none"])[:-1])
        message = b"\x00\x01" + struct.pack(">ii", -1, len(packed)) + packed
        batch = only_good(entry(200, message))
        assert [record.record_offset for record in batch.records] == [100, 101]

    def test_negative_offset(self) -> None:
        raw = changed(write_message_set(MESSAGES[:1], magic=0), 0, ">q", -5)
        assert only_corrupt(raw).reason == "impossible offset -5"


def entry(offset: int, message: bytes) -> bytes:
    """An entry of a message set; `message` begins behind its checksum."""
    return struct.pack(">qiI", offset, len(message) + 4, zlib.crc32(message)) + message
