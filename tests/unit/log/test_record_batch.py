"""Record batches: bytes of Kafka's own classes, read and written, and what is written read back."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from coordinator_state.log.message_set import write_message_set
from coordinator_state.log.record import NO_TIMESTAMP, Record
from coordinator_state.log.record_batch import RecordBatch, read_batch_header, read_record_batches
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.wire.compression import COMPRESSIONS
from tests.support.logs.record_batches import (
    DELTAS,
    KAFKA,
    KAFKA_MARKER,
    MESSAGES,
    changed,
    only,
    only_good,
    records_of,
    with_body,
)


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


class TestReading:
    def test_goes_through_batches_of_every_magic(self) -> None:
        raw = b"".join(
            _moved(bytes.fromhex(vector), 10 * number)
            for number, vector in enumerate(KAFKA.values())
        )
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


def _moved(raw: bytes, offsets: int) -> bytes:
    """The batches so many offsets further on."""
    out, position = bytearray(raw), 0
    while position < len(raw):
        offset, length = struct.unpack_from(">qi", raw, position)
        struct.pack_into(">q", out, position, offset + offsets)
        position += 12 + length
    return bytes(out)


def test_header_alone_is_a_batch_without_records() -> None:
    raw = write_record_batch(10, DELTAS, producer_id=5)
    header = read_batch_header(memoryview(raw)[:61])
    assert header == replace(only_good(raw), records=())
