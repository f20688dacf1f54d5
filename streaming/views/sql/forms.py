"""Writes an answer in each form; at most one batch of rows exists as Python objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from functools import partial
from itertools import chain, islice
from math import isfinite
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from streaming.errors import ConfigurationError
from streaming.views.query import Answer
from streaming.views.sql.question import Form
from streaming.views.text import csv_lines, json_line

NUMBER, TIME, TEXT = "number", "time", "text"
"""Kinds of columns on a page. TIME is in UTC, in ISO 8601."""
_KIND: Final = b"kind"
_IS_CUT: Final = b"is_cut"

_MOST_COLUMNS_SHOWN: Final = 1_000
_MOST_CELLS_SHOWN: Final = 50_000
_MOST_CHARACTERS_SHOWN: Final = 250_000
"""Compressed, a page is below 300 kB with any of them."""
_LONGEST_CELL: Final = 10_000

Write = Callable[[Answer, BinaryIO, int], None]


def rows_at_once(form: Form) -> int:
    """Rows per batch: more for Parquet, which writes a row group per batch."""
    return 50_000 if form is Form.PARQUET else 1_000


def write_arrow(answer: Answer, file: BinaryIO, most_rows: int) -> None:
    """Write Arrow's IPC stream.

    Raises:
        ConfigurationError: the answer has more than `most_rows` rows.
    """
    rows = 0
    with pa.ipc.new_stream(file, answer.schema) as stream:
        for batch in answer.batches:
            rows += batch.num_rows
            _require_at_most(most_rows, rows)
            stream.write_batch(batch)


def write_csv(
    answer: Answer, file: BinaryIO, most_rows: int, *, for_spreadsheets: bool = False
) -> None:
    """Write CSV (RFC 4180); see `streaming.views.text.csv_lines`.

    Raises:
        ConfigurationError: the answer has more than `most_rows` rows.
    """
    lines = csv_lines(_rows(answer), answer.schema.names, for_spreadsheets=for_spreadsheets)
    for rows, line in enumerate(lines):
        _require_at_most(most_rows, rows)
        file.write(line.encode())


def write_json(answer: Answer, file: BinaryIO, most_rows: int) -> None:
    """Write one JSON object per line; integers are exact, times are in ISO 8601 in UTC.

    Raises:
        ConfigurationError: the answer has more than `most_rows` rows.
    """
    for rows, row in enumerate(_rows(answer), 1):
        _require_at_most(most_rows, rows)
        file.write(f"{json_line(_with_finite_numbers(row))}\n".encode())


def write_parquet(answer: Answer, file: BinaryIO, most_rows: int) -> None:
    """Write Parquet with a row group for each batch.

    Raises:
        ConfigurationError: the answer has more than `most_rows` rows.
    """
    rows = 0
    with pq.ParquetWriter(file, answer.schema) as writer:
        for batch in answer.batches:
            rows += batch.num_rows
            _require_at_most(most_rows, rows)
            writer.write_batch(batch)


def write_shown(answer: Answer, file: BinaryIO, most_rows: int) -> None:
    """Write the first rows as text for a page, in Arrow's IPC stream.

    Rows after `most_rows`, or beyond the size of a page, are left out; `is_cut` is then True.

    Raises:
        ConfigurationError: the answer has too many columns for a page.
    """
    names = answer.schema.names
    if len(names) > _MOST_COLUMNS_SHOWN:
        raise ConfigurationError(
            f"the answer has {len(names):,} columns and the page shows at most "
            f"{_MOST_COLUMNS_SHOWN:,}: select fewer, or download a file"
        )
    most_rows = min(most_rows, max(_MOST_CELLS_SHOWN // len(names), 1))
    kinds = [_kind(field.type) for field in answer.schema]
    shown: list[list[str | None]] = []
    characters = 0
    rows = _rows(answer)
    for row in islice(rows, most_rows):
        shown.append([_shown(value) for value in row.values()])
        characters += sum(map(len, filter(None, shown[-1])))
        if characters > _MOST_CHARACTERS_SHOWN:
            break
    is_cut = next(rows, None) is not None
    schema = pa.schema(
        [
            pa.field(name, pa.string(), metadata={_KIND: kind})
            for name, kind in zip(names, kinds, strict=True)
        ],
        metadata={_IS_CUT: str(is_cut)},
    )
    columns = [pa.array(column, pa.string()) for column in zip(*shown, strict=True)]
    with pa.ipc.new_stream(file, schema) as stream:
        if shown:
            stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def _require_at_most(most_rows: int, rows: int) -> None:
    """Refuse too many rows: a truncated file would look complete."""
    if rows > most_rows:
        raise ConfigurationError(f"the answer has more than {most_rows:,} rows: add a LIMIT")


FORMS: Final[Mapping[Form, Write]] = {
    Form.ARROW: write_arrow,
    Form.SHOWN: write_shown,
    Form.CSV: write_csv,
    Form.SPREADSHEET: partial(write_csv, for_spreadsheets=True),
    Form.JSON: write_json,
    Form.PARQUET: write_parquet,
}


class ShownAnswer:
    """The rows that a page shows, read from the output of `write_shown`.

    Args:
        file: the file that `write_shown` wrote.
    """

    def __init__(self, file: BinaryIO) -> None:
        table = pa.ipc.open_stream(file).read_all()
        self.names: list[str] = table.column_names
        self.kinds = [field.metadata[_KIND].decode() for field in table.schema]
        self.is_cut = table.schema.metadata[_IS_CUT] == b"True"
        columns = [column.to_pylist() for column in table.columns]
        self.rows: list[tuple[str | None, ...]] = list(zip(*columns, strict=True))


def _rows(answer: Answer) -> Iterator[dict[str, Any]]:
    return chain.from_iterable(
        batch.to_pylist(maps_as_pydicts="strict") for batch in answer.batches
    )


def _with_finite_numbers(value: Any) -> Any:
    """The value with null for infinity and NaN: JSON has neither."""
    match value:
        case float():
            return value if isfinite(value) else None
        case list():
            return [_with_finite_numbers(member) for member in value]
        case dict():
            return {name: _with_finite_numbers(member) for name, member in value.items()}
    return value


def _kind(of: pa.DataType) -> str:
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of):
        return NUMBER
    return TIME if pa.types.is_timestamp(of) and of.tz else TEXT


def _shown(value: Any) -> str | None:
    match value:
        case None | str():
            text = value
        case datetime(tzinfo=None):
            text = f"{value:%Y-%m-%d %H:%M:%S}"
        case datetime():
            text = value.astimezone(timezone.utc).isoformat(timespec="microseconds")
        case bool() | int():
            text = str(value)
        case _:
            text = json_line(value).strip('"')
    if text is not None and len(text) > _LONGEST_CELL:
        return f"{text[:_LONGEST_CELL]}… ({len(text):,} characters)"
    return text
