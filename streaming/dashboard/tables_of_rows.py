"""Tables whose sort order, filter and page are in the address, so that users can share a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from coordinator_state.insight.group_status import Status

Row = Mapping[str, Any]
PAGE_ROWS = 50


@dataclass(frozen=True, slots=True)
class RowsPage:
    """A page of a table.

    `page` counts from 1. `total` is the number of rows that match the filter, and `of` the number
    of all rows. `statuses` counts all rows by status, worst first.
    """

    rows: Sequence[Row]
    sort: str
    is_descending: bool
    page: int
    pages: int
    total: int
    of: int
    statuses: Mapping[str, int]


def rows_page(
    rows: Sequence[Row],
    arguments: Mapping[str, str],
    *,
    sort: str,
    columns: Iterable[str],
    searched: str | None = None,
    page_rows: int = PAGE_ROWS,
) -> RowsPage:
    """The page of a table that an address selects.

    The address may set `search` (part of a name), `status`, `sort` (a column, with the prefix `-`
    for descending order) and `page`.

    Args:
        rows: all rows.
        arguments: the arguments of the address.
        sort: the default sort order, also if the address has an unknown column.
        columns: the columns that can be sorted by.
        searched: the column that is searched; rows must then have a `status`.
        page_rows: the number of rows per page.
    """
    wanted = arguments.get("sort", sort)
    name = wanted.removeprefix("-")
    if name not in set(columns):
        wanted, name = sort, sort.removeprefix("-")
    is_descending = wanted.startswith("-")
    part, status = arguments.get("search", "").casefold(), arguments.get("status", "")
    found = [
        row
        for row in rows
        if searched is None or (part in row[searched].casefold() and status in ("", row["status"]))
    ]
    known = [row for row in found if row[name] is not None]
    known.sort(key=lambda row: _order(row[name]), reverse=is_descending)
    # Rows with an unknown value come last in both directions.
    ordered = known + [row for row in found if row[name] is None]
    pages = max(ceil(len(ordered) / page_rows), 1)
    number = arguments.get("page", "1")
    page = min(max(int(number), 1), pages) if number.isdecimal() and len(number) < 10 else 1
    first = (page - 1) * page_rows
    return RowsPage(
        rows=ordered[first : first + page_rows],
        sort=name,
        is_descending=is_descending,
        page=page,
        pages=pages,
        total=len(ordered),
        of=len(rows),
        statuses={} if searched is None else counted(row["status"] for row in rows),
    )


def counted(statuses: Iterable[str]) -> Mapping[str, int]:
    """The number of each status, worst first."""
    found = Counter(Status(status) for status in statuses)
    return {status.value: found[status] for status in sorted(found, key=lambda one: -one.rank)}


def _order(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
