"""Tables whose sort order, filter and page are in the address, so that users can share a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import Int64s
from streaming.served.folded import folded
from streaming.served.group_filter import having_part
from streaming.served.statuses import counted

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


class Rows(Protocol):
    """Rows of which a page shows some; they are made when they are asked for."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """A column of all rows."""

    def rows(self, numbers: Int64s) -> Sequence[Row]:
        """The rows with these numbers, in this order."""


@dataclass(frozen=True, slots=True)
class RowList:
    """Rows that are made already."""

    all: Sequence[Row]

    def __len__(self) -> int:
        return len(self.all)

    def column(self, name: str) -> pa.Array:
        """A column of all rows."""
        return pa.array([row[name] for row in self.all])

    def rows(self, numbers: Int64s) -> Sequence[Row]:
        """The rows with these numbers, in this order."""
        return [self.all[number] for number in numbers]


def rows_page(
    rows: Rows,
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
    statuses = pa.array([]) if searched is None else rows.column("status")
    found = np.arange(len(rows))
    if searched is not None:
        found = np.flatnonzero(_is_wanted(rows.column(searched), statuses, arguments))
    return page_among(
        rows,
        arguments,
        found,
        sort=sort,
        columns=columns,
        page_rows=page_rows,
        statuses=counted(statuses),
    )


def page_among(
    rows: Rows,
    arguments: Mapping[str, str],
    found: Int64s,
    *,
    sort: str,
    columns: Iterable[str],
    then: str | None = None,
    page_rows: int = PAGE_ROWS,
    statuses: Mapping[str, int],
) -> RowsPage:
    """The page of the rows with the numbers `found`; the address sets `sort` and `page`.

    See `rows_page` for the other arguments. Rows that are equal in the sort order are in the
    descending order of the column `then`.
    """
    wanted = arguments.get("sort", sort)
    name = wanted.removeprefix("-")
    if name not in set(columns):
        wanted, name = sort, sort.removeprefix("-")
    is_descending = wanted.startswith("-")
    keys = [rows.column(one).take(pa.array(found)) for one in (name, then) if one is not None]
    ordered = found[_order(keys, is_descending=is_descending)]
    pages = max(ceil(len(ordered) / page_rows), 1)
    number = arguments.get("page", "1")
    page = min(max(int(number), 1), pages) if number.isdecimal() and len(number) < 10 else 1
    first = (page - 1) * page_rows
    return RowsPage(
        rows=rows.rows(ordered[first : first + page_rows]),
        sort=name,
        is_descending=is_descending,
        page=page,
        pages=pages,
        total=len(ordered),
        of=len(rows),
        statuses=statuses,
    )


def _is_wanted(names: pa.Array, statuses: pa.Array, arguments: Mapping[str, str]) -> Any:
    """A mask of the rows that the address searches for."""
    part, status = arguments.get("search", ""), arguments.get("status", "")
    found = np.ones(len(names), np.bool_)
    if part:
        found &= having_part(names.cast(pa.string()), part)
    if status:
        found &= np.asarray(pc.equal(statuses, status).fill_null(False))
    return found


def _order(keys: Sequence[Any], *, is_descending: bool) -> Int64s:
    """The places of values in sort order; null comes last in both directions.

    Equal values of the first key are in the descending order of the second one, if there is one.
    """
    known = {
        str(number): folded(one) if pa.types.is_string(one.type) else one
        for number, one in enumerate(keys)
        if not pa.types.is_null(one.type)
    }
    if not known:
        return np.arange(len(keys[0]))
    orders = {"0": "descending" if is_descending else "ascending", "1": "descending"}
    sort_keys = [(name, orders[name]) for name in known]
    places = pc.sort_indices(pa.table(known), sort_keys=sort_keys)
    found: Int64s = places.to_numpy().astype(np.int64)
    return found
