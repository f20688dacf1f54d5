"""The data of a command on stdout, as text, JSON or CSV.

Text has aligned columns (a folded table on a terminal), `-` for null, and escapes for terminal
control characters. JSON is one object per line. Commands do not format rows; they pass them to an
`Output`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from streaming.views.text import Row, csv_lines, json_line, printable

if TYPE_CHECKING:
    import pyarrow as pa


class Output(ABC):
    """Writes the data of a command to stdout in one format."""

    is_text = False

    @abstractmethod
    def rows(self, rows: Iterable[Row], columns: Sequence[str], /) -> None:
        """Write a table; text shows only `columns`, JSON all fields."""

    def table(self, table: pa.Table, columns: Sequence[str], /) -> None:
        """Write an Arrow table, like its rows."""
        batches = (batch.to_pylist(maps_as_pydicts="strict") for batch in table.to_batches())
        self.rows(chain.from_iterable(batches), columns)

    @abstractmethod
    def result(self, fields: Row, text: str, /) -> None:
        """Write one result: `fields` as JSON, or `text`."""

    def details(self, rows: Sequence[Row], columns: Sequence[str], /) -> None:
        """Write a table below the text of a result."""
        del rows, columns  # Other formats have them in the result.

    def commands(self, lines: Sequence[str], /) -> None:
        """Write command lines below the text of a result, to be copied."""
        del lines  # As those of `details`.


class JsonOutput(Output):
    """One JSON object per line."""

    def rows(self, rows: Iterable[Row], _columns: Sequence[str], /) -> None:
        for row in rows:
            click.echo(json_line(row))

    def result(self, fields: Row, _text: str, /) -> None:
        click.echo(json_line(fields))


class TextOutput(Output):
    """Aligned columns and sentences."""

    is_text = True

    def rows(self, rows: Iterable[Row], columns: Sequence[str], /) -> None:
        cells = [[_cell(row.get(column)) for column in columns] for row in rows]
        if sys.stdout.isatty():
            _show_folded(columns, cells)
        else:
            _show_aligned(columns, cells)

    def table(self, table: pa.Table, columns: Sequence[str], /) -> None:
        from streaming.views.text_columns import aligned_lines

        if sys.stdout.isatty():
            super().table(table, columns)
        else:
            for lines in aligned_lines(table, columns, _cell):
                click.echo(lines)

    def result(self, _fields: Row, text: str, /) -> None:
        for line in text.split("\n"):
            click.echo(printable(line))

    def details(self, rows: Sequence[Row], columns: Sequence[str], /) -> None:
        if rows:
            self.rows(rows, columns)

    def commands(self, lines: Sequence[str], /) -> None:
        # Their words are quoted for a terminal already.
        for line in ["", *lines] if lines else []:
            click.echo(line)


class CsvOutput(Output):
    """RFC 4180 with a header line; null is empty, nested values are JSON."""

    for_spreadsheets = False

    def rows(self, rows: Iterable[Row], columns: Sequence[str], /) -> None:
        for line in csv_lines(rows, columns, for_spreadsheets=self.for_spreadsheets):
            click.echo(line, nl=False)

    def result(self, fields: Row, _text: str, /) -> None:
        self.rows([fields], list(fields))


class SpreadsheetOutput(CsvOutput):
    """CSV without cells that a spreadsheet reads as a formula."""

    for_spreadsheets = True


OUTPUTS: Mapping[str, type[Output]] = {"text": TextOutput, "json": JsonOutput}


def output_of(name: str) -> Output:
    """The output that `--output` names."""
    return OUTPUTS[name]()


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
    """A topic partition as `topic:partition`, a task of a streams group as `active 0_1`, or `-`."""
    if isinstance(value, dict) and "subtopology_id" in value:
        return f"{value['task_type']} {value['subtopology_id']}_{value['partition']}"
    if isinstance(value, dict) and "partition" in value:
        return f"{value.get('topic') or value.get('topic_id')}:{value['partition']}"
    if value is None:
        return "-"
    return value if isinstance(value, str) else json_line(value)


def _show_aligned(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as their widest cell; a pipe gets all text uncut."""
    from streaming.views.text_columns import WIDEST

    widths = [min(max(map(len, each)), WIDEST) for each in zip(columns, *cells, strict=True)]
    for line in (columns, *cells):
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _show_folded(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal; a cell that does not fit wraps to the next line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in cells:
        # rich would parse a plain string as markup.
        table.add_row(*(Text(cell) for cell in line))
    Console().print(table)
