"""`coordinator-state decode`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from streaming.cli.decode import TOPICS
from streaming.cli.record_json import RECORD_TYPES_OF_TOPIC
from tests.support.clients.command_line import call, json_lines
from tests.support.logs.logs import offset_key, offset_value

SEGMENT = write_record_batch(
    5,
    [(0, 1000, offset_key("g", "t", 3), offset_value(100)), (1, 1001, b"\x00\x63", b"x")],
    producer_id=9,
    producer_epoch=2,
    is_transactional=True,
) + write_control_batch(7, 9, 2, 1, timestamp_ms=1002, coordinator_epoch=4)


class TestDecode:
    def test_hex_is_shown_as_kafkas_formatter_shows_it(self) -> None:
        value = "0004000000000000006400000005026d00000000000004d200"

        (line,) = call("decode", "000100016700017400000003", value).stdout.splitlines()

        assert line == (
            '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":3}},"value":{"version":4,'
            '"data":{"offset":100,"leaderEpoch":5,"metadata":"m","commitTimestamp":1234}}}'
        )

    def test_a_transaction_is_shown_with_the_name_of_its_state(self) -> None:
        """As `TransactionLogMessageFormatter` of 4.4 shows it."""
        value = "000000000000000000070003000003e8010000000000000000000000010000000000000002"
        options = ("--topic", "__transaction_state")
        (document,) = json_lines(call("decode", *options, "0000000174", value))

        assert document["key"] == {"type": 0, "data": {"transactionalId": "t"}}
        assert document["value"]["data"]["transactionStatus"] == "Ongoing"

    def test_the_topics_are_those_whose_records_are_known(self) -> None:
        assert tuple(RECORD_TYPES_OF_TOPIC) == TOPICS

    @pytest.mark.parametrize("arguments", [[], ["null"], ["-"]])
    def test_without_a_value_it_is_a_tombstone(self, arguments: list[str]) -> None:
        (document,) = json_lines(call("decode", "000100016700017400000003", *arguments))

        assert document["value"] is None

    def test_what_cannot_be_decoded_is_a_line_too(self) -> None:
        (document,) = json_lines(call("decode", "0063", "0001"))

        assert document == {"error": "unknown record type 99", "rawKey": "0063", "rawValue": "0001"}

    def test_a_segment_is_decoded_with_offsets_producers_and_markers(self, tmp_path: Path) -> None:
        file = tmp_path / "00000000000000000000.log"
        file.write_bytes(SEGMENT)

        commit, unknown, marker = json_lines(call("decode", "--file", str(file)))

        shared = {"producerId": 9, "producerEpoch": 2, "isTransactional": True}
        assert commit["key"]["data"]["partition"] == 3
        assert commit["value"]["data"]["offset"] == 100
        assert {"recordOffset": 5, "timestamp": 1000, **shared}.items() <= commit.items()
        assert (unknown["recordOffset"], unknown["error"]) == (6, "unknown record type 99")
        assert marker == {
            "recordOffset": 7,
            "timestamp": 1002,
            **shared,
            "control": "COMMIT",
            "coordinatorEpoch": 4,
        }

    def test_a_range_of_a_segment_from_stdin(self) -> None:
        result = call(
            "decode", "--file", "-", "--from-offset", "6", "--to-offset", "7", input=SEGMENT
        )

        assert [document["recordOffset"] for document in json_lines(result)] == [6]

    def test_lines_of_hex_are_decoded_one_by_one(self, tmp_path: Path) -> None:
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
    def test_bad_usage(self, arguments: list[str], message: str) -> None:
        assert message in call("decode", *arguments, exit_code=2).stderr

    def test_a_closed_pipe_is_no_error(self, tmp_path: Path) -> None:
        file = tmp_path / "segment"
        batches = (
            write_record_batch(offset, [(0, 0, offset_key("g", "t", 0), None)])
            for offset in range(2000)
        )
        file.write_bytes(b"".join(batches))
        program = "from streaming.cli.main import main; main()"
        command = [sys.executable, "-c", program, "decode", "--file", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as decoding:
            assert decoding.stdout is not None and decoding.stderr is not None
            decoding.stdout.readline()
            decoding.stdout.close()
            assert decoding.stderr.read() == b""
            assert decoding.wait(30) == 141
