"""Tables whose sort order, filter and page are in the address, so that users can share a view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import Int64s

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
    wanted = arguments.get("sort", sort)
    name = wanted.removeprefix("-")
    if name not in set(columns):
        wanted, name = sort, sort.removeprefix("-")
    is_descending = wanted.startswith("-")
    statuses = pa.array([]) if searched is None else rows.column("status")
    found = np.arange(len(rows))
    if searched is not None:
        found = np.flatnonzero(_is_wanted(rows.column(searched), statuses, arguments))
    ordered = found[_order(rows.column(name).take(pa.array(found)), is_descending=is_descending)]
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
        statuses=counted(statuses),
    )


def counted(statuses: pa.Array) -> Mapping[str, int]:
    """The number of each status, worst first."""
    found = {row["values"]: row["counts"] for row in pc.value_counts(statuses).to_pylist()}
    return {status: found[status] for status in sorted(found, key=lambda one: -Status(one).rank)}


def _is_wanted(names: pa.Array, statuses: pa.Array, arguments: Mapping[str, str]) -> Any:
    """A mask of the rows that the address searches for."""
    part, status = arguments.get("search", "").casefold(), arguments.get("status", "")
    found = np.ones(len(names), np.bool_)
    if part:
        found &= pc.match_substring(_folded(names), part).to_numpy(zero_copy_only=False)
    if status:
        found &= np.asarray(pc.equal(statuses, status))
    return found


def _order(values: pa.Array, *, is_descending: bool) -> Int64s:
    """The places of the values in sort order; null comes last in both directions."""
    if pa.types.is_null(values.type):
        return np.arange(len(values))
    if pa.types.is_string(values.type):
        values = _folded(values)
    order = "descending" if is_descending else "ascending"
    found: Int64s = pc.sort_indices(values, sort_keys=[("", order)]).to_numpy().astype(np.int64)
    return found


def _folded(names: pa.Array) -> pa.Array:
    folded = [None if one is None else one.casefold() for one in names.to_pylist()]
    return pa.array(folded, pa.string())
