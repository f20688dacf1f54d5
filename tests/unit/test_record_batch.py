"""Record batches and message sets: bytes of Kafka's own classes, and all that can be wrong.

The vectors are what `MemoryRecords.builder(buffer, magic, Compression.of(type).build(),
CREATE_TIME, 100)` of kafka-clients 4.2.0 writes for three appends, and
`MemoryRecords.withEndTransactionMarker`.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import replace

import cramjam
import pytest
from crc32c import crc32c

from coordinator_state.compression import (
    COMPRESSIONS,
    MAX_DECOMPRESSED_BYTES,
    compress,
    compression_name,
    decompress,
)
from coordinator_state.errors import CorruptRecordBatch, EncodeError
from coordinator_state.record import NO_TIMESTAMP, Record
from coordinator_state.record_batch import (
    CorruptBatch,
    RecordBatch,
    read_batch_header,
    read_record_batches,
    write_control_batch,
    write_message_set,
    write_record_batch,
)

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

    @pytest.mark.parametrize(
        ("magic", "compression"), [(0, "none"), (1, "none"), (1, "snappy"), (0, "lz4"), (1, "lz4")]
    )
    def test_are_what_is_written_for_older_magic(self, magic: int, compression: str) -> None:
        raw = bytes.fromhex(KAFKA[magic, compression])
        written = write_message_set(MESSAGES, magic=magic, compression=compression)
        if compression == "lz4":
            # Two encoders choose other matches; the frame header, checksum and all, is the same.
            start = raw.index(b"\x04\x22\x4d\x18")
            assert written[start : start + 7] == raw[start : start + 7]
            assert records_of(written) == records_of(raw)
        else:
            assert written == raw

    def test_marker(self) -> None:
        raw = bytes.fromhex(KAFKA_MARKER)
        written = write_control_batch(
            7, 77, 5, 1, timestamp_ms=42, coordinator_epoch=9, leader_epoch=3
        )
        assert written == raw
        batch = only_good(raw)
        assert batch.is_control
        assert batch.is_transactional
        assert (batch.producer_id, batch.producer_epoch, batch.leader_epoch) == (77, 5, 3)
        assert batch.records == (
            Record(record_offset=7, timestamp_ms=42, key=b"\0\0\0\1", value=b"\0\0\0\0\0\x09"),
        )


class TestRecordBatch:
    @pytest.mark.parametrize("compression", COMPRESSIONS)
    def test_round_trip(self, compression: str) -> None:
        records = [(i * 3, 10_000 - i, b"k%d" % i, bytes(i)) for i in range(300)]
        raw = write_record_batch(
            50,
            records,
            producer_id=2**40,
            producer_epoch=7,
            base_sequence=9,
            is_transactional=True,
            compression=compression,
            leader_epoch=4,
        )
        batch = only_good(raw)
        assert [
            (r.record_offset - 50, r.timestamp_ms, r.key, r.value) for r in batch.records
        ] == records
        assert replace(batch, records=()) == RecordBatch(
            base_offset=50,
            last_offset=50 + 299 * 3,
            size_bytes=len(raw),
            compression=compression,
            leader_epoch=4,
            is_transactional=True,
            base_timestamp_ms=10_000,
            max_timestamp_ms=10_000,
            producer_id=2**40,
            producer_epoch=7,
            base_sequence=9,
            records_count=300,
        )

    def test_log_append_time_is_the_time_of_every_record(self) -> None:
        raw = write_record_batch(0, DELTAS, is_log_append_time=True, max_timestamp_ms=77)
        assert [timestamp_ms for _, timestamp_ms, _, _ in records_of(raw)] == [77, 77, 77]

    def test_delete_horizon_stands_where_the_base_timestamp_was(self) -> None:
        raw = write_record_batch(0, DELTAS, delete_horizon_ms=5_000_000)
        batch = only_good(raw)
        assert batch.has_delete_horizon
        assert batch.base_timestamp_ms == 5_000_000
        assert [record.timestamp_ms for record in batch.records] == [1000, 1005, 1003]

    def test_timestamps_wrap_as_in_java(self) -> None:
        raw = write_record_batch(0, [(0, 2**63 - 1, b"k", None), (1, -(2**63), b"k", None)])
        assert [r[1] for r in records_of(raw)] == [2**63 - 1, -(2**63)]

    def test_empty_batch_keeps_its_offsets(self) -> None:
        raw = write_record_batch(5, [], last_offset_delta=9, producer_id=3, compression="zstd")
        batch = only_good(raw)
        assert (batch.base_offset, batch.last_offset, batch.records_count) == (5, 14, 0)
        assert (batch.records, batch.compression, batch.producer_id) == ((), "none", 3)

    def test_compaction_leaves_gaps(self) -> None:
        raw = write_record_batch(5, [(2, 0, b"k", None)], last_offset_delta=9)
        batch = only_good(raw)
        assert (batch.base_offset, batch.last_offset) == (5, 14)
        assert [record.record_offset for record in batch.records] == [7]

    def test_record_headers_are_passed(self) -> None:
        record = bytes.fromhex("14 00 00 00 02 6b 01 02 02 68 01")
        raw = changed(with_body(record), 57, ">i", 1, reseal=True)
        assert only_good(raw).records == (
            Record(record_offset=0, timestamp_ms=0, key=b"k", value=None),
        )

    def test_any_negative_length_is_null(self) -> None:
        record = bytes.fromhex("0c 00 00 00 05 03 00")
        raw = changed(with_body(record), 57, ">i", 1, reseal=True)
        assert only_good(raw).records == (
            Record(record_offset=0, timestamp_ms=0, key=None, value=None),
        )


def with_body(body: bytes) -> bytes:
    """A batch whose records are these bytes, with a wrong count of records and checksum."""
    raw = write_record_batch(0, [], leader_epoch=0)
    raw = changed(raw, 27, ">q", 0)
    return changed(raw, 8, ">i", 49 + len(body)) + body


class TestReading:
    def test_goes_through_batches_of_every_magic(self) -> None:
        raw = b"".join(map(bytes.fromhex, KAFKA.values()))
        assert len(records_of(raw)) == 3 * len(KAFKA)
        assert sum(batch.size_bytes for batch in read_record_batches(raw)) == len(raw)

    def test_leaves_a_cut_batch_at_the_end_alone(self) -> None:
        whole = write_record_batch(0, DELTAS)
        following = write_record_batch(3, DELTAS)
        for size in range(len(following)):
            batches = list(read_record_batches(whole + following[:size]))
            assert [batch.base_offset for batch in batches] == [0]
            assert sum(batch.size_bytes for batch in batches) == len(whole)

    def test_of_nothing(self) -> None:
        assert list(read_record_batches(b"")) == []

    def test_takes_any_buffer(self) -> None:
        raw = write_record_batch(0, DELTAS)
        assert list(read_record_batches(memoryview(bytearray(raw)))) == [only(raw)]


class TestCorruptBatch:
    good = write_record_batch(10, DELTAS)
    following = write_record_batch(13, DELTAS)

    def read_with_following(self, raw: bytes) -> CorruptBatch:
        """Reading goes on behind the corrupt batch."""
        corrupt, good = read_record_batches(raw + self.following)
        assert isinstance(good, RecordBatch)
        assert good.base_offset == 13
        assert isinstance(corrupt, CorruptBatch)
        assert corrupt == only_corrupt(raw)
        return corrupt

    def test_wrong_checksum(self) -> None:
        corrupt = self.read_with_following(changed(self.good, 70, ">b", 99))
        assert corrupt.reason.startswith("CRC-32C is 0x")
        assert (corrupt.base_offset, corrupt.last_offset) == (10, 12)

    def test_wrong_checksum_and_a_last_offset_before_the_first(self) -> None:
        corrupt = self.read_with_following(changed(self.good, 23, ">i", -1))
        assert corrupt.last_offset is None

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
    def test_impossible_length_takes_the_rest(self, length: int) -> None:
        raw = changed(self.good, 8, ">i", length) + self.following
        corrupt = only_corrupt(raw)
        assert corrupt.reason == f"impossible batch length {length}"
        assert (corrupt.base_offset, corrupt.last_offset) == (10, None)

    def test_impossible_length_of_an_older_message(self) -> None:
        raw = write_message_set(MESSAGES[:1], magic=1)
        corrupt = only_corrupt(changed(raw, 8, ">i", 21) + self.following)
        assert corrupt.reason == "impossible batch length 21"

    def test_length_alone(self) -> None:
        corrupt = only_corrupt(struct.pack(">qi", 3, 2))
        assert (corrupt.base_offset, corrupt.reason) == (3, "impossible batch length 2")

    @pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
    def test_broken_compressed_stream(self, compression: str) -> None:
        raw = write_record_batch(10, DELTAS, compression=compression)
        corrupt = self.read_with_following(changed(raw, 61, ">q", 0, reseal=True))
        assert corrupt.reason.startswith(f"{compression}: ")
        assert (corrupt.base_offset, corrupt.last_offset) == (10, 12)


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

    def test_more_records_announced_than_there_are(self) -> None:
        raw = changed(write_record_batch(10, DELTAS), 57, ">i", 2**31 - 1, reseal=True)
        batch = only_good(raw)
        assert len(batch.records) == 3
        assert batch.remainder is not None
        assert batch.remainder.reason == "record 3 of 2147483647: varint without an end"
        # Not beyond the batch: the offset after its last one may be another batch's.
        assert batch.remainder.base_offset == 12

    def test_bytes_behind_the_last_record(self) -> None:
        raw = changed(write_record_batch(10, DELTAS), 57, ">i", 1, reseal=True)
        batch = only_good(raw)
        assert [record.record_offset for record in batch.records] == [10]
        assert batch.remainder is not None
        assert batch.remainder.base_offset == 11
        assert batch.remainder.reason == f"{len(raw) - 61 - 11} bytes behind the last record"

    @pytest.mark.parametrize(
        ("record", "reason"),
        [
            ("", "varint without an end"),
            ("01", "length -1, 0 bytes left"),
            ("14 00", "length 10, 1 bytes left"),
            ("ffffffffff0f", "varint longer than 5 bytes"),
            ("00", "1 bytes needed, 0 left"),
            ("0e 00 00 00 01 01 00 00", "length 7, 6 bytes used"),
            ("0c 00 00 00 02 6b 00", "varint without an end"),
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
        assert batch.remainder.base_offset == 0


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
            ("00 04 ffffffff 00000001 6b", "zstd in message format 0"),
            ("00 01 ffffffff 00000001 6b", "gzip: "),
            ("00 03 ffffffff 00000001 6b", "lz4: "),
        ],
    )
    def test_broken_message(self, message: str, reason: str) -> None:
        assert only_corrupt(entry(5, bytes.fromhex(message))).reason.startswith(reason)

    @pytest.mark.parametrize(
        ("magic", "inside", "reason"),
        [
            (0, b"", "compressed message without messages inside"),
            (0, struct.pack(">qi", 0, 3), "message of 3 bytes inside a wrapper"),
            (0, bytes.fromhex(KAFKA[1, "none"]), "magic 1 inside a wrapper of magic 0"),
            (0, bytes.fromhex(KAFKA[0, "gzip"]), "compressed message inside a compressed one"),
            (
                0,
                bytes.fromhex(KAFKA[0, "none"]),
                "offset inside a wrapper beyond the wrapper's own",
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


class TestCompression:
    @pytest.mark.parametrize("compression", COMPRESSIONS)
    @pytest.mark.parametrize("size", [0, 1, 70_000])
    def test_round_trip(self, compression: str, size: int) -> None:
        data = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert decompress(compression, compress(compression, data)) == data

    @pytest.mark.parametrize("compression", COMPRESSIONS[1:])
    def test_bounds_what_it_makes(self, compression: str) -> None:
        packed = compress(compression, bytes(100_000))
        assert len(decompress(compression, packed, max_bytes=100_000)) == 100_000
        with pytest.raises(CorruptRecordBatch):
            decompress(compression, packed, max_bytes=99_999)

    def test_of_a_bomb_is_a_corrupt_batch(self) -> None:
        bomb = compress("zstd", bytes(MAX_DECOMPRESSED_BYTES + 1))
        raw = write_record_batch(0, DELTAS, compression="zstd")
        raw = changed(raw[:61], 8, ">i", 49 + len(bomb)) + bomb
        assert only_corrupt(changed(raw, 57, ">i", 3, reseal=True)).reason.startswith("zstd: ")

    def test_reads_snappy_without_xerial_framing(self) -> None:
        assert decompress("snappy", bytes(cramjam.snappy.compress_raw(b"abc" * 9))) == b"abc" * 9

    @pytest.mark.parametrize("block_length", [-1, 1000])
    def test_of_a_snappy_block_that_does_not_fit(self, block_length: int) -> None:
        packed = compress("snappy", b"abc")
        with pytest.raises(CorruptRecordBatch, match="snappy: block of"):
            decompress("snappy", packed[:16] + struct.pack(">i", block_length) + packed[20:])

    def test_reads_every_gzip_member_and_nothing_behind(self) -> None:
        packed = gzip.compress(b"abc") + gzip.compress(b"def") + b"rest"
        assert decompress("gzip", packed) == b"abcdef"

    def test_of_a_cut_gzip_stream(self) -> None:
        with pytest.raises(CorruptRecordBatch, match="incomplete"):
            decompress("gzip", compress("gzip", b"abc" * 100)[:-4])

    def test_stores_what_lz4_cannot_make_smaller(self) -> None:
        data = bytes(range(256))
        assert compress("lz4", data)[7:] == struct.pack("<I", 256 | 1 << 31) + data + bytes(4)

    @pytest.mark.parametrize("content_size", [False, True])
    def test_reads_lz4_of_magic_0_whatever_its_header_checksum(self, content_size: bool) -> None:
        frame = bytearray(compress("lz4", b"abc" * 99))
        if content_size:
            frame[4:7] = bytes([frame[4] | 0x08, frame[5]]) + struct.pack("<q", 297) + b"\0"
        for checksum in (0, 0x1A, 0xFF):
            frame[14 if content_size else 6] = checksum
            assert decompress("lz4", bytes(frame), magic=0) == b"abc" * 99

    @pytest.mark.parametrize("size", range(8))
    def test_of_an_lz4_frame_cut_in_its_header(self, size: int) -> None:
        with pytest.raises(CorruptRecordBatch, match="lz4"):
            decompress("lz4", compress("lz4", b"abc", magic=0)[:size], magic=0)

    def test_names(self) -> None:
        assert [compression_name(number) for number in range(5)] == list(COMPRESSIONS)

    @pytest.mark.parametrize(("compression", "magic"), [("zstd", 1), ("lzo", 2)])
    def test_refuses_what_no_kafka_writes(self, compression: str, magic: int) -> None:
        with pytest.raises(EncodeError, match=compression):
            compress(compression, b"", magic=magic)


def test_header_alone_is_a_batch_without_records() -> None:
    raw = write_record_batch(10, DELTAS, producer_id=5)
    header = read_batch_header(memoryview(raw)[:61])
    assert header == replace(only_good(raw), records=())
