from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import streaming.kafka.group_location
import streaming.local.broker.embedded
import streaming.run.query
import streaming.verify.verify
from streaming.cli.main import STREAMING_EXTRA, cli
from streaming.errors import ConfigurationError
from tests.support.clients.command_line import COMMANDS, RUN, VERIFY, call


class TestHelp:
    def test_the_group_names_every_command_with_a_whole_sentence(self) -> None:
        text = call("--help").stdout

        for name, command in COMMANDS.items():
            assert name.split()[0] in text
            assert command.short_help is None
            summary = (command.help or "").split("\n")[0]
            assert summary.endswith("."), name

    @pytest.mark.parametrize(("name", "command"), COMMANDS.items())
    def test_every_command_has_a_description_examples_and_its_python_api(
        self, name: str, command: click.Command
    ) -> None:
        text = call(*name.split(), "--help").stdout

        assert f"\n    coordinator-state {name}" in text.partition("Examples:")[2]
        assert "Python API" in " ".join(text.split())
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, parameter.opts

    @pytest.mark.parametrize(("name", "command"), COMMANDS.items())
    def test_the_examples_of_a_command_can_be_parsed(
        self, name: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("run.toml").write_text('tables = "tables"\nbootstrap_servers = "localhost:9092"\n')
        _, _, examples = (command.help or "").partition("Examples:\n")
        for line in examples.strip().splitlines():
            program, *called = shlex.split(line)
            words = name.split()
            assert (program, called[: len(words)]) == ("coordinator-state", words)
            with cli.make_context("coordinator-state", called) as parent:
                command.make_context(name, called[len(words) :], parent=parent).close()


class TestErrors:
    def test_bad_configuration_is_one_line_and_exit_status_2(self, tmp_path: Path) -> None:
        result = call("show", "groups", "--tables", str(tmp_path / "nowhere"), exit_code=2)

        assert result.stdout == ""
        assert result.stderr.startswith("Error: there is no folder ")
        assert result.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (["--nope"], "No such option '--nope'. For help: cli --help"),
            (["shwo"], "there is no command 'shwo'; did you mean show? For help: cli --help"),
            (["show", "lag"], "Missing option '--tables'. For help: cli show --help"),
            (
                ["alert", "run", "--tabels", "t"],
                "No such option '--tabels'. Did you mean '--tables'? For help: cli alert run "
                "--help",
            ),
            (
                ["verify", "--every", "5"],
                "--every: '5' is not a duration such as 60s, 5m, 1h or 7d. For help: cli verify "
                "--help",
            ),
        ],
    )
    def test_bad_usage_is_one_line_that_says_how_to_get_help(
        self, arguments: list[str], line: str
    ) -> None:
        result = call(*arguments, exit_code=2)

        assert (result.stdout, result.stderr) == ("", f"Error: {line}\n")

    def test_without_a_command_the_help_is_shown(self) -> None:
        assert call(exit_code=2).stderr.startswith("Usage: ")
        assert call("alert", exit_code=2).stderr.startswith("Usage: ")

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

        monkeypatch.setattr(streaming.run.query, "run_query", run_query)

        assert call(*RUN, "--silent", exit_code=exit_code).stderr == said


class TestTheNameOfASchema:
    """Only `run` has a Spark session, which knows where the tables of a schema are."""

    OTHERS = tuple(
        name
        for name, command in COMMANDS.items()
        if name != "run" and any(option.name == "tables" for option in command.params)
    )

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_commands_ask_for_its_location(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        result = call(*name.split(), "--tables", "spark_catalog.kafka", exit_code=2)

        assert "--tables: there is no folder spark_catalog.kafka; for a schema" in result.stderr
        assert "pass the location that `run` logs at its start" in result.stderr
        assert result.stderr.count("\n") == 1

    def test_the_dashboard_has_names_for_clusters_too(self) -> None:
        result = call("dashboard", "--tables", "prod=spark_catalog.kafka", exit_code=2)

        assert "there is no folder spark_catalog.kafka;" in result.stderr


class TestWithoutTheExtra:
    """The commands of the pure core need only what the wheel itself requires."""

    BLOCK = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {extra}:\n"
        "            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from streaming.cli.main import main\n"
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

    def test_simulate_into_a_file_works(self, tmp_path: Path) -> None:
        file = str(tmp_path / "log")
        done = self.call("simulate", "--groups", "2", "--records", "50", "--file", file)
        assert done.returncode == 0, done.stderr
        assert self.call("decode", "--file", file).stdout.count("\n") >= 50

    @pytest.mark.parametrize(
        "arguments",
        [
            ["show", "groups", "--tables", "x"],
            ["offsets", "g", "--tables", "x"],
            RUN,
            VERIFY,
            ["broker"],
            ["simulate", "--records", "9", "--groups", "1", "--tables", "x"],
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
