"""Text output by columns is that of single rows, for any table."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.views.output import output_of
from streaming.views.text_columns import WIDEST, aligned_lines

_MOMENTS = st.integers(-33_700_000_000_000_000, 253_000_000_000_000_000)
"""The years 902 to 9987, in microseconds."""
_TEXTS = st.one_of(
    st.text(max_size=8).filter(lambda text: "\ud800" not in text),
    st.sampled_from(["payments", "a b  ", "", "\\", "\x1b[31m", "é", "\u3000", "-"]),
)
_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): _TEXTS,
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(),
    pa.binary(): st.binary(max_size=4),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): _MOMENTS,
    pa.timestamp("us"): _MOMENTS,
    pa.timestamp("ms", "UTC"): st.integers(-(1 << 40), 1 << 40),
    pa.timestamp("us", "Europe/Berlin"): st.integers(0, 1 << 50),
    pa.list_(pa.string()): st.lists(_TEXTS, max_size=2),
    pa.list_(pa.struct({"topic": pa.string(), "partition": pa.int32()})): st.lists(
        st.fixed_dictionaries({"topic": _TEXTS, "partition": st.integers(0, 9)}), max_size=2
    ),
    pa.map_(pa.string(), pa.int64()): st.dictionaries(_TEXTS, st.integers(0, 9), max_size=2),
    pa.null(): st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(0, 5))
    columns = {}
    for number, kind in enumerate(draw(st.lists(st.sampled_from([*_VALUES]), min_size=1))):
        values = st.one_of(st.none(), _VALUES[kind])
        column_values = draw(st.lists(values, min_size=size, max_size=size))
        if pa.types.is_map(kind):
            column_values = [
                None if entries is None else [*entries.items()] for entries in column_values
            ]
        columns[f"{'long_' * draw(st.integers(0, 2))}{number}"] = pa.array(column_values, kind)
    return pa.table(columns)


@given(table=tables())
def test_columns_are_printed_as_rows(table: pa.Table) -> None:
    shown = [*table.column_names, "missing"]
    by_columns, by_rows = io.StringIO(), io.StringIO()
    with redirect_stdout(by_columns):
        output_of("text").table(table, shown)
    with redirect_stdout(by_rows):
        output_of("text").rows(table.to_pylist(maps_as_pydicts="strict"), shown)
    assert by_columns.getvalue() == by_rows.getvalue()


def test_beside_a_wide_cell_few_lines_are_formatted_at_once() -> None:
    """All 10,000 lines would be more than 2 GB, which is too much for one array of text."""
    wide, others = "w" * 300_000, ["narrow"] * 9_999
    table = pa.table({"a": [wide, *others], "b": range(10_000)})
    header, lines = islice(aligned_lines(table, ["a", "b"], str), 2)
    assert header == f"{'a'.ljust(WIDEST)}  b"
    first, second, *rest = lines.split("\n")
    assert first == f"{wide}  0"
    assert second == f"{'narrow'.ljust(WIDEST)}  1"
    assert len(rest) < 20


def test_rows_and_tables_are_aligned_to_the_same_width(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"a": "w" * (WIDEST + 1), "b": 1}, {"a": "narrow", "b": 2}]
    output_of("text").rows(rows, ["a", "b"])
    lines = capsys.readouterr().out
    assert lines.splitlines()[1:] == [f"{'w' * (WIDEST + 1)}  1", f"{'narrow'.ljust(WIDEST)}  2"]
    output_of("text").table(pa.Table.from_pylist(rows), ["a", "b"])
    assert capsys.readouterr().out == lines


def test_moments_that_python_cannot_show_are_refused_in_any_company() -> None:
    moments = pa.array([0, 1 << 60], pa.timestamp("us", "UTC"))
    with pytest.raises(OverflowError):
        output_of("text").table(pa.table({"at": moments}), ["at"])
