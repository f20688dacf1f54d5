"""Everything that reaches the terminal: data on stdout as text or JSON, the rest on stderr.

Text is for people: aligned columns (a folded table on a terminal), `-` for null, and every
character that a terminal would obey instead of show written as an escape, since group ids and
metadata are what some client chose. JSON is one object per line. Commands never format; they hand
rows to an `Output`.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import sys
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import click
from pythonjsonlogger.json import JsonFormatter

Row = Mapping[str, Any]

_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Of text that a spreadsheet takes for a formula; the last four are full-width."""


def printable(text: str) -> str:
    r"""The text with what a terminal would act on written as escapes, without ambiguity.

    >>> printable("orders\x1b[31m")
    'orders\\x1b[31m'
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(
        character
        if character.isprintable() and character != "\\"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def json_line(value: Any) -> str:
    """One JSON document on one line; bytes as base64, times as ISO 8601 in UTC."""
    return json.dumps(value, default=_json_value, separators=(",", ":"))


def csv_lines(
    rows: Iterable[Row], columns: Sequence[str], *, for_spreadsheets: bool = False
) -> Iterator[str]:
    r"""Rows as CSV, the names first.

    A spreadsheet takes text that begins with `=` and the like for a formula. For spreadsheets such
    text begins with an apostrophe, names of columns too; numbers stay as they are.

    >>> list(csv_lines([{"a": 'x"y', "b": None}, {"a": 1, "b": [2]}], ["a", "b"]))
    ['a,b\r\n', '"x""y",\r\n', '1,[2]\r\n']
    >>> list(csv_lines([{"a": "=1+1"}, {"a": -1}], ["a"], for_spreadsheets=True))
    ['a\r\n', "'=1+1\r\n", '-1\r\n']
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    cell = _spreadsheet_cell if for_spreadsheets else _csv_cell
    for cells in chain([columns], ([row[name] for name in columns] for row in rows)):
        writer.writerow(map(cell, cells))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def write_error(message: str) -> None:
    """One line on stderr, the last word of a command that failed."""
    if not _logged(logging.ERROR, message):
        click.echo(f"Error: {printable(message)}", err=True)


def write_note(message: str) -> None:
    """One line on stderr beside the data."""
    if not _logged(logging.INFO, message):
        click.echo(printable(message), err=True)


def is_live() -> bool:
    """Whether stderr is a screen on which a line may change."""
    return sys.stderr.isatty() and log_format() == "text"


class Output(ABC):
    """Where a command's data goes."""

    @abstractmethod
    def rows(self, rows: Iterable[Row], columns: Sequence[str], /) -> None:
        """A table; text shows `columns` only, JSON all there is."""

    @abstractmethod
    def result(self, fields: Row, text: str, /) -> None:
        """One answer: its fields for JSON, a sentence for people."""


class JsonOutput(Output):
    """One JSON object per line."""

    def rows(self, rows: Iterable[Row], _columns: Sequence[str], /) -> None:
        for row in rows:
            click.echo(json_line(row))

    def result(self, fields: Row, _text: str, /) -> None:
        click.echo(json_line(fields))


class TextOutput(Output):
    """Aligned columns and sentences."""

    def rows(self, rows: Iterable[Row], columns: Sequence[str], /) -> None:
        cells = [[_cell(row.get(column)) for column in columns] for row in rows]
        if sys.stdout.isatty():
            _show_folded(columns, cells)
        else:
            _show_aligned(columns, cells)

    def result(self, _fields: Row, text: str, /) -> None:
        for line in text.split("\n"):
            click.echo(printable(line))


class CsvOutput(Output):
    """RFC 4180 with a line of names; null is empty, what is nested is JSON."""

    for_spreadsheets = False

    def rows(self, rows: Iterable[Row], columns: Sequence[str], /) -> None:
        for line in csv_lines(rows, columns, for_spreadsheets=self.for_spreadsheets):
            click.echo(line, nl=False)

    def result(self, fields: Row, _text: str, /) -> None:
        self.rows([fields], list(fields))


class SpreadsheetOutput(CsvOutput):
    """The same with no cell that a spreadsheet takes for a formula."""

    for_spreadsheets = True


OUTPUTS: Mapping[str, type[Output]] = {"text": TextOutput, "json": JsonOutput}


def output_of(name: str) -> Output:
    """The output that `--output` names."""
    return OUTPUTS[name]()


class _PrintableFormatter(logging.Formatter):
    """What names come from clients is escaped, a trace keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


class _FieldsFormatter(JsonFormatter):
    """One JSON object a line: when, how bad, who, what, and each value that the message names."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp="time",
            json_default=_logged_value,
        )

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        super().add_fields(log_data, record, message_dict)
        first = {name: log_data[name] for name in ("time", "level", "logger", "message")}
        named = record.args if isinstance(record.args, Mapping) else {}
        others = {**named, **log_data}
        log_data.clear()
        log_data.update({**first, **others, **first})


LOG_FORMATS: Mapping[str, Callable[[], logging.Formatter]] = {
    "text": lambda: _PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"),
    "json": _FieldsFormatter,
}


class StderrHandler(logging.Handler):
    """Log records as lines on stderr, whatever stands for it while a progress line is shown."""

    def __init__(self, log_format: str = "text") -> None:
        super().__init__()
        self.log_format = log_format
        self.setFormatter(LOG_FORMATS[log_format]())

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


def log_format() -> str:
    """How this process logs: `text` unless it was told otherwise."""
    return next((handler.log_format for handler in _stderr_handlers()), "text")


def _stderr_handlers() -> Iterator[StderrHandler]:
    return (one for one in logging.getLogger().handlers if isinstance(one, StderrHandler))


def _logged(level: int, message: str) -> bool:
    """Write a line as a log record where nothing but those may be on stderr."""
    handlers = [handler for handler in _stderr_handlers() if handler.log_format != "text"]
    for handler in handlers:
        handler.handle(logging.LogRecord(__package__, level, "", 0, message, None, None))
    return bool(handlers)


def _logged_value(value: Any) -> Any:
    """No log line fails of a value."""
    try:
        return _json_value(value)
    except TypeError:
        return str(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        # What SQL sums up is one, of whole numbers too.
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool | list | dict | bytes | date | time | Decimal):
        return json_line(value).strip('"')
    return value


def _spreadsheet_cell(value: Any) -> Any:
    cell = _csv_cell(value)
    if cell is None or isinstance(value, int | float | Decimal):
        return cell
    text = str(cell)
    return f"'{text}" if text.startswith(_FORMULA_BEGINS) else text


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case str():
            return printable(value)
        case bool():
            return str(value).lower()
        case bytes():
            return value.hex()
        case list() | tuple():
            return printable(", ".join(_element(element) for element in value))
        case dict() | date() | time() | Decimal():
            return printable(json_line(value).strip('"'))
        case _:
            return str(value)


def _element(value: Any) -> str:
    """A topic partition as `topic:partition`, a task of a streams group as `active 0_1`."""
    if isinstance(value, dict) and "subtopology_id" in value:
        return f"{value['task_type']} {value['subtopology_id']}_{value['partition']}"
    if isinstance(value, dict) and "partition" in value:
        return f"{value.get('topic') or value.get('topic_id')}:{value['partition']}"
    return value if isinstance(value, str) else json_line(value)


def _show_aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Columns wide enough for their widest cell: nothing is cut, so that a pipe gets all of it."""
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in (columns, *cells):
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _show_folded(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """The same on a terminal, where a cell that does not fit goes on in the next line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in cells:
        # Text, since a plain string would be read for markup.
        table.add_row(*(Text(cell) for cell in line))
    Console().print(table)
