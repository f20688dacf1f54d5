"""A list that people see: its SELECT, its filters and its order.

The page shows some rows of it, and the links beside it run the same query for all rows. Values that
clients chose are literals of `sql_literal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.sql_literal import sql_literal

_BY_RANK: Final = ", ".join(
    f"'{status.value}'" for status in sorted(Status, key=lambda status: status.rank)
)
_TEXTS: Final = frozenset(
    {"group_id", "group_state", "topic", "client_id", "state", "slowest_group_id"}
)
"""Columns that are sorted without regard to case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """A query in DuckDB's SQL.

    Attributes:
        source: the FROM, which may be a SELECT in parentheses.
        columns: the columns of a row.
        within: the conditions of every row.
        filters: conditions that a reader chose, without that of the status.
        statuses: the statuses that a reader chose, any of them; all if empty.
        sort: the column of the order that a reader chose, with the prefix `-` for descending order;
            `rank` is that of the status. Null comes last.
        then: the terms of ORDER BY that follow, or all if `sort` is empty.
        lags_of: a column of `group_lag`, and the values in the rows that the query needs; all rows
            if None.
    """

    source: str
    columns: str = "*"
    within: Sequence[str] = ()
    filters: Sequence[str] = ()
    statuses: Sequence[str] = ()
    sort: str = ""
    then: Sequence[str]
    lags_of: tuple[str, Sequence[str]] | None = None

    @property
    def sql(self) -> str:
        """The query of all rows that match, in order."""
        return self.sql_of(self.columns)

    def sql_of(self, columns: str) -> str:
        """The query with these columns."""
        conditions = [*self.within, *self.filters, *any_of("status", self.statuses)]
        order = ", ".join([*([_sorted_by(self.sort)] if self.sort else []), *self.then])
        return lines(
            f"SELECT {columns}", f"FROM {self.source}", where(conditions), f"ORDER BY {order}"
        )

    def counts(self, *, by: str) -> str:
        """The number of `rows`, and of those that `match` the filters, by a column or a literal."""
        condition = " AND ".join(self.filters) or "true"
        return lines(
            f"SELECT {by} AS value, count(*) AS rows, count(*) FILTER ({condition}) AS matching",
            f"FROM {self.source}",
            where(self.within),
            "GROUP BY value",
        )


def rank(status: str) -> str:
    """The severity of a status; greater is worse."""
    return f"list_position([{_BY_RANK}], {status})"


def lines(*texts: str) -> str:
    """The texts that are not empty, each in a line."""
    return "\n".join(text for text in texts if text)


def where(conditions: Collection[str]) -> str:
    """A WHERE for conditions that must all hold; empty without any."""
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def of_group(group_id: str | None) -> list[str]:
    """The condition of a group; none for all groups."""
    return [] if group_id is None else equal("group_id", group_id)


def equal(name: str, value: str) -> list[str]:
    """The condition that a column has a value."""
    return [f"{name} = {sql_literal(value)}"]


def any_of(name: str, values: Collection[str]) -> Iterator[str]:
    """The condition that a column has any of these values; none without values."""
    if values:
        yield f"{name} IN ({', '.join(map(sql_literal, values))})"


def has_part(name: str, part: str) -> Iterator[str]:
    """The condition that a name has a part, in any case; none if the part is empty."""
    if part:
        yield f"contains(lower({name}), lower({sql_literal(part)}))"


def during(since: datetime | None, until: datetime | None) -> Iterator[str]:
    """The conditions of a period of a table with days."""
    for operator, moment in ((">=", since), ("<=", until)):
        if moment is not None:
            yield f"day {operator} DATE '{moment:%Y-%m-%d}'"
            yield f"record_timestamp {operator} TIMESTAMPTZ '{moment.isoformat()}'"


def chosen(sort: str, columns: Collection[str], default: str) -> str:
    """The order of an address; the default one if the list cannot be sorted by the column."""
    return sort if sort.removeprefix("-") in columns else default


def _sorted_by(sort: str) -> str:
    name = sort.removeprefix("-")
    term = rank("status") if name == "rank" else f"lower({name})" if name in _TEXTS else name
    return f"{term}{' DESC' if sort != name else ''} NULLS LAST"
