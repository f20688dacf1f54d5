"""Record sets to rows, by the readable decoder.

`property/test_kernel.py` compares it with the compiled one, which has code of its own for sound
batches of commits and markers, ranges, and compaction.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from coordinator_state.log import log_decoder
from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.log_decoder import (
    DecodedRecordSet,
    OffsetRange,
    decode_record_set,
)
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.log.record_set import SETTLED_BYTES
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.logs import offset_key, offset_value
from tests.support.logs.record_batches import write_message_set

KEY = offset_key("g", "t", 3)
VALUE = offset_value(100, metadata="m", commitTimestamp=1234)
GROUP_KEY = encode_key(RECORD_TYPES[2], {"group": "g"})


def decode(
    raw: bytes,
    *,
    from_offset: int = 0,
    to_offset: int = 1000,
    sampling: CommitSampling | None = None,
    is_cut: bool = False,
) -> DecodedRecordSet:
    return decode_record_set(
        raw,
        OffsetRange(log_partition=7, from_offset=from_offset, to_offset=to_offset, is_cut=is_cut),
        sampling,
    )


def rows_of(raw: bytes, **offsets: Any) -> list[dict[str, Any]]:
    """The rows without their nulls."""
    rows = decode(raw, **offsets).rows
    assert rows.schema.equals(LOG_ROW_SCHEMA)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows.to_pylist()
    ]


def row_of(key: bytes | None, value: bytes | None, **batch: Any) -> dict[str, Any]:
    """The row of one record, without the columns that every row has."""
    (row,) = rows_of(write_record_batch(5, [(0, 9, key, value)], **batch))
    assert (row.pop("log_partition"), row.pop("record_offset")) == (7, 5)
    for name in ("record_timestamp_ms", "producer_id", "producer_epoch", "is_transactional"):
        del row[name]
    return row


def damaged(raw: bytes) -> bytes:
    """Its last byte is another one."""
    return raw[:-1] + bytes([raw[-1] ^ 1])


def commits(base_offset: int, count: int, **batch: Any) -> bytes:
    """A batch of commits of different keys."""
    records = [(n, 9, offset_key("g", "t", base_offset + n), VALUE) for n in range(count)]
    return write_record_batch(base_offset, records, **batch)


def test_a_commit_and_its_batch() -> None:
    value = offset_value(100, 4, leaderEpoch=5, metadata="m", topicId=UUID(int=1))
    batch: dict[str, Any] = {"producer_id": 8, "producer_epoch": 2, "is_transactional": True}
    (row,) = rows_of(write_record_batch(5, [(0, 9, KEY, value)], **batch))
    assert batch.items() <= row.items()
    assert (row["log_partition"], row["record_offset"], row["record_timestamp_ms"]) == (7, 5, 9)
    assert (row["row_kind"], row["record_type"], row["value_version"]) == ("offset", 1, 4)
    assert (row["group_id"], row["topic"], row["partition"]) == ("g", "t", 3)
    assert (row["committed_offset"], row["leader_epoch"], row["metadata"]) == (100, 5, "m")
    assert row["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_record_of_an_old_message_set_has_no_producer_and_no_timestamp() -> None:
    raw = write_message_set([(5, 0, KEY, VALUE), (8, 0, KEY, None)], magic=0, compression="lz4")
    first, second = rows_of(raw)
    assert (first["record_offset"], second["record_offset"]) == (5, 8)
    assert (first["producer_id"], first["producer_epoch"]) == (-1, -1)
    assert first["is_transactional"] is False
    assert "record_timestamp_ms" not in first


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "control record: null key"),
        (b"", "control record key: bytes at byte 0: 2 bytes needed, 0 left"),
        (b"\xff\xff\0\1", "control record key: negative version -1"),
    ],
)
def test_a_marker_with_an_unreadable_key(key: bytes | None, reason: str) -> None:
    row = row_of(key, b"v", is_control=True, producer_id=8, is_transactional=True)
    assert (row["row_kind"], row["reason"]) == ("undecodable", reason)
    assert (row.get("raw_key"), row["raw_value"]) == (key, b"v")


@pytest.mark.parametrize("record_type", [t for t in RECORD_TYPES if t > 1])
def test_a_record_of_a_group(record_type: int) -> None:
    kind = RECORD_TYPES[record_type]
    key = encode_key(kind, {field.name: "g" for field in kind.key_fields})
    columns = {"record_type": record_type, "group_id": "g", "raw_key": key}
    assert row_of(key, None) == {"row_kind": "record", "is_tombstone": True, **columns}
    # A broker's load fails on a value that it cannot read.
    refused = row_of(key, b"anything")
    assert (refused["row_kind"], refused["record_type"]) == ("undecodable", record_type)
    assert kind.value.name in refused["reason"]


class TestUndecodable:
    @pytest.mark.parametrize(
        ("key", "value", "record_type", "reason"),
        [
            (None, VALUE, None, "null key"),
            (b"\0", None, None, "record key field type at byte 0: 2 bytes needed, 1 left"),
            (b"\xff\xff", None, -1, "unknown record type -1"),
            (KEY[:-1], VALUE, 1, "OffsetCommitKey field partition at byte 8: 4 bytes needed"),
            (KEY, VALUE[:-1], 1, "OffsetCommitValue v3 field commitTimestamp at byte 17"),
            (GROUP_KEY, b"\0\3", 2, "GroupMetadataValue v3 field protocolType at byte 2"),
        ],
    )
    def test_record(
        self, key: bytes | None, value: bytes | None, record_type: int | None, reason: str
    ) -> None:
        row = row_of(key, value)
        assert row["row_kind"] == "undecodable"
        assert row["reason"].startswith(reason)
        assert (row.get("raw_key"), row.get("raw_value")) == (key, value)
        assert row.get("record_type") == record_type

    def test_corrupt_batch_is_one_record(self) -> None:
        raw = damaged(write_record_batch(5, [(0, 9, KEY, VALUE), (1, 9, KEY, VALUE)]))
        decoded = decode(raw + commits(7, 1), from_offset=5)
        assert (decoded.records_read, decoded.next_offset) == (2, 8)
        row, _ = rows_of(raw + commits(7, 1), from_offset=5)
        assert row["reason"].startswith("CRC-32C is ")
        assert row["reason"].endswith("; record offsets 5 to 6 are lost")
        assert (row["row_kind"], row["record_offset"]) == ("undecodable", 5)
        assert (row["producer_id"], row["is_transactional"], row["raw_value"]) == (-1, False, raw)

    @pytest.mark.parametrize(
        ("from_offset", "to_offset", "lost"), [(4, 9, (4, 6)), (6, 9, (6, 6)), (5, 6, (5, 6))]
    )
    def test_lost_offsets_are_those_of_the_range(
        self, from_offset: int, to_offset: int, lost: tuple[int, int]
    ) -> None:
        raw = damaged(write_record_batch(5, [(0, 9, KEY, VALUE), (1, 9, KEY, VALUE)]))
        rows = rows_of(raw + commits(7, 1), from_offset=from_offset, to_offset=to_offset)
        row = rows[0]
        first, last = lost
        assert row["record_offset"] == first
        assert ("lost" in row["reason"]) == (first < last)
        assert first == last or f"record offsets {first} to {last} are" in row["reason"]
        assert decode(raw + commits(7, 1), from_offset=7).records_read == 1

    def test_of_a_great_corrupt_batch_the_beginning_is_kept(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_decoder, "MAX_CORRUPT_BYTES", 100)
        raw = damaged(write_record_batch(5, [(0, 9, KEY, bytes(200))]))
        row, _ = rows_of(raw + commits(6, 1))
        assert row["raw_value"] == raw[:100]
        assert row["reason"].endswith(f" ({len(raw) - 100} of {len(raw)} bytes omitted)")

    def test_records_behind_a_broken_one(self) -> None:
        body_of_one = write_record_batch(0, [(0, 9, KEY, VALUE)])[61:]
        batch = bytearray(write_record_batch(5, [(0, 9, KEY, VALUE)] * 3, producer_id=4))
        batch[61 + len(body_of_one)] = 0xFF
        batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
        first, rest = rows_of(bytes(batch))
        assert (first["row_kind"], first["record_offset"]) == ("offset", 5)
        assert (rest["row_kind"], rest["record_offset"]) == ("undecodable", 5)
        assert rest["reason"].startswith("record 1 of 3: ")
        assert rest["producer_id"] == 4
        assert decode(bytes(batch)).records_read == 2


class TestRange:
    raw = commits(0, 5) + commits(5, 5, compression="gzip") + commits(12, 3)

    def test_counts_the_bytes_of_batches_used(self) -> None:
        sizes = [len(commits(0, 5)), len(commits(5, 5, compression="gzip")), len(commits(12, 3))]
        assert decode(self.raw).bytes_read == sum(sizes)
        assert decode(self.raw, from_offset=4, to_offset=6).bytes_read == sizes[0] + sizes[1]
        assert decode(self.raw, from_offset=10, to_offset=12).bytes_read == 0

    def test_damaged_bytes_end_where_the_next_batch_begins(self) -> None:
        corrupt = bytearray(commits(0, 5))
        struct.pack_into(">i", corrupt, 23, 500)
        decoded = decode(bytes(corrupt) + commits(5, 5))
        assert (decoded.next_offset, decoded.records_read) == (10, 6)

    def test_damaged_bytes_with_nothing_behind_are_left(self) -> None:
        for is_cut in (False, True):
            decoded = decode(commits(0, 5) + damaged(commits(5, 1)), is_cut=is_cut)
            assert (decoded.next_offset, decoded.records_read) == (5, 5)
            assert decoded.rest.start == len(commits(0, 5))
            assert decoded.rest.damage.startswith("CRC-32C is ")


class TestWithMoreBehind:
    """A record set that may go on is left where only more of the log can tell."""

    def test_damaged_bytes_are_passed_over_once_there_is_enough_behind(self) -> None:
        raw = damaged(commits(0, 1))
        behind = [write_record_batch(n, [(0, 9, None, bytes(SETTLED_BYTES // 2))]) for n in (1, 2)]
        few, enough = raw + behind[0], raw + behind[0] + behind[1]
        assert decode(few, is_cut=True).next_offset == 0
        assert decode(enough, is_cut=True).next_offset == 3
        assert decode(few).next_offset == 2

    def test_a_gap_before_the_last_batch_is_not_believed_yet(self) -> None:
        raw = commits(0, 5) + commits(10, 2)
        decoded = decode(raw, is_cut=True)
        assert decoded.next_offset == 5
        assert decoded.rest.unconfirmed is not None
        assert (decoded.rest.start, decoded.rest.unconfirmed.base_offset) == (
            len(commits(0, 5)),
            10,
        )
        assert decode(raw + commits(12, 1)[:8], is_cut=True).next_offset == 12
        assert decode(raw + commits(11, 1)[:8], is_cut=True).next_offset == 5
        assert decode(raw).next_offset == 12
        assert decode(commits(5, 1), is_cut=True).next_offset == 0
        assert decode(commits(5, 1), is_cut=True, from_offset=5).next_offset == 6


@pytest.mark.parametrize("base_offset", [0, 4, 6, 10, 14, 2**40])
def test_a_base_offset_that_does_not_fit_loses_its_batch(base_offset: int) -> None:
    """A base offset is not covered by the checksum."""
    moved = struct.pack(">q", base_offset) + commits(5, 3)[8:]
    rows = rows_of(commits(0, 5) + moved + commits(8, 5) + commits(13, 2))
    assert [row["record_offset"] for row in rows] == [*range(6), *range(8, 15)]
    assert rows[5]["row_kind"] == "undecodable"
    assert rows[5]["reason"].startswith(f"base offset {base_offset} ")
    assert rows[5]["reason"].endswith("record offsets 5 to 7 are lost")


V = (KEY, VALUE)
TRANSACTIONAL = {"producer_id": 5, "is_transactional": True}


def group_tombstone(record_type: int, group: str) -> tuple[bytes, None]:
    kind = RECORD_TYPES[record_type]
    names = [field.name for field in kind.key_fields]
    return encode_key(kind, dict(zip(names, [group, "m"], strict=False))), None


COMPACTED: dict[str, tuple[list[Any], list[int]]] = {
    # The first commit stays: an earlier record set may have a later committed offset of its key.
    "a later commit supersedes": ([V, V, V, V], [0, 3]),
    "other keys": ([V, *((offset_key("g", "t", n), VALUE) for n in (4, 5))], [0, 1, 2]),
    "both sides of a tombstone": ([V, V, V, (KEY, None), V, V, V], [0, 2, 3, 4, 6]),
    "both sides of a rewind": (
        [(KEY, offset_value(offset)) for offset in (10, 20, 30, 5, 15, 40, 50)],
        [0, 2, 3, 6],
    ),
    "records of producers neither go nor supersede": (
        [V, (*V, TRANSACTIONAL), (*V, TRANSACTIONAL), V, V, V],
        [0, 1, 2, 3, 5],
    ),
    # A tombstone of a consumer group makes one of a group that has nothing but offsets.
    "a record that may find a simple group": ([V, V, group_tombstone(8, "g"), V], [0, 1, 2, 3]),
    "a record of another group": ([V, V, group_tombstone(8, "h"), V], [0, 2, 3]),
    "a record of a classic group": ([V, V, group_tombstone(2, "g"), V], [0, 2, 3]),
}


@pytest.mark.parametrize(("records", "kept"), COMPACTED.values(), ids=COMPACTED)
def test_compaction_drops_superseded_commits(records: list[Any], kept: list[int]) -> None:
    raw = b"".join(
        write_record_batch(offset, [(0, 9, key, value)], **(batch[0] if batch else {}))
        for offset, (key, value, *batch) in enumerate(records)
    )
    decoded = decode(raw, sampling=SAMPLED)
    assert decoded.rows.column("record_offset").to_pylist() == kept
    assert (decoded.records_read, decoded.records_superseded) == (
        len(records),
        len(records) - len(kept),
    )
    assert decode(raw).records_superseded == 0
