"""The Python API: typed rows that are what the tables and the command line have."""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args, get_type_hints

import duckdb
import polars
import pytest
from deltalake import DeltaTable

import coordinator_state.apply.rows
import coordinator_state.apply.topic_rows
import streaming.tables.rows
from coordinator_state.apply.columns import nullable, schema_of
from streaming.errors import ConfigurationError
from streaming.lag.group_lag import LAG_ROW, LagTotalsRow, lag_totals
from streaming.tables.rows import LagRow, StatusRow
from streaming.views import coordinator_tables, definitions
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.definitions import SCHEMAS
from tests.support.tables.status_tables import NOW, VERSION

SHORT_NAMES = {
    "coordinator_records": "records",
    "group_events": "events",
    "group_lag": "lag",
    "group_members": "members",
    "group_offsets": "offsets",
    "group_status": "status",
    "load_progress": "progress",
    "log_offsets": "offset_samples",
    "offset_commits": "history",
}
"""The methods that do not have the name of their table or view."""


def method_of(name: str) -> Any:
    """The method that has the rows of a table or view."""
    return getattr(CoordinatorTables, SHORT_NAMES.get(name, name))


def class_of(name: str) -> Any:
    """The class of the rows of a table or view."""
    annotation = method_of(name).__annotations__["return"]
    return getattr(coordinator_tables, annotation.removeprefix("Rows[").removesuffix("]"))


def test_the_example_of_the_module_runs(
    tables: CoordinatorTables, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, rest = (coordinator_tables.__doc__ or "").partition("\n\n")
    example = dedent(rest).replace('"tables"', repr(tables.reader.tables))
    example = example.replace('"2026-11-21T03:14:00Z"', str(VERSION))
    exec(example, {})  # noqa: S102 - of our own module
    printed = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    now = CoordinatorTables(tables.reader.tables).status()
    assert printed == [[row.group_id, row.status] for row in now]
    assert printed


def test_every_table_and_view_has_a_class() -> None:
    modules = (
        *(coordinator_state.apply.rows, coordinator_state.apply.topic_rows),
        *(streaming.tables.rows, definitions),
    )
    values = [value for module in modules for value in vars(module).values()]
    classes = {value for value in values if isinstance(value, type) and is_dataclass(value)}
    assert classes == {class_of(name) for name in SCHEMAS} | {LagRow, StatusRow}
    totals = lag_totals(LAG_ROW.empty_table(), "topic").schema
    assert nullable(schema_of(LagTotalsRow)) == nullable(totals)


@pytest.mark.parametrize("name", SCHEMAS)
def test_rows_are_of_their_class(tables: CoordinatorTables, name: str) -> None:
    rows, row_type = method_of(name)(tables), class_of(name)
    assert rows.arrow.column_names == SCHEMAS[name].names
    for row in rows:
        assert isinstance(row, row_type)
        for column, hint in get_type_hints(row_type).items():
            may_be_null = type(None) in get_args(hint)
            assert may_be_null or getattr(row, column) is not None, column


def test_rows_are_a_sequence(tables: CoordinatorTables) -> None:
    rows = tables.status()
    assert [row.group_id for row in rows] == ["back", "idle", "loop", "new", "nothing", "old"]
    assert (rows[-1].group_id, rows[0].status, len(rows)) == ("old", "REWIND", 6)
    assert [row.group_id for row in rows[1:3]] == ["idle", "loop"]


def test_other_libraries_read_rows_and_tables(
    tables: CoordinatorTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tables.offsets()
    expected = sorted(row.committed_offset for row in rows)
    delta = DeltaTable(f"{tables.reader.tables}/group_offsets")
    for read in (
        *(rows.to_pandas, rows.to_polars, delta.to_pandas, delta.to_pyarrow_table),
        lambda: polars.scan_delta(delta.table_uri).collect(),
        lambda: duckdb.from_arrow(delta.to_pyarrow_dataset()).to_arrow_table(),
    ):
        assert sorted(map(int, read()["committed_offset"])) == expected
    for package in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
        advice = f"this needs {package}: pip install {package}"
        with pytest.raises(ConfigurationError, match=advice):
            getattr(rows, f"to_{package}")()


def test_a_group_alone(tables: CoordinatorTables) -> None:
    for rows in (tables.lag("old"), tables.offsets("old")):
        assert {row.group_id for row in rows} == {"old"}
    (total,) = tables.lag_totals(group="old")
    assert (total.partitions, total.topic) == (2, None)
    (total,) = tables.lag_totals("topic", "old")
    assert total.topic == "t"
    assert tables.explain("old").group_id == "old"
    with pytest.raises(ConfigurationError, match="did you mean back"):
        tables.explain("bck")
    assert tables.offset_fetch("old", [("t", 0)])[0].committed_offset == 99


def test_mistakes_are_refused(tables: CoordinatorTables, tmp_path: Path) -> None:
    wrong: Any = "nope"

    for judged in (tables.status, tables.partition_status):
        with pytest.raises(ConfigurationError, match="'nope': the rules are default and burrow"):
            judged(rules=wrong)
    with pytest.raises(ConfigurationError, match="there is no folder"):
        CoordinatorTables(tmp_path / "no")


def test_the_past(tables: CoordinatorTables) -> None:
    assert tables.as_of(tables.version).version == tables.version
    assert tables.as_of("1").moment == NOW
    assert tables.refreshed().moment > NOW
