from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import streaming.run.query
from streaming.cli.main import STREAMING_EXTRA, cli
from streaming.errors import ConfigurationError
from tests.support.clients.command_line import COMMANDS, RUN, VERIFY, call
from tests.support.clients.installed_command import command_of


@pytest.mark.parametrize(("name", "command"), COMMANDS.items())
def test_the_examples_of_a_command_can_be_parsed(
    name: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text('tables = "tables"\nbootstrap_servers = "localhost:9092"\n')
    _, _, examples = (command.help or "").partition("Examples:\n")
    assert examples
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    for line in examples.strip().splitlines():
        program, *called = shlex.split(line)
        words = name.split()
        assert (program, called[: len(words)]) == ("coordinator-state", words)
        with cli.make_context("coordinator-state", called) as parent:
            command.make_context(name, called[len(words) :], parent=parent).close()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--nope"], "No such option '--nope'. For help: cli --help"),
        (["shwo"], "there is no command 'shwo'; did you mean show? For help: cli --help"),
        (["show", "lag"], "Missing option '--tables'. For help: cli show --help"),
        (
            ["alert", "run", "--tabels", "t"],
            "No such option '--tabels'. Did you mean '--tables'? For help: cli alert run --help",
        ),
        (
            ["verify", "--every", "5"],
            "--every: '5' is not a duration such as 60s, 5m, 1h or 7d. For help: cli verify --help",
        ),
    ],
)
def test_bad_usage_is_one_line_that_says_how_to_get_help(arguments: list[str], line: str) -> None:
    refused = call(*arguments, exit_code=2)

    assert (refused.stdout, refused.stderr) == ("", f"Error: {line}\n")
    # A missing argument is named once, by its words.
    (line,) = call("show", exit_code=2).stderr.splitlines()
    assert line.startswith("Error: Missing argument '{groups|members|")
    assert line.count("members|") == 1


def test_a_closed_standard_output_is_no_error(tables_that_lag: str) -> None:
    words = command_of("show", "groups", "--tables", tables_that_lag)
    command = f"{shlex.join(words)} >&-"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_bad_configuration_is_one_line_and_a_trace_if_asked_for() -> None:
    """The line cannot drive the terminal, whatever it quotes."""
    arguments = ["show", "groups", "--tables", "\x1b[2Jnowhere"]

    refused = call(*arguments, exit_code=2)
    first, *trace = call(*arguments, "--verbose", exit_code=2).stderr.splitlines()

    assert (refused.stdout, refused.stderr) == ("", f"{first}\n")
    assert first.startswith("Error: Delta tables cannot be in ")
    assert first.endswith(r"\x1b[2Jnowhere, because of \x1b: name a folder without it")
    assert any("Traceback" in line for line in trace)
    assert "\x1b" not in first


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
    error: BaseException, exit_code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_query(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(streaming.run.query, "run_query", run_query)

    assert call(*RUN, "--silent", exit_code=exit_code).stderr == said


# Only `run` has a Spark session, which knows where the tables of a schema are.
OTHERS = tuple(
    name
    for name, command in COMMANDS.items()
    if name != "run" and any(option.name == "tables" for option in command.params)
)


@pytest.mark.parametrize("name", OTHERS)
def test_a_schema_needs_its_location(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = call(*name.split(), "--tables", "spark_catalog.kafka", exit_code=2)

    assert "--tables: there is no folder spark_catalog.kafka; for a schema" in refused.stderr
    assert "pass the location that `run` logs at its start" in refused.stderr
    assert refused.stderr.count("\n") == 1
    if name == "dashboard":
        named = call(name, "--tables", "prod=spark_catalog.kafka", exit_code=2)
        assert "there is no folder spark_catalog.kafka;" in named.stderr


# --- without the extra


WITHOUT_THE_EXTRA = f"""
import json, sys
from click.testing import CliRunner
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {sorted(STREAMING_EXTRA)}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Absent())
from streaming.cli.main import cli
results = [CliRunner().invoke(cli, command) for command in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in results]))
"""
CORE_COMMANDS = (
    ["--help"],
    *([*name.split(), "--help"] for name in COMMANDS),
    ["partition-for", "testgroup"],
    ["decode", "000100016700017400000003"],
    ["simulate", "--groups", "2", "--records", "50", "--file", "log"],
    ["decode", "--file", "log"],
)
OTHER_COMMANDS = (
    ["show", "groups", "--tables", "x"],
    ["offsets", "g", "--tables", "x"],
    RUN,
    VERIFY,
    ["broker"],
    ["simulate", "--records", "9", "--groups", "1", "--tables", "x"],
    ["decode", "--log-partition", "0", "--bootstrap-servers", "localhost:9092"],
    ["partition-for", "g", "--bootstrap-servers", "localhost:9092"],
)
Ended = tuple[int, str, str]
"""The exit status of a command, and both of its outputs."""


@pytest.fixture(scope="module")
def without_the_extra(
    tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> dict[str, Ended]:
    """All commands in one process that has only the modules that the wheel itself requires."""
    commands = [*CORE_COMMANDS, *OTHER_COMMANDS]
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=tmp_path_factory.mktemp("without the extra"),
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    results = json.loads(process.stdout)
    return {
        " ".join(command): tuple(result) for command, result in zip(commands, results, strict=True)
    }


def test_the_commands_of_the_core_need_no_extra(without_the_extra: dict[str, Ended]) -> None:
    results = [without_the_extra[" ".join(command)] for command in CORE_COMMANDS]
    assert {exit_code for exit_code, _, _ in results} == {0}, results
    *_, partition, decoded, _, records = (stdout for _, stdout, _ in results)
    assert partition == "27\n"
    assert json.loads(decoded)["key"]["data"]["group"] == "g"
    assert records.count("\n") >= 50


@pytest.mark.parametrize("command", OTHER_COMMANDS, ids=" ".join)
def test_the_other_commands_say_what_to_install(
    command: list[str], without_the_extra: dict[str, Ended]
) -> None:
    exit_code, stdout, stderr = without_the_extra[" ".join(command)]

    assert (exit_code, stdout) == (2, "")
    assert stderr.startswith("Error: this command needs ")
    assert stderr.endswith("pip install 'coordinator-state[streaming]'\n")
