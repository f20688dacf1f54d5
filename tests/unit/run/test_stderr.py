"""What commands log on stderr, as lines for people and as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import pytest

from streaming.run.stderr import StderrHandler, log_format, write_error, write_note
from tests.support.clients.command_line import COMMANDS, call

HOSTILE = "\x1b[31m \x07\x9b\u202e\u2028\r\n\x7f\ud800"


def line_of(message: str, *args: Any, exc_info: Any = None) -> dict[str, Any]:
    record = logging.LogRecord("streaming.x", logging.WARNING, "", 0, message, args, exc_info)
    line = StderrHandler("json").format(record)
    assert line.isprintable()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_says_when_how_bad_who_and_what() -> None:
    before = datetime.now(timezone.utc)
    found = line_of("group %s", HOSTILE)

    assert list(found) == ["time", "level", "logger", "message"]
    assert (found["level"], found["logger"]) == ("WARNING", "streaming.x")
    assert found["message"] == f"group {HOSTILE}"
    assert found["time"].endswith("Z")
    written = datetime.fromisoformat(found["time"].replace("Z", "+00:00"))
    # To the millisecond.
    assert before - timedelta(milliseconds=1) <= written <= datetime.now(timezone.utc)


def test_what_a_message_names_is_a_field() -> None:
    fields = {"batch_id": 7, "duration_ms": 1.5, "tables": {"groups": 2}, "error": OSError("full")}
    found = line_of("micro-batch %(batch_id)s: %(duration_ms)s ms", {**fields, "level": "none"})

    assert found["message"] == "micro-batch 7: 1.5 ms"
    assert (found["batch_id"], found["duration_ms"], found["tables"]) == (7, 1.5, {"groups": 2})
    assert found["error"] == "full"
    # A field cannot take the place of one that every line has.
    assert found["level"] == "WARNING"


def test_a_trace_is_a_field_of_its_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        found = line_of("trace", exc_info=sys.exc_info())

    assert found["exc_info"].startswith("Traceback (most recent call last):\n")
    assert "ValueError: two\nlines" in found["exc_info"]


def json_lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_errors_and_notes_are_lines_of_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = [StderrHandler("json")]
    write_error("no such folder")
    write_note("metrics are at http://127.0.0.1:1/")

    found = json_lines_of(capsys.readouterr().err)
    assert [(line["level"], line["message"]) for line in found] == [
        ("ERROR", "no such folder"),
        ("INFO", "metrics are at http://127.0.0.1:1/"),
    ]
    assert log_format() == "json"
    logging.getLogger().handlers[:] = [StderrHandler()]
    write_error("no such folder")
    assert capsys.readouterr().err == "Error: no such folder\n"
    assert log_format() == "text"


@pytest.mark.parametrize(
    ("name", "command"), [one for one in COMMANDS.items() if not isinstance(one[1], click.Group)]
)
def test_every_command_has_the_option(name: str, command: Any) -> None:
    (option,) = (one for one in command.params if one.name == "log_format")
    assert option.opts == ["--log-format"], name
    assert option.envvar == "COORDINATOR_STATE_LOG_FORMAT"


@pytest.mark.parametrize("where", ["option", "environment", "file"])
def test_json_from_everywhere(where: str, tmp_path: Path) -> None:
    command = ["show", "groups", "--tables", str(tmp_path / "nowhere")]
    env = {}
    if where == "option":
        command += ["--log-format", "json"]
    elif where == "environment":
        env = {"COORDINATOR_STATE_LOG_FORMAT": "json"}
    else:
        (tmp_path / "c.toml").write_text('log-format = "json"\n')
        command += ["--config", str(tmp_path / "c.toml")]
    result = call(*command, exit_code=2, env=env)

    (line,) = json_lines_of(result.stderr)
    assert line["level"] == "ERROR"
    assert "there is no folder" in line["message"]


def test_with_verbose_the_trace_comes_as_json_too(tmp_path: Path) -> None:
    command = ("show", "groups", "--tables", str(tmp_path / "nowhere"), "--verbose")
    found = json_lines_of(call(*command, "--log-format", "json", exit_code=2).stderr)
    assert [line["level"] for line in found] == ["ERROR", "DEBUG"]
    assert "Traceback" in found[1]["exc_info"]
