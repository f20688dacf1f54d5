"""Tables that are sorted, filtered and paged by their address, so that a view can be shared."""

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

    `page` counts from 1; `total` is how many rows fit, `of` how many there are, and `statuses` how
    many of those are in each status, worst first.
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
    """The page of a table that an address asks for.

    It says `search` (a part of a name), `status`, `sort` (`-` before it for descending) and `page`.

    Args:
        rows: all of them.
        arguments: of the address.
        sort: what they are sorted by where the address says nothing that is known.
        columns: what they can be sorted by.
        searched: the column that names are searched in; rows have a `status` then.
        page_rows: how many of them a page has.
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
    # What is not known comes last, whichever way.
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
    """How many there are of each status, worst first."""
    found = Counter(Status(status) for status in statuses)
    return {status.value: found[status] for status in sorted(found, key=lambda one: -one.rank)}


def _order(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value
