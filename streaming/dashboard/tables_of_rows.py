"""Tables whose sort order, filter and page are in the address, so that users can share a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from coordinator_state.apply.columns import rows_of
from streaming.dashboard.request import request
from streaming.served.snapshot import ServedSnapshot, worst_first
from streaming.views.list_query import Column, ListQuery, chosen

Row = Mapping[str, Any]
PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class RowsPage:
    """A page of a table.

    `page` counts from 1. `total` is the number of rows that match the filter, and `of` the number
    of all rows. `statuses` counts the rows that match the other filters by status, worst first.
    `sort` is the column of the order, with the prefix `-` for descending order. `sql` is the query
    of all rows that match, if the tables have them.
    """

    rows: Sequence[Any]
    columns: Sequence[Column]
    page: int
    pages: int
    total: int
    of: int
    statuses: Mapping[str, int] = field(default_factory=dict)
    sort: str = ""
    sql: str = ""


def chosen_values(name: str) -> list[str]:
    """The values of an argument without empty ones: forms send them for fields without a choice."""
    return [value for value in dict.fromkeys(request.query_params.getlist(name)) if value]


def list_page(
    snapshot: ServedSnapshot,
    query: ListQuery,
    *,
    arguments: Mapping[str, str] | None = None,
    page_rows: int = PAGE_ROWS,
) -> RowsPage:
    """The page of a list that an address selects.

    Args:
        snapshot: the tables.
        query: the list.
        arguments: `page`; by default of the address of the request.
        page_rows: the number of rows per page.
    """
    arguments = request.query_params if arguments is None else arguments
    with snapshot.asking(query) as ask:
        has_status = any(column.name == "status" for column in query.shown)
        counts = rows_of(ask(query.counts(by="status" if has_status else "NULL")))
        matching = {row["value"]: row["matching"] for row in counts if row["matching"]}
        selected = query.statuses or matching
        total = sum(number for status, number in matching.items() if status in selected)
        page, pages = _place(arguments, total, page_rows)
        first = (page - 1) * page_rows
        rows = rows_of(ask(f"{query.sql}\nLIMIT {page_rows} OFFSET {first}")) if total else []
    return RowsPage(
        rows=rows,
        columns=query.shown,
        sort=query.sort,
        page=page,
        pages=pages,
        total=total,
        of=sum(row["rows"] for row in counts),
        statuses=worst_first({name: matching[name] for name in matching if name is not None}),
        sql=query.sql,
    )


def rows_page(
    rows: Sequence[Any],
    columns: Sequence[Column] = (),
    *,
    arguments: Mapping[str, str] | None = None,
    sort: str = "",
    page_rows: int = PAGE_ROWS,
    sql: str = "",
) -> RowsPage:
    """The page of rows that Python made.

    Args:
        rows: all rows.
        columns: the columns of the table.
        arguments: `sort` (a column, with the prefix `-` for descending order) and `page`; by
            default of the address of the request.
        sort: the default sort order, also if the address has an unknown column; the rows are in
            their order if it is empty.
        page_rows: the number of rows per page.
        sql: the query of the rows in the tables.
    """
    arguments = request.query_params if arguments is None else arguments
    if sort:
        sort = chosen(arguments.get("sort", sort), columns, sort)
        name = sort.removeprefix("-")
        known = [row for row in rows if row[name] is not None]
        known.sort(key=lambda row: _in_any_case(row[name]), reverse=sort != name)
        # Null comes last in both directions.
        rows = [*known, *(row for row in rows if row[name] is None)]
    page, pages = _place(arguments, len(rows), page_rows)
    return RowsPage(
        rows=rows[(page - 1) * page_rows : page * page_rows],
        columns=columns,
        page=page,
        pages=pages,
        total=len(rows),
        of=len(rows),
        sort=sort,
        sql=sql,
    )


def _place(arguments: Mapping[str, str], total: int, page_rows: int) -> tuple[int, int]:
    """The page of the address, or the nearest one that exists, and the number of pages."""
    pages = max(ceil(total / page_rows), 1)
    number = arguments.get("page", "1")
    page = int(number) if number.isdecimal() and len(number) < 10 else 1
    return min(max(page, 1), pages), pages


def _in_any_case(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
