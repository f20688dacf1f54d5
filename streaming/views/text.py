"""Values as text: escaped for a terminal, as JSON, as CSV.

Clients choose group ids and metadata, so terminal control characters in them are escaped.
"""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from streaming.tables.clock import utc_now

Row = Mapping[str, Any]

_ESCAPE = re.compile(
    r"\\(?:\\|[nrt]|x[0-9a-f]{2}|u(?!d[89a-f])[0-9a-f]{4}|U(?:0010|000[0-9a-f])[0-9a-f]{4})"
)
"""The escapes that `printable` writes; the code of a surrogate is no text."""
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Text that begins so is a formula for a spreadsheet; the last four are full-width."""


def dated(text: str) -> str:
    """The text after the current time in UTC, for a line of a process that runs for days."""
    return f"{utc_now():%Y-%m-%dT%H:%M:%SZ} {text}"


def printable(text: str) -> str:
    r"""The text with non-printable characters and backslashes as unambiguous escapes.

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


def from_printable(text: str) -> str:
    r"""The text whose escapes `printable` wrote.

    >>> from_printable(printable("a\\b\x1b[31m\u202e")) == "a\\b\x1b[31m\u202e"
    True
    """
    return _ESCAPE.sub(lambda match: match[0].encode("ascii").decode("unicode_escape"), text)


def json_line(value: Any) -> str:
    """One JSON document on one line; bytes as base64, times as ISO 8601 in UTC."""
    return json.dumps(value, default=json_value, separators=(",", ":"))


def readable_json(value: Any, *, indent: int | None = None) -> str:
    r"""A JSON document for people: only characters that are not printable are escapes.

    >>> readable_json({"group": "caf\u00e9\u202e"})
    '{"group": "café\\u202e"}'
    """
    text = json.dumps(value, ensure_ascii=False, default=json_value, indent=indent)
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
        for character in text
    )


def csv_lines(
    rows: Iterable[Row], columns: Sequence[str], *, for_spreadsheets: bool = False
) -> Iterator[str]:
    r"""Rows as CSV after a header line.

    A spreadsheet reads text that begins with `=` and the like as a formula. With
    `for_spreadsheets` such text, also a column name, gets an apostrophe in front; numbers do not.

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


def json_value(value: Any) -> Any:
    """The JSON form of a value whose type JSON does not have.

    Raises:
        TypeError: the value has no JSON form.
    """
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        # SUM in SQL returns a decimal, also for whole numbers.
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
