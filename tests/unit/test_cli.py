from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import streaming.answers.verify
import streaming.broker.embedded
import streaming.kafka.group_location
import streaming.query
from coordinator_state.record_batch import write_control_batch, write_record_batch
from streaming.answers.answer import AnswerKey
from streaming.answers.verification import Verification
from streaming.cli import STREAMING_EXTRA, cli
from streaming.commands.show import VIEWS
from streaming.commands.signals import interrupt_on_sigterm, stop_on_signals
from streaming.config import RunSettings
from streaming.errors import ConfigurationError
from streaming.kafka.group_location import GroupLocation
from streaming.progress import ProgressEvent
from streaming.tables.schemas import TABLES
from tests.logs import offset_key, offset_value
from tests.tables_folder import apply_micro_batch, create_tables

COMMANDS = sorted(cli.commands.items())
RUN = ["run", "--bootstrap-servers", "localhost:9092", "--tables", "tables"]
VERIFY = ["verify", "--bootstrap-servers", "localhost:9092", "--tables", "tables"]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Any:
    """Commands configure logging for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    for name in ("coordinator_state", "streaming"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def call(*arguments: str, exit_code: int = 0, **options: Any) -> Result:
    result = CliRunner().invoke(cli, list(arguments), **options)
    assert result.exit_code == exit_code, result.output
    return result


def json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


class TestHelp:
    def test_the_group_names_every_command_with_a_whole_sentence(self) -> None:
        text = call("--help").stdout

        for name, command in COMMANDS:
            assert name in text
            assert command.short_help is None
            summary = (command.help or "").split("\n")[0]
            assert summary.endswith("."), name

    @pytest.mark.parametrize(("name", "command"), COMMANDS)
    def test_every_command_has_a_description_examples_and_its_python_twin(
        self, name: str, command: click.Command
    ) -> None:
        text = call(name, "--help").stdout

        assert f"\n    coordinator-state {name}" in text.partition("Examples:")[2]
        assert "Python twin" in " ".join(text.split())
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, parameter.opts

    @pytest.mark.parametrize(("name", "command"), COMMANDS)
    def test_the_examples_of_a_command_can_be_parsed(
        self, name: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("run.toml").write_text('tables = "tables"\nbootstrap_servers = "localhost:9092"\n')
        _, _, examples = (command.help or "").partition("Examples:\n")
        for line in examples.strip().splitlines():
            program, called, *arguments = shlex.split(line)
            assert (program, called) == ("coordinator-state", name)
            with cli.make_context("coordinator-state", [called, *arguments]) as parent:
                command.make_context(called, arguments, parent=parent).close()


class TestErrors:
    def test_bad_configuration_is_one_line_and_exit_status_2(self, tmp_path: Path) -> None:
        result = call("show", "groups", "--tables", str(tmp_path / "nowhere"), exit_code=2)

        assert result.stdout == ""
        assert result.stderr.startswith("Error: there is no folder ")
        assert result.stderr.count("\n") == 1

    def test_what_an_error_quotes_cannot_drive_the_terminal(self) -> None:
        result = call("show", "groups", "--tables", "\x1b[2Jnowhere", exit_code=2)

        assert "\x1b" not in result.stderr
        assert r"\x1b[2Jnowhere" in result.stderr

    @pytest.mark.parametrize("arguments", [["show"], ["no-such-command"], ["show", "lag"]])
    def test_bad_usage_is_exit_status_2(self, arguments: list[str]) -> None:
        assert "Error: " in call(*arguments, exit_code=2).stderr

    def test_the_trace_follows_the_error_line_when_asked_for(self, tmp_path: Path) -> None:
        arguments = ["show", "groups", "--tables", str(tmp_path / "nowhere"), "--verbose"]

        first, *rest = call(*arguments, exit_code=2).stderr.splitlines()

        assert first.startswith("Error: there is no folder")
        assert any("Traceback" in line for line in rest)

    @pytest.mark.parametrize(
        ("error", "exit_code", "said"),
        [
            (ConfigurationError("no such topic"), 2, "Error: no such topic\n"),
            (TimeoutError("no answer\nmore of it"), 3, "Error: TimeoutError: no answer\n"),
            (AssertionError(), 3, "Error: AssertionError: no message\n"),
            (KeyboardInterrupt(), 130, ""),
        ],
    )
    def test_every_error_has_its_exit_status(
        self, error: BaseException, exit_code: int, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run_query(*_arguments: object, **_options: object) -> None:
            raise error

        monkeypatch.setattr(streaming.query, "run_query", run_query)

        assert call(*RUN, "--silent", exit_code=exit_code).stderr == said


class TestWithoutTheExtra:
    """The commands of the pure core need only what the wheel itself requires."""

    BLOCK = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {extra}:\n"
        "            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from streaming.cli import main\n"
        "main()\n"
    )

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = self.BLOCK.format(extra=sorted(STREAMING_EXTRA))
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_help_decode_and_partition_for_work(self, repository: Path) -> None:
        del repository
        assert self.call("--help").returncode == 0
        assert self.call("run", "--help").returncode == 0
        assert self.call("partition-for", "testgroup").stdout == "27\n"
        decoded = self.call("decode", "000100016700017400000003")
        assert json.loads(decoded.stdout)["key"]["data"]["group"] == "g"

    @pytest.mark.parametrize(
        "arguments",
        [
            ["show", "groups", "--tables", "x"],
            ["offsets", "g", "--tables", "x"],
            RUN,
            VERIFY,
            ["broker"],
            ["decode", "--log-partition", "0", "--bootstrap-servers", "localhost:9092"],
            ["partition-for", "g", "--bootstrap-servers", "localhost:9092"],
        ],
    )
    def test_the_other_commands_say_what_to_install(self, arguments: list[str]) -> None:
        ended = self.call(*arguments)

        assert ended.returncode == 2
        assert ended.stdout == ""
        assert ended.stderr.startswith("Error: this command needs ")
        assert ended.stderr.endswith("pip install 'coordinator-state[streaming]'\n")


class TestRun:
    def test_progress_and_log_go_to_stderr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def run_query(_settings: RunSettings, *, on_progress: Any, stop: threading.Event) -> None:
            assert not stop.is_set()
            logging.getLogger("streaming.query").info("micro-batch %s", 0)
            on_progress(
                ProgressEvent(
                    batch_id=0,
                    records_read=10,
                    offsets_read=10,
                    records_read_total=10,
                    records_quarantined=0,
                    next_offset_total=10,
                    high_watermark_total=10,
                    duration_ms=5,
                    states={0: "current"},
                )
            )

        monkeypatch.setattr(streaming.query, "run_query", run_query)
        result = call(*RUN)

        assert result.stdout == ""
        log, progress = result.stderr.splitlines()
        assert log.endswith("INFO streaming.query: micro-batch 0")
        assert progress.startswith("10 records read, ")

    def test_silent_shows_no_progress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[object] = []
        monkeypatch.setattr(
            streaming.query, "run_query", lambda _settings, **kept: seen.append(kept["on_progress"])
        )

        assert call(*RUN, "--silent").stderr == ""
        assert seen == [None]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_signal_asks_to_stop_and_the_second_acts_as_before(
        self, number: signal.Signals
    ) -> None:
        # A shell starts what it puts in the background with SIGINT ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            handler = signal.getsignal(number)
            with interrupt_on_sigterm(), stop_on_signals() as stop:
                os.kill(os.getpid(), number)
                assert stop.wait(5)
                with pytest.raises(KeyboardInterrupt):
                    os.kill(os.getpid(), number)
            assert signal.getsignal(number) == handler
        finally:
            signal.signal(signal.SIGINT, before)

    def test_a_signal_ends_the_run_with_exit_status_0(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run_query(_settings: RunSettings, *, on_progress: Any, stop: threading.Event) -> None:
            del on_progress
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(5)

        monkeypatch.setattr(streaming.query, "run_query", run_query)

        call(*RUN)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    folder = create_tables(tmp_path)
    at = {"topic": "t", "partition": 0, "committed_offset": 1}
    apply_micro_batch(
        folder,
        groups=[{"group_id": "b"}, {"group_id": "a\x1b[31m"}],
        group_members=[
            {
                "group_id": "b",
                "member_id": "m",
                "subscribed_topics": ["t", "u"],
                "assignment": [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 1}],
                "assignment_bytes": b"\x00\x01",
            }
        ],
        group_offsets=[at | {"group_id": "b", "leader_epoch": 5}, at | {"group_id": "a\x1b[31m"}],
        pending_offsets=[at | {"group_id": "b"}],
        progress=[{"next_offset": 7}],
    )
    return folder


class TestShow:
    def test_text_is_aligned_columns_in_the_order_of_the_key(self, tables: str) -> None:
        header, first, second = call("show", "offsets", "--tables", tables).stdout.splitlines()

        assert header.startswith("group_id   topic  partition  committed_offset  leader_epoch ")
        assert first.startswith(r"a\x1b[31m  t      0          1                 -             ")
        assert second.startswith("b          t      0          1                 5             ")
        assert "2026-11-21T03:14:00.000Z" in second

    def test_json_is_every_column_one_object_per_line(self, tables: str) -> None:
        (row,) = json_lines(call("show", "members", "--tables", tables, "--output", "json"))

        assert row["assignment"][1] == {"topic": "u", "topic_id": None, "partition": 1}
        assert row["assignment_bytes"] == "AAE="

    def test_an_assignment_is_shown_by_topic_and_partition(self, tables: str) -> None:
        text = call("show", "members", "--tables", tables).stdout

        assert text.split()[-5:] == ["t,", "u", "t:0,", "u:1", "-"]

    def test_versions_of_tables_are_a_mapping(self, tables: str) -> None:
        (row,) = json_lines(call("show", "progress", "--tables", tables, "--output", "json"))

        assert row["table_versions"]["groups"] == 1

    def test_rows_can_be_chosen_by_group(self, tables: str) -> None:
        result = call("show", "offsets", "--tables", tables, "--group", "b", "--output", "json")

        assert [row["group_id"] for row in json_lines(result)] == ["b"]
        assert (
            "no groups"
            in call("show", "progress", "--tables", tables, "--group", "b", exit_code=2).stderr
        )

    @pytest.mark.parametrize("what", VIEWS)
    def test_every_view_has_columns_that_its_table_has(self, what: str, tables: str) -> None:
        (table,) = (table for table in TABLES if table.name == VIEWS[what].table)

        assert set(VIEWS[what].columns + VIEWS[what].order) <= set(table.schema.names)
        assert call("show", what, "--tables", tables).stdout.startswith(VIEWS[what].columns[0])

    def test_every_table_has_a_view(self) -> None:
        assert {view.table for view in VIEWS.values()} == {table.name for table in TABLES}

    def test_the_past_is_shown(self, tables: str) -> None:
        apply_micro_batch(tables, groups=[], progress=[{"next_offset": 8}])

        now = call("show", "groups", "--tables", tables, "--output", "json")
        then = call("show", "groups", "--tables", tables, "--output", "json", "--as-of", "1")
        assert (len(json_lines(now)), len(json_lines(then))) == (0, 2)
        assert (
            "neither a version nor a time"
            in call("show", "groups", "--tables", tables, "--as-of", "noon", exit_code=2).stderr
        )


class TestOffsets:
    def test_answers_with_errors(self, tables: str) -> None:
        arguments = ["offsets", "b", "t:0", "t:9", "--tables", tables, "--require-stable"]

        assert json_lines(call(*arguments, "--output", "json")) == [
            {
                "topic": "t",
                "partition": partition,
                "committed_offset": -1,
                "leader_epoch": -1,
                "metadata": "",
                "error": error,
            }
            for partition, error in [(0, "UNSTABLE_OFFSET_COMMIT"), (9, "NONE")]
        ]

    def test_text(self, tables: str) -> None:
        assert call("offsets", "b", "--tables", tables).stdout.splitlines() == [
            "topic  partition  committed_offset  leader_epoch  metadata  error",
            "t      0          1                 5                       NONE",
        ]

    @pytest.mark.parametrize("text", ["t", "t:", ":0", "t:-1", "t:x"])
    def test_a_partition_has_a_topic_and_a_number(self, tables: str, text: str) -> None:
        result = call("offsets", "b", "--tables", tables, "--", text, exit_code=2)

        assert result.stderr == f"Error: '{text}' is not TOPIC:PARTITION\n"


class TestVerify:
    KEY = AnswerKey("offset", "g\x1b", "t", 0)
    DIFFERENT = Verification(
        equal={AnswerKey("group", "g")},
        differing={KEY: ({"committed_offset": 1}, {"committed_offset": 2})},
        moving={AnswerKey("offset", "h", "t", 1)},
        not_compared={"k": "of a kind"},
    )

    @pytest.fixture
    def verify(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
        self.group_counts: list[object] = []

        def verify(verification: Verification, *arguments: str, exit_code: int) -> Result:
            def verify_cluster(*given: object, **options: object) -> Verification:
                assert given == ("localhost:9092", "tables")
                assert options["log_partitions"] is None
                self.group_counts.append(options["group_count"])
                return verification

            monkeypatch.setattr(streaming.answers.verify, "verify_cluster", verify_cluster)
            return call(*VERIFY, *arguments, exit_code=exit_code)

        return verify

    def test_equal_is_exit_status_0(self, verify: Callable[..., Result]) -> None:
        result = verify(Verification(equal={AnswerKey("group", "g")}), exit_code=0)

        assert result.stdout == (
            "equal: 1 groups, 0 committed offsets, 0 pending offsets, 0 members\n"
        )

    def test_a_difference_is_exit_status_1_and_shown(self, verify: Callable[..., Result]) -> None:
        result = verify(self.DIFFERENT, exit_code=1)

        summary, header, difference = result.stdout.splitlines()
        assert summary.startswith("different: 1 answers; equal: 1 groups")
        assert header.split() == ["answer", "field", "broker", "tables"]
        assert difference.split() == ["offset", r"g\x1b", "t:0", "committed_offset", "1", "2"]
        note, where_to_look = result.stderr.splitlines()
        assert note == "groups of a kind: 1"
        assert where_to_look.endswith(r"show records --tables tables --group 'g\x1b'")
        assert self.group_counts == [None]

    def test_some_groups_are_compared(self, verify: Callable[..., Result]) -> None:
        verify(Verification(), "--groups", "7", exit_code=0)
        assert self.group_counts == [7]

    @pytest.mark.parametrize("duration", ["60", "0s", "5 m", "1w", "-1s"])
    def test_a_duration_has_a_unit(self, duration: str, verify: Callable[..., Result]) -> None:
        result = verify(Verification(), "--every", duration, exit_code=2)
        assert "is no duration: 60s, 5m, 1h or 7d" in result.stderr

    def test_a_watch_goes_on_until_it_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A broker that does not answer for a while does not end it, a difference is remembered."""
        answers: list[object] = [Verification(), TimeoutError("no answer"), self.DIFFERENT]

        def verify_cluster(*_given: object, **_options: object) -> Verification:
            answer = answers.pop(0)
            if not answers:
                signal.raise_signal(signal.SIGINT)
            if isinstance(answer, Verification):
                return answer
            raise TimeoutError("no answer")

        monkeypatch.setattr(streaming.answers.verify, "verify_cluster", verify_cluster)
        result = call(*VERIFY, "--every", "0.01s", exit_code=1)

        assert result.stdout.count("equal: ") == 2
        assert "not compared: no answer" in result.stderr

    def test_json_is_one_object(self, verify: Callable[..., Result]) -> None:
        (found,) = json_lines(verify(self.DIFFERENT, "--output", "json", exit_code=1))

        assert not found["is_equal"]
        assert found["equal"] == {"group": 1, "member": 0, "offset": 0, "pending": 0}
        (difference,) = found["differences"]
        assert (difference["group_id"], difference["broker"], difference["tables"]) == (
            "g\x1b",
            1,
            2,
        )
        assert [key["group_id"] for key in found["moving"]] == ["h"]

    def test_tables_that_are_behind_are_exit_status_1(self, verify: Callable[..., Result]) -> None:
        assert verify(Verification(behind={3: 5}), exit_code=1).stdout == (
            "behind: the tables lack 5 record offsets in 1 log partitions (3)\n"
        )


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
        assert too_many == {"line": 5, "error": "more than a key and a value"}

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
        program = "from streaming.cli import main; main()"
        command = [sys.executable, "-c", program, "decode", "--file", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as decoding:
            assert decoding.stdout is not None and decoding.stderr is not None
            decoding.stdout.readline()
            decoding.stdout.close()
            assert decoding.stderr.read() == b""
            assert decoding.wait(30) == 141


class TestPartitionFor:
    def test_names_the_log_partition(self) -> None:
        assert call("partition-for", "testgroup").stdout == "27\n"
        assert call("partition-for", "polygenelubricants").stdout == "0\n"
        assert call("partition-for", "my-group", "--partitions", "7").stdout == "1\n"
        assert json_lines(call("partition-for", "testgroup", "--output", "json")) == [
            {"group_id": "testgroup", "log_partition": 27, "log_partitions": 50}
        ]

    @pytest.mark.parametrize(("leader", "exit_code"), [(2, 0), (3, 1)])
    def test_names_the_coordinator_and_whether_it_leads(
        self, leader: int, exit_code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def locate_group(group: str, servers: str, kafka: Mapping[str, str]) -> GroupLocation:
            assert (group, servers, kafka) == ("g", "localhost:9092", {"client.id": "x"})
            return GroupLocation(
                log_partition=3,
                log_partitions=4,
                leader=leader,
                coordinator=2,
                host="b",
                port=9092,
            )

        monkeypatch.setattr(streaming.kafka.group_location, "locate_group", locate_group)
        arguments = ["g", "--bootstrap-servers", "localhost:9092", "--kafka", "client.id=x"]

        result = call("partition-for", *arguments, exit_code=exit_code)

        assert result.stdout == "3\ncoordinator: broker 2 at b:9092\n"
        assert ("leader of log partition 3 is broker 3" in result.stderr) == bool(exit_code)

    def test_the_count_is_given_or_asked_for(self) -> None:
        arguments = ["g", "--partitions", "5", "--bootstrap-servers", "localhost:9092"]

        assert "exclude each other" in call("partition-for", *arguments, exit_code=2).stderr


class TestBroker:
    class Broker:
        bootstrap_servers = "127.0.0.1:1"
        version = "4.2.0"
        folder = Path("folder")
        log_file = Path("folder/broker.log")

        def __init__(self, **options: Any) -> None:
            self.options = options

        def __enter__(self) -> TestBroker.Broker:
            return self

        def __exit__(self, *_error: object) -> None:
            self.options["closed"].append(True)

        @property
        def is_running(self) -> bool:
            os.kill(os.getpid(), signal.SIGTERM)
            return True

    @pytest.fixture
    def closed(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        closed: list[bool] = []

        def broker(**options: Any) -> TestBroker.Broker:
            assert options["properties"] == {"a": "b=c"}
            return self.Broker(**options, closed=closed)

        monkeypatch.setattr(streaming.broker.embedded, "EmbeddedBroker", broker)
        return closed

    def test_runs_until_it_is_interrupted_and_stops_cleanly(self, closed: list[bool]) -> None:
        arguments = ["broker", "--broker-property", "a=b=c", "--output", "json"]

        (found,) = json_lines(call(*arguments, exit_code=130))

        assert found["bootstrap_servers"] == "127.0.0.1:1"
        assert closed == [True]

    def test_a_property_has_a_name_and_a_value(self) -> None:
        result = call("broker", "--broker-property", "a", exit_code=2)

        assert result.stderr == "Error: --broker-property 'a' is not KEY=VALUE\n"
