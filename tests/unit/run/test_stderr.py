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
    text = StderrHandler("json").format(record)
    assert text.isprintable()
    line: dict[str, Any] = json.loads(text)
    return line


def test_a_line_has_its_time_level_logger_and_message() -> None:
    before = datetime.now(timezone.utc)
    line = line_of("group %s", HOSTILE)

    assert list(line) == ["time", "level", "logger", "message"]
    assert (line["level"], line["logger"]) == ("WARNING", "streaming.x")
    assert line["message"] == f"group {HOSTILE}"
    assert line["time"].endswith("Z")
    written = datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
    # To the millisecond.
    assert before - timedelta(milliseconds=1) <= written <= datetime.now(timezone.utc)


def test_values_of_a_message_and_its_trace_are_fields() -> None:
    fields = {"batch_id": 7, "duration_ms": 1.5, "tables": {"groups": 2}, "error": OSError("full")}
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = line_of(
            "micro-batch %(batch_id)s: %(duration_ms)s ms",
            {**fields, "level": "none"},
            exc_info=sys.exc_info(),
        )

    assert line["message"] == "micro-batch 7: 1.5 ms"
    assert (line["batch_id"], line["duration_ms"], line["tables"]) == (7, 1.5, {"groups": 2})
    assert line["error"] == "full"
    # A field cannot take the place of one that every line has.
    assert line["level"] == "WARNING"
    assert line["exc_info"].startswith("Traceback (most recent call last):\n")
    assert "ValueError: two\nlines" in line["exc_info"]


def json_lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_errors_and_notes_are_lines_of_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers[:] = [StderrHandler("json")]
    write_error("no such folder")
    write_note("metrics are at http://127.0.0.1:1/")

    lines = json_lines_of(capsys.readouterr().err)
    assert [(line["level"], line["message"]) for line in lines] == [
        ("ERROR", "no such folder"),
        ("INFO", "metrics are at http://127.0.0.1:1/"),
    ]
    assert log_format() == "json"
    logging.getLogger().handlers[:] = [StderrHandler()]
    write_error("no such folder")
    assert capsys.readouterr().err == "Error: no such folder\n"
    assert log_format() == "text"


def test_every_command_has_the_option() -> None:
    for name, command in COMMANDS.items():
        options = [option.name for option in command.params]
        assert ("log_format" in options) == (not isinstance(command, click.Group)), name


def test_errors_and_their_traces_are_lines_of_json(tmp_path: Path) -> None:
    """`test_settings` has the sources of options."""
    command = ("show", "groups", "--tables", str(tmp_path / "nowhere"), "--verbose")
    environment = {"COORDINATOR_STATE_LOG_FORMAT": "json"}

    error, trace = json_lines_of(call(*command, exit_code=2, env=environment).stderr)
    assert (error["level"], trace["level"]) == ("ERROR", "DEBUG")
    assert "there is no folder" in error["message"]
    assert "Traceback" in trace["exc_info"]
