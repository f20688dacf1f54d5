"""`coordinator-state decode`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.internal_topics import INTERNAL_TOPICS
from coordinator_state.records.record_json import record_json
from streaming.cli.record_json import (
    RECORD_TYPES_OF_TOPIC,
    lines_json,
    log_json,
    record_set_json,
)
from streaming.errors import ConfigurationError
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.installed_command import command_of
from tests.support.logs.logs import offset_key, offset_value

SEGMENT = write_record_batch(
    5,
    [(0, 1000, offset_key("g", "t", 3), offset_value(100)), (1, 1001, b"\x00\x63", b"x")],
    producer_id=9,
    producer_epoch=2,
    is_transactional=True,
) + write_control_batch(7, 9, 2, 1, timestamp_ms=1002, coordinator_epoch=4)


def test_hex_is_shown_as_kafkas_formatter_shows_it() -> None:
    value = "0004000000000000006400000005026d00000000000004d200"

    (line,) = call("decode", "000100016700017400000003", value).stdout.splitlines()

    assert line == (
        '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":3}},"value":{"version":4,'
        '"data":{"offset":100,"leaderEpoch":5,"metadata":"m","commitTimestamp":1234}}}'
    )


def test_a_transaction_is_shown_with_the_name_of_its_state() -> None:
    """As `TransactionLogMessageFormatter` of 4.4 shows it."""
    value = "000000000000000000070003000003e8010000000000000000000000010000000000000002"
    options = ("--topic", "__transaction_state")
    (document,) = json_lines(call("decode", *options, "0000000174", value))

    assert document["key"] == {"type": 0, "data": {"transactionalId": "t"}}
    assert document["value"]["data"]["transactionStatus"] == "Ongoing"


def test_the_topics_are_those_whose_records_are_known() -> None:
    assert tuple(RECORD_TYPES_OF_TOPIC) == INTERNAL_TOPICS


def test_a_tombstone_and_what_cannot_be_decoded_are_lines_too() -> None:
    for arguments in ([], ["null"], ["-"]):
        (document,) = json_lines(call("decode", "000100016700017400000003", *arguments))
        assert document["value"] is None
    (document,) = json_lines(call("decode", "0063", "0001"))
    assert document == {"error": "unknown record type 99", "rawKey": "0063", "rawValue": "0001"}


def test_a_segment_is_decoded_with_offsets_producers_and_markers(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(SEGMENT)

    commit, unknown, marker = json_lines(call("decode", "--file", str(file)))

    shared = {"producerId": 9, "producerEpoch": 2, "isTransactional": True}
    assert commit["key"]["data"]["partition"] == 3
    assert commit["value"]["data"]["offset"] == 100
    assert {"recordOffset": 5, "timestamp": 1000, **shared}.items() <= commit.items()
    assert (unknown["recordOffset"], unknown["error"]) == (6, "unknown record type 99")
    control_fields = {"timestamp": 1002, "control": "COMMIT", "coordinatorEpoch": 4}
    assert marker == {"recordOffset": 7, **control_fields, **shared}


def test_a_range_of_a_segment_from_stdin() -> None:
    bounds = ("--from-offset", "6", "--to-offset", "7")
    (document,) = json_lines(call("decode", "--file", "-", *bounds, input=SEGMENT))

    assert document["recordOffset"] == 6


def test_lines_of_hex_are_decoded_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "records.txt"
    file.write_text("# KEY VALUE\n000100016700017400000003 -\n\nzz\n00 11 22\n")

    tombstone, not_hex, too_many = json_lines(call("decode", "--file", str(file)))

    assert (tombstone["line"], tombstone["value"]) == (2, None)
    assert not_hex == {"line": 4, "error": "'zz' is not hex"}
    assert too_many == {"line": 5, "error": "a line has at most a key and a value"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of KEY [VALUE], --file and --log-partition"),
        (["00", "--log-partition", "1"], "give one of"),
        (["--log-partition", "1"], "--log-partition needs --bootstrap-servers"),
        (["0x0g"], "Error: '0x0g' is not hex"),
        (["--file", "nowhere"], "Error: cannot read nowhere: No such file or directory"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    assert message in call("decode", *arguments, exit_code=2).stderr


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "segment"
    batches = (
        write_record_batch(offset, [(0, 0, offset_key("g", "t", 0), None)])
        for offset in range(2000)
    )
    file.write_bytes(b"".join(batches))
    command = command_of("decode", "--file", str(file))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as decoding:
        assert decoding.stdout is not None and decoding.stderr is not None
        decoding.stdout.readline()
        decoding.stdout.close()
        assert decoding.stderr.read() == b""
        assert decoding.wait(30) == 141


# --- logs of a broker, and any bytes


@dataclass
class Fetched:
    records: bytes


class _Log:
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


Log: Any = _Log


def batch(base_offset: int, count: int) -> bytes:
    records = [(delta, 0, offset_key("g", "t", 0), offset_value(delta)) for delta in range(count)]
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


def test_a_batch_that_does_not_hold_together_is_one_document() -> None:
    broken = bytearray(batch(3, 2))
    broken[-1] ^= 1

    corrupt, good = record_set_json(bytes(broken) + batch(9, 1))

    assert corrupt["recordOffset"] == 3
    assert "CRC" in corrupt["error"]
    assert corrupt["rawValue"] == bytes(broken).hex()
    assert good["recordOffset"] == 9


@pytest.mark.parametrize(("control_type", "shown"), [(0, "ABORT"), (2, 2)])
def test_markers(control_type: int, shown: object) -> None:
    (marker,) = record_set_json(write_control_batch(5, 7, 0, control_type))
    assert marker["control"] == shown


def test_a_log_partition_is_read_to_the_high_watermark_of_now() -> None:
    log = Log(batch(0, 2), None, batch(5, 3), start=0, end=7)

    # 5 to 7 were read, 7 is beyond; 2 to 4 were compacted away.
    assert [document["recordOffset"] for document in log_json(log, 0)] == [0, 1, 5, 6]
    assert log.positions == [0, 2, 2]
    # A range begins where the log begins, at the earliest.
    log = Log(batch(3, 4), start=4, end=9)
    documents = log_json(log, 0, from_offset=1, to_offset=6)
    assert [document["recordOffset"] for document in documents] == [4, 5]
    assert log.positions == [4]


def test_records_behind_a_damaged_end_of_an_answer_are_shown() -> None:
    broken = bytearray(batch(2, 1))
    broken[26] = 100
    log = Log(batch(0, 2) + broken, bytes(broken), batch(3, 2), start=0, end=5)

    documents = list(log_json(log, 0))

    assert [document["recordOffset"] for document in documents] == [0, 1, 2, 3, 4]
    assert "CRC" in documents[2]["error"]
    assert log.positions == [0, 2, 3]


def test_a_log_partition_that_is_empty_or_not_there() -> None:
    assert list(log_json(Log(start=0, end=5), 0)) == []
    with pytest.raises(ConfigurationError, match="no log partition 3; __consumer_offsets has 1"):
        list(log_json(Log(start=0, end=0), 3))
