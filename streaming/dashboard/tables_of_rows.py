"""Tables whose sort order, filter and page are in the address, so that users can share a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from coordinator_state.apply.columns import rows_of
from streaming.dashboard.request import request
from streaming.served.list_query import ListQuery
from streaming.served.snapshot import ServedSnapshot, worst_first

Row = Mapping[str, Any]
PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class RowsPage:
    """A page of a table.

    `page` counts from 1. `total` is the number of rows that match the filter, and `of` the number
    of all rows. `statuses` counts the rows that match the other filters by status, worst first.
    `sql` is the query of all rows that match, if the table is a list of `streaming.served.lists`.
    """

    rows: Sequence[Row]
    sort: str
    is_descending: bool
    page: int
    pages: int
    total: int
    of: int
    statuses: Mapping[str, int]
    sql: str = ""


def chosen_values(name: str) -> list[str]:
    """The values of an argument without empty ones: forms send them for fields without a choice."""
    return [value for value in dict.fromkeys(request.query_params.getlist(name)) if value]


def list_page(
    snapshot: ServedSnapshot,
    query: ListQuery,
    *,
    arguments: Mapping[str, str] | None = None,
    has_status: bool = True,
    page_rows: int = PAGE_ROWS,
) -> RowsPage:
    """The page of a list that an address selects.

    Args:
        snapshot: the tables.
        query: the list.
        arguments: `page`; by default of the address of the request.
        has_status: whether rows have a column `status`.
        page_rows: the number of rows per page.
    """
    arguments = request.query_params if arguments is None else arguments
    with snapshot.asking(query) as ask:
        counts = rows_of(ask(query.counts(by="status" if has_status else "NULL")))
        matching = {row["value"]: row["matching"] for row in counts if row["matching"]}
        selected = query.statuses or matching
        total = sum(number for status, number in matching.items() if status in selected)
        page, pages = _place(arguments, total, page_rows)
        first = (page - 1) * page_rows
        rows = rows_of(ask(f"{query.sql}\nLIMIT {page_rows} OFFSET {first}")) if total else []
    return RowsPage(
        rows=rows,
        sort=query.sort.removeprefix("-"),
        is_descending=query.sort.startswith("-"),
        page=page,
        pages=pages,
        total=total,
        of=sum(row["rows"] for row in counts),
        statuses=worst_first({name: matching[name] for name in matching if name is not None}),
        sql=query.sql,
    )


def rows_page(
    rows: Sequence[Row],
    *,
    arguments: Mapping[str, str] | None = None,
    sort: str,
    columns: Iterable[str],
    page_rows: int = PAGE_ROWS,
) -> RowsPage:
    """The page of rows that Python made.

    Args:
        rows: all rows.
        arguments: `sort` (a column, with the prefix `-` for descending order) and `page`; by
            default of the address of the request.
        sort: the default sort order, also if the address has an unknown column.
        columns: the columns that can be sorted by.
        page_rows: the number of rows per page.
    """
    arguments = request.query_params if arguments is None else arguments
    wanted = arguments.get("sort", sort)
    if wanted.removeprefix("-") not in set(columns):
        wanted = sort
    name = wanted.removeprefix("-")
    is_descending = wanted.startswith("-")
    known = [row for row in rows if row[name] is not None]
    known.sort(key=lambda row: _in_any_case(row[name]), reverse=is_descending)
    # Null comes last in both directions.
    ordered = [*known, *(row for row in rows if row[name] is None)]
    page, pages = _place(arguments, len(rows), page_rows)
    first = (page - 1) * page_rows
    return RowsPage(
        rows=ordered[first : first + page_rows],
        sort=name,
        is_descending=is_descending,
        page=page,
        pages=pages,
        total=len(rows),
        of=len(rows),
        statuses={},
    )


def _place(arguments: Mapping[str, str], total: int, page_rows: int) -> tuple[int, int]:
    """The page of the address, or the nearest one that exists, and the number of pages."""
    pages = max(ceil(total / page_rows), 1)
    number = arguments.get("page", "1")
    page = int(number) if number.isdecimal() and len(number) < 10 else 1
    return min(max(page, 1), pages), pages


def _in_any_case(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
