"""Message sets of magic 0 and 1."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest

from coordinator_state.log.message_set import write_message_set
from coordinator_state.log.record import NO_TIMESTAMP
from coordinator_state.log.record_batch import CorruptBatch, read_record_batches
from tests.support.logs.record_batches import (
    KAFKA,
    MESSAGES,
    changed,
    only_corrupt,
    only_good,
    records_of,
)


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
