from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_json import record_json
from streaming.cli.record_json import lines_json, log_json, record_set_json
from streaming.errors import ConfigurationError
from tests.support.logs.logs import offset_key, offset_value

KEY = offset_key("g", "t", 0)


@dataclass
class Fetched:
    records: bytes


class Log:
    """Log partition 0 in whole batches, one per fetch; a None is an answer that leaves it out."""

    topic = "__consumer_offsets"

    def __init__(self, *batches: bytes | None, start: int, end: int) -> None:
        self._batches = list(batches)
        self._start, self._end = start, end
        self.positions: list[int] = []

    def earliest_offsets(self) -> Mapping[int, int]:
        return {0: self._start}

    def high_watermarks(self) -> Mapping[int, int]:
        return {0: self._end}

    def fetch(self, positions: Mapping[int, int]) -> Mapping[int, Fetched]:
        self.positions.append(positions[0])
        batch = self._batches.pop(0) if self._batches else b""
        return {} if batch is None else {0: Fetched(batch)}


def batch(base_offset: int, count: int) -> bytes:
    records = [(delta, 0, KEY, offset_value(delta)) for delta in range(count)]
    return write_record_batch(base_offset, records)


@given(st.none() | st.binary(), st.none() | st.binary())
def test_any_record_is_a_document(key: bytes | None, value: bytes | None) -> None:
    assert record_json(key, value).keys() & {"key", "error"}


@given(st.binary() | st.binary().map(lambda noise: batch(0, 2)[:-20] + noise))
def test_any_bytes_are_documents(segment: bytes) -> None:
    for document in record_set_json(segment):
        assert "recordOffset" in document


@given(st.text())
def test_any_text_is_documents(text: str) -> None:
    for document in lines_json(text):
        assert document["line"] >= 1


def test_a_value_of_a_consumer_group() -> None:
    assert record_json(b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x05\x00") == {
        "key": {"type": 3, "data": {"groupId": "g"}},
        "value": {"version": 0, "data": {"epoch": 5}},
    }
    assert "error" in record_json(b"\x00\x03\x00\x01g", b"\x00\x00\x00")


def test_a_batch_that_does_not_hold_together_is_one_document() -> None:
    broken = bytearray(batch(3, 2))
    broken[-1] ^= 1

    corrupt, good = record_set_json(bytes(broken) + batch(9, 1))

    assert corrupt["recordOffset"] == 3
    assert "CRC" in corrupt["error"]
    assert corrupt["rawValue"] == bytes(broken).hex()
    assert good["recordOffset"] == 9


@pytest.mark.parametrize(("control_type", "shown"), [(0, "ABORT"), (1, "COMMIT"), (2, 2)])
def test_markers(control_type: int, shown: object) -> None:
    (marker,) = record_set_json(write_control_batch(5, 7, 0, control_type))

    assert (marker["recordOffset"], marker["producerId"], marker["control"]) == (5, 7, shown)


def test_a_log_partition_is_read_to_the_high_watermark_of_now() -> None:
    log = Log(batch(0, 2), None, batch(5, 3), start=0, end=7)

    # 5 to 7 were read, 7 is beyond; 2 to 4 were compacted away.
    assert [document["recordOffset"] for document in log_json(log, 0)] == [0, 1, 5, 6]
    assert log.positions == [0, 2, 2]


def test_records_behind_a_damaged_end_of_an_answer_are_shown() -> None:
    broken = bytearray(batch(2, 1))
    broken[26] = 100
    log = Log(batch(0, 2) + broken, bytes(broken), batch(3, 2), start=0, end=5)

    documents = list(log_json(log, 0))

    assert [document["recordOffset"] for document in documents] == [0, 1, 2, 3, 4]
    assert "CRC" in documents[2]["error"]
    assert log.positions == [0, 2, 3]


def test_a_range_begins_where_the_log_begins_at_the_earliest() -> None:
    log = Log(batch(3, 4), start=4, end=9)

    found = log_json(log, 0, from_offset=1, to_offset=6)

    assert [document["recordOffset"] for document in found] == [4, 5]
    assert log.positions == [4]


def test_nothing_left_before_the_high_watermark_is_the_end() -> None:
    assert list(log_json(Log(start=0, end=5), 0)) == []


def test_a_log_partition_that_is_not_there_is_told() -> None:
    with pytest.raises(
        ConfigurationError, match="there is no log partition 3; __consumer_offsets has 1"
    ):
        list(log_json(Log(start=0, end=0), 3))
