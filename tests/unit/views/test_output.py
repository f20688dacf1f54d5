from __future__ import annotations

import csv
import io
import json
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from streaming.views.output import OUTPUTS, output_of
from streaming.views.text import csv_lines, json_line, printable

HOSTILE = "\x1b[31m \x07\x9b\u202e\u2028\r\n\x7f\ud800"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_that_a_terminal_obeys_is_printed() -> None:
    shown = printable(HOSTILE)

    assert shown.isprintable()
    assert shown == r"\x1b[31m \x07\x9b\u202e\u2028\r\n\x7f\ud800"
    assert printable("payments-é-☃ 😀") == "payments-é-☃ 😀"
    assert printable(r"\x1b") != printable("\x1b")


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_lets_a_group_drive_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_of(name)
    output.rows([{"group_id": HOSTILE, "list": [HOSTILE]}], ["group_id", "list"])
    output.result({"group_id": HOSTILE}, f"group {HOSTILE}")

    assert all(line.isprintable() for line in capsys.readouterr().out.split("\n"))


def test_a_table_on_a_terminal_is_folded_and_only_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 80 columns wide, and without colours of its own."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    rows = [{"group_id": text} for text in (HOSTILE, "[bold]", "y" * 200)]
    output_of("text").rows(rows, ["group_id"])

    lines = terminal.getvalue().split("\n")
    assert all(line.isprintable() for line in lines)
    assert "[bold]" in terminal.getvalue()
    assert max(map(len, lines)) <= 80
    assert terminal.getvalue().count("y") == 200


def test_a_table_in_a_pipe_is_whole_and_has_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    output_of("text").rows([], ["group_id", "topic"])
    assert capsys.readouterr().out == "group_id  topic\n"
    output_of("text").rows([{"v": "x" * 5000}], ["v"])
    assert "x" * 5000 in capsys.readouterr().out


def test_cells(capsys: pytest.CaptureFixture[str]) -> None:
    task = {"task_type": "active", "subtopology_id": "0", "partition": 1}
    partition = {"topic": None, "topic_id": "T", "partition": 1}
    values = [None, "", True, b"\x01\xff", 5, {"a": 1}, ["t", partition], [task], [7, None]]
    for value in values:
        output_of("text").rows([{"v": value}], ["v"])
    lines = capsys.readouterr().out.splitlines()[1::2]

    assert lines == ["-", "", "true", "01ff", "5", '{"a":1}', "t, T:1", "active 0_1", "7, -"]


@pytest.mark.parametrize(
    ("name", "text"), [("text", "v\n7\n\nkafka --group '\\e'\n"), ("json", "")]
)
def test_only_text_has_details_and_commands_below_a_result(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = output_of(name)
    output.details([], ["v"])
    output.commands([])
    output.details([{"v": 7}], ["v"])
    output.commands([r"kafka --group '\e'"])
    assert capsys.readouterr().out == text


def test_values_without_a_json_form_of_their_own() -> None:
    moment = datetime(2026, 11, 21, 3, 14, 0, 1500, tzinfo=timezone.utc)

    assert json.loads(json_line([b"\x00", moment, date(2026, 11, 21)])) == [
        "AA==",
        "2026-11-21T03:14:00.001Z",
        "2026-11-21",
    ]
    with pytest.raises(TypeError, match="object has no JSON form"):
        json_line(object())


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *((f"{begin}1", f"'{begin}1") for begin in "=+-@\t\uff1d\uff0b\uff0d\uff20\r\n"),
        *((b"\xfb\xef", "'++8="), (timedelta(seconds=-1), "'-1 day, 23:59:59")),
        *((-1, "-1"), (-1.5, "-1.5"), (Decimal(-2), "-2"), ("a=1", "a=1")),
        *(("", ""), (None, ""), (True, "true"), (["=1"], '["=1"]')),
    ],
)
def test_no_cell_for_a_spreadsheet_is_a_formula(value: Any, cell: str) -> None:
    text = "".join(csv_lines([{"=x": value, "y": 1}], ["=x", "y"], for_spreadsheets=True))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["'=x", "y"], [cell, "1"]]
