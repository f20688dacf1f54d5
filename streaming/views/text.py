"""Values as text: escaped for a terminal, as JSON, as CSV.

Group ids and metadata are chosen by clients, so every character that a terminal would obey instead
of show is written as an escape.
"""

from __future__ import annotations

import csv
import io
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

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
    return json.dumps(value, default=json_value, separators=(",", ":"))


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


def json_value(value: Any) -> Any:
    """The JSON form of a value that JSON has no type for.

    Raises:
        TypeError: it has none.
    """
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
