"""Compressed record batches."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest

from coordinator_state.errors import CorruptRecordBatch, EncodeError
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.wire.compression import (
    COMPRESSIONS,
    compress,
    decompress,
)
from tests.support.logs.record_batches import only_corrupt


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

    def test_of_a_bomb_is_a_corrupt_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        defaults = decompress.__kwdefaults__ or {}
        monkeypatch.setitem(defaults, "max_bytes", 1_000)
        raw = write_record_batch(0, [(0, 0, b"k", bytes(1_000))], compression="zstd")
        assert only_corrupt(raw).reason.startswith("zstd: ")

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

    @pytest.mark.parametrize(("compression", "magic"), [("zstd", 1), ("lzo", 2)])
    def test_refuses_what_no_kafka_writes(self, compression: str, magic: int) -> None:
        with pytest.raises(EncodeError, match=compression):
            compress(compression, b"", magic=magic)
