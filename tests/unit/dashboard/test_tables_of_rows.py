"""The page of a table that an address selects."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.dashboard.tables_of_rows import RowList, RowsPage, rows_page

ROWS: list[dict[str, Any]] = [
    {"name": "b", "status": "OK", "lag": 2},
    {"name": "A", "status": "STALL", "lag": None},
    {"name": "c", "status": "OK", "lag": 2},
    {"name": "ab", "status": "OK", "lag": 7},
]


def page(rows: list[dict[str, Any]], page_rows: int = 50, **arguments: str) -> RowsPage:
    return rows_page(
        RowList(rows),
        arguments,
        sort="name",
        columns=["name", "lag"],
        searched="name",
        page_rows=page_rows,
    )


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", ["A", "ab", "b", "c"]),
        ("-name", ["c", "b", "ab", "A"]),
        ("lag", ["b", "c", "ab", "A"]),
        # Equal values keep their order, and unknown ones come last in both directions.
        ("-lag", ["ab", "b", "c", "A"]),
        ("password", ["A", "ab", "b", "c"]),
    ],
)
def test_the_address_sorts(sort: str, names: list[str]) -> None:
    assert [row["name"] for row in page(ROWS, sort=sort).rows] == names


def test_the_address_searches_by_name_and_status() -> None:
    found = page(ROWS, search="a", status="OK")
    assert [row["name"] for row in found.rows] == ["ab"]
    assert (found.total, found.of) == (1, 4)
    # They count all rows.
    assert found.statuses == {"STALL": 1, "OK": 3}


@pytest.mark.parametrize(("number", "names"), [("2", ["c"]), ("9", ["c"]), ("x", ["A", "ab", "b"])])
def test_the_address_names_the_page(number: str, names: list[str]) -> None:
    found = page(ROWS, page_rows=3, page=number)
    assert [row["name"] for row in found.rows] == names
    assert found.pages == 2


def test_a_table_without_rows_has_an_empty_page() -> None:
    found = page([], search="a", status="OK", sort="-lag")
    assert (list(found.rows), found.pages, found.total, found.of) == ([], 1, 0, 0)
    assert found.statuses == {}


def test_a_column_without_any_value_sorts_nothing() -> None:
    rows = [{**row, "lag": None} for row in ROWS]
    assert [row["name"] for row in page(rows, sort="-lag").rows] == ["b", "A", "c", "ab"]
