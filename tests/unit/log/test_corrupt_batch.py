"""Record batches that cannot be read, or not to their end."""

from __future__ import annotations

import struct

import pytest

from coordinator_state.log.message_set import write_message_set
from coordinator_state.log.record_batch import CorruptBatch, RecordBatch, read_record_batches
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.wire.compression import COMPRESSIONS, compress
from tests.support.logs.record_batches import (
    DELTAS,
    MESSAGES,
    changed,
    only_corrupt,
    only_good,
    with_body,
)


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
        assert (corrupt.base_offset, corrupt.last_offset) == (10, 12)

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
        assert (only_corrupt(raw).base_offset, only_corrupt(raw).last_offset) == (10, None)

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

    def test_length_alone(self) -> None:
        corrupt = only_corrupt(struct.pack(">qi", 3, 2) + bytes(14))
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
        assert batch.remainder.reason == "record 3 of 2147483647: incomplete varint"
        # Not beyond the batch: the offset after its last one may be another batch's.
        assert batch.remainder.base_offset == 12

    def test_bytes_behind_the_last_record(self) -> None:
        raw = changed(write_record_batch(10, DELTAS), 57, ">i", 1, reseal=True)
        batch = only_good(raw)
        assert [record.record_offset for record in batch.records] == [10]
        assert batch.remainder is not None
        assert batch.remainder.base_offset == 11
        assert batch.remainder.reason == f"{len(raw) - 61 - 11} bytes after the last record"

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
        assert batch.remainder.base_offset == 0
