"""A log with one damaged header, read through a broker that looks offsets up by its headers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from coordinator_state.log.record_batch_writer import write_record_batch
from streaming.kafka.fetch import FetchedRecords
from streaming.source import log_range
from streaming.source.log_range import read_ranges
from tests.support.logs.broker_log import BrokerLog, Segment
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.logs import offset_key, offset_value
from tests.support.logs.memory_log import range_of
from tests.support.logs.record_batches import write_message_set

VERSIONS = ("3.9.1", "4.2.0")
FIELDS = {
    "base_offset": (0, 8),
    "length": (8, 12),
    "leader_epoch": (12, 16),
    "magic": (16, 17),
    "crc": (17, 21),
    "attributes": (21, 23),
    "last_offset_delta": (23, 27),
    "base_timestamp": (27, 35),
    "max_timestamp": (35, 43),
    "producer_id": (43, 51),
    "producer_epoch": (51, 53),
    "base_sequence": (53, 57),
    "records_count": (57, 61),
}
LAYOUTS = [([], [], 1 << 20), ([3, 6], [5, 12], 200), ([3], [7], 300), ([], [2, 10, 16], 200)]
"""Segments by their first batches, ends of micro-batches, and the limit of an answer in bytes."""
BATCH_OFFSETS = [(0, 1), (2, 4), (5, 5), (6, 9), (10, 11), (12, 14), (15, 15), (16, 18)]
"""First and last offset of each batch of the log; there are no gaps."""
LOG_END = 19


def batch_of(first: int, last: int) -> bytes:
    """A commit for each offset, which commits that offset."""
    records = [
        (n - first, 0, offset_key(f"g-{n}", "t", 0), offset_value(n))
        for n in range(first, last + 1)
    ]
    return write_record_batch(first, records)


def broker_log(
    rolls: Sequence[int], version: str, damaged: int, position: int, bits: int
) -> BrokerLog:
    """The log in segments, which begin at the batches `rolls`; one byte of a batch is changed."""
    batches = [batch_of(*offsets) for offsets in BATCH_OFFSETS]
    firsts = [0, *rolls]
    segments = segments_of(batches, {first: BATCH_OFFSETS[first][0] for first in firsts})
    # The broker indexed the sound batches.
    index = bisect_right(firsts, damaged) - 1
    before = b"".join(batches[firsts[index] : damaged])
    segments[index].content[len(before) + position] ^= bits
    return BrokerLog(segments, LOG_END, version)


def segments_of(batches: Sequence[bytes], base_offsets: Mapping[int, int]) -> list[Segment]:
    """Batches in segments; the base offset of each segment by the number of its first batch."""
    ends = [*base_offsets, len(batches)][1:]
    return [
        Segment(bytearray(b"".join(batches[start:end])), base_offset)
        for (start, base_offset), end in zip(base_offsets.items(), ends, strict=True)
    ]


def offsets_in(batches: Sequence[tuple[int, int]]) -> list[int]:
    return [n for first, last in batches for n in range(first, last + 1)]


def read(
    broker: BrokerLog, bounds: Sequence[int] = (), log_end: int = LOG_END
) -> list[dict[str, Any]]:
    """The rows of micro-batches that end at the bounds."""
    rows: list[dict[str, Any]] = []
    for from_offset, to_offset in pairwise([0, *bounds, log_end]):
        planned = range_of(0, to_offset, from_offset, log_end)
        for batch in read_ranges(broker, [planned], sampling=SAMPLED):
            rows += batch.to_pylist()
    return [row for row in rows if row["row_kind"] != "progress"]


def lost_offsets(rows: list[dict[str, Any]]) -> set[int]:
    """The record offsets for which a row says that they are lost."""
    lost: set[int] = set()
    for row in rows:
        if row["row_kind"] == "undecodable":
            lost_range = re.search(r"record offsets (\d+) to (\d+) are lost", row["reason"])
            first, last = (
                map(int, lost_range.groups()) if lost_range else (row["record_offset"],) * 2
            )
            lost.update(range(first, last + 1))
    return lost


def read_offsets(rows: list[dict[str, Any]]) -> list[int]:
    """The record offsets of the commits."""
    return [row["record_offset"] for row in rows if row["row_kind"] == "offset"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "version",
    [pytest.param("3.9.1", marks=(pytest.mark.long, pytest.mark.release)), "4.2.0"],
)
def test_each_record_is_read_or_has_a_row(field: str, version: str) -> None:
    """Each batch is damaged, so the last one of each answer, too; at either end of the field."""
    start, end = FIELDS[field]
    damage = [(start, 0x80), (end - 1, 0x01)]
    for number, (first, last) in enumerate(BATCH_OFFSETS):
        for index, (rolls, bounds, limit) in enumerate(LAYOUTS):
            position, bits = damage[(number + index) % 2]
            if number in (0, *rolls) and field in ("base_offset", "length", "last_offset_delta"):
                continue
            broker = broker_log(rolls, version, number, position, bits)
            with mock.patch.object(log_range, "DEFAULT_MAX_PARTITION_BYTES", limit):
                rows = read(broker, bounds)
            commits, lost = read_offsets(rows), lost_offsets(rows)
            where = (rolls, bounds, limit, number, position, bits)
            assert commits == sorted(set(commits)), where
            silent = set(range(LOG_END)) - set(commits) - lost
            if field == "base_offset" and first in bounds:
                # The broker itself may pass over the batch with which a micro-batch begins.
                silent -= set(range(first, last + 1))
            assert not silent, where
            if field not in ("base_offset", "length"):
                assert lost <= set(range(first, last + 1)), where
                assert all(
                    row["committed_offset"] == row["record_offset"]
                    for row in rows
                    if row["row_kind"] == "offset"
                ), where
            assert broker.fetches < 60, where


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("position", [8, 16, 23, 60])
def test_records_behind_a_damaged_first_batch_are_read(version: str, position: int) -> None:
    """The broker itself may pass over the first batch of a segment, and says nothing about it."""
    broker = broker_log([3], version, 3, position, 0x80)
    commits = read_offsets(read(broker))
    assert set(range(LOG_END)) - set(commits) <= set(range(6, LOG_END if position == 8 else 10))
    assert commits[:6] == list(range(6))


@pytest.mark.parametrize("limit", [200, 1 << 20])
@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("magic", [0, 1])
def test_gaps_of_compaction_are_no_damage(magic: int, compression: str, limit: int) -> None:
    """Also between wrapper messages, which have only the last offset of their messages."""
    offsets = [(0, 1), (5, 6), (9, 9), (20, 23), (24, 24)]
    content = [
        write_message_set(
            [(n, 0, offset_key(f"g-{n}", "t", 0), offset_value(n)) for n in range(first, last + 1)],
            magic=magic,
            compression=compression,
        )
        for first, last in offsets
    ]
    broker = BrokerLog(segments_of(content, {0: 0, 3: 15}), 40, "4.2.0")
    with mock.patch.object(log_range, "DEFAULT_MAX_PARTITION_BYTES", limit):
        rows = read(broker, [12], log_end=40)
    assert [row["record_offset"] for row in rows] == offsets_in(offsets)
    assert {row["row_kind"] for row in rows} == {"offset"}


def test_a_gap_before_the_position_is_not_read_again() -> None:
    """A micro-batch may begin in a gap, and look back as far as another one."""
    offsets = [(0, 3), (5, 7), (9, 9), (40, 41)]
    segments = segments_of([batch_of(*batch) for batch in offsets], {0: 0, 3: 10})
    rows = read(BrokerLog(segments, 42, "4.2.0"), [34], log_end=42)
    assert read_offsets(rows) == offsets_in(offsets)
    assert not lost_offsets(rows)


class Quota(BrokerLog):
    """A leader with a quota: answers are shorter than was asked for, but for one whole batch."""

    def _read(self, offset: int, max_bytes: int) -> bytes:
        return super()._read(offset, min(max_bytes, 100))


def test_a_short_answer_and_a_high_watermark_that_lags_are_no_damage() -> None:
    """A leader reads its high watermark before the records, and a new one may lag."""
    sound = broker_log([3], "4.2.0", 0, 0, 0)
    lagging = BrokerLog(sound.segments, LOG_END, "4.2.0", reported_high_watermark=4)
    for broker, bounds in ((Quota(sound.segments, LOG_END, "4.2.0"), []), (lagging, [5, 12])):
        rows = read(broker, bounds)
        assert read_offsets(rows) == list(range(LOG_END))
        assert not lost_offsets(rows)


class Elected(BrokerLog):
    """A leader that is elected at some fetch: its high watermark is not at the offset yet."""

    at_fetch = 0

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = 1 << 20,
        max_partition_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
    ) -> dict[int, FetchedRecords]:
        answer = super().fetch(positions, max_bytes, max_partition_bytes, max_wait_ms)
        if self.fetches != self.at_fetch:
            return answer
        ((log_partition, offset),) = positions.items()
        return {log_partition: FetchedRecords(records=b"", high_watermark=offset)}


@pytest.mark.parametrize("at_fetch", range(1, 8))
@pytest.mark.parametrize("base_offsets", [{0: 0}, {0: 0, 2: 6}], ids=["one segment", "two"])
def test_a_leader_that_was_just_elected_hides_nothing(
    at_fetch: int, base_offsets: dict[int, int]
) -> None:
    """It gives no records while a gap of compaction, or damage, is looked at more closely."""
    offsets = [(0, 1), (2, 4), (10, 11), (30, 31)]
    segments = segments_of([batch_of(*batch) for batch in offsets], base_offsets)
    broker = Elected(segments, 32, "4.2.0")
    broker.at_fetch = at_fetch
    rows = read(broker, [12], log_end=32)
    assert read_offsets(rows) == offsets_in(offsets)
    assert not lost_offsets(rows)
