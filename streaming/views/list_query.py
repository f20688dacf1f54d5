"""A list that people see: its SELECT, its filters, its order, and the pages of its rows.

The page, its files, the API, the tools for agents and the command line run the same query. Values
that clients chose are literals of `sql_literal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final, TypeAlias

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.sql_literal import sql_literal

Condition: TypeAlias = "tuple[str, str, Any]"
"""A column, an operator and a value, as `TableReader.read` takes them."""
Key: TypeAlias = "tuple[str | int, ...]"
"""The place of a row in a list; different rows have different keys."""

_BY_RANK: Final = ", ".join(
    f"'{status.value}'" for status in sorted(Status, key=lambda status: status.rank)
)
_NUMBERS: Final = frozenset({"number", "place", "lag", "time_lag", "duration"})
_ASCENDING: Final = frozenset({"text", "group", "topic", "place"})
_TEXTS: Final = frozenset(
    {"group_id", "group_state", "topic", "client_id", "state", "slowest_group_id"}
)
"""Columns that are sorted without regard to case."""
PLACE_OF_ROW: Final = "place_in_list"
"""The column of the key of a row."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as people see it.

    Attributes:
        name: its name in the rows.
        label: its heading.
        kind: how a value is shown, one of the macro `cell`; the table itself shows those of `own`.
        sort: the column by which its heading sorts; by default itself, none for `own` and `why`.
        css: the classes of its cells.
        about: a longer heading, shown on hover.
        is_number: whether digits stand below each other; also those of some kinds do.
        is_ascending: whether the heading first sorts in ascending order, as for some kinds.
    """

    name: str
    label: str
    kind: str = "text"
    sort: str = ""
    css: str = field(kw_only=True, default="")
    about: str = field(kw_only=True, default="")
    is_number: bool = field(kw_only=True, default=False)
    is_ascending: bool = field(kw_only=True, default=False)

    def __post_init__(self) -> None:
        by_itself = {"own": "", "why": "", "status": "rank"}.get(self.kind, self.name)
        object.__setattr__(self, "sort", self.sort or by_itself)
        object.__setattr__(self, "is_number", self.is_number or self.kind in _NUMBERS)
        object.__setattr__(self, "is_ascending", self.is_ascending or self.kind in _ASCENDING)


def columns(kind: str, /, **labels: str) -> Iterator[Column]:
    """Columns of one kind: their labels by their names."""
    return (Column(name, label, kind) for name, label in labels.items())


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
        shown: the columns that people see.
        key: the terms of the key of a row, which are never null, and the type of each.
        reads: a table that is read for the query, and the conditions of the rows that it needs.
    """

    source: str
    columns: str = "*"
    within: Sequence[str] = ()
    filters: Sequence[str] = ()
    statuses: Sequence[str] = ()
    sort: str = ""
    then: Sequence[str]
    shown: Sequence[Column] = ()
    key: Mapping[str, type] = field(default_factory=dict)
    reads: tuple[str, Sequence[Condition]] = ("", ())

    @property
    def sql(self) -> str:
        """The query of all rows that match, in order."""
        return self.sql_of(self.columns)

    def sql_of(self, columns: str) -> str:
        """The query with these columns."""
        return self._select(columns, [*_sorted_by(self.sort), *self.then])

    def counts(self, *, by: str = "NULL") -> str:
        """The number of `rows`, and of those that `match` the filters, by a column or a literal."""
        condition = " AND ".join(self.filters) or "true"
        return lines(
            f"SELECT {by} AS value, count(*) AS rows, count(*) FILTER ({condition}) AS matching",
            f"FROM {self.source}",
            where(self.within),
            "GROUP BY value",
        )

    def number(self, last: Key | None = None) -> str:
        """The `number` of rows that match, or of those behind a key."""
        return self._select("count(*) AS number", [], last)

    def behind(self, last: Key | None, columns: str = "*") -> str:
        """The rows behind a key, or all rows, each with its key, in the order of the keys.

        Rows that appear or disappear between two calls neither repeat nor hide others.
        """
        return self._select(f"{columns}, {self._place} AS {PLACE_OF_ROW}", self.key, last)

    @property
    def _place(self) -> str:
        return _struct({name: name for name in self.key})

    def _select(self, columns: str, order: Collection[str], last: Key | None = None) -> str:
        conditions = [*self.within, *self.filters, *any_of("status", self.statuses)]
        if last is not None:
            place = _struct(dict(zip(self.key, map(literal, last), strict=True)))
            conditions.append(f"{self._place} > {place}")
        by = f"ORDER BY {', '.join(order)}" if order else ""
        return lines(f"SELECT {columns}", f"FROM {self.source}", where(conditions), by)


def _struct(fields: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{sql_literal(name)}: {value}' for name, value in fields.items())}}}"


def rank(status: str) -> str:
    """The severity of a status; greater is worse."""
    return f"list_position([{_BY_RANK}], {status})"


def lines(*texts: str) -> str:
    """The texts that are not empty, each in a line."""
    return "\n".join(text for text in texts if text)


def where(conditions: Collection[str]) -> str:
    """A WHERE for conditions that must all hold; empty without any."""
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def literal(value: str | int | date) -> str:
    """A value in SQL; a time has a zone.

    >>> literal("it's"), literal(7), literal(date(2026, 11, 21))
    ("'it''s'", '7', "DATE '2026-11-21'")
    """
    match value:
        case datetime():
            return f"TIMESTAMPTZ '{value.isoformat()}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return sql_literal(value)
    return str(value)


def in_sql(conditions: Iterable[Condition]) -> Iterator[str]:
    """The conditions as SQL."""
    for name, operator, value in conditions:
        if operator == "in":
            yield from any_of(name, value)
        else:
            yield f"{name} {operator} {literal(value)}"


def in_group(group_id: str | None) -> list[str]:
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


def chosen(sort: str, columns: Iterable[Column], default: str, also: Collection[str] = ()) -> str:
    """The order of an address; the default one if the list cannot be sorted by the column."""
    sorts = {column.sort for column in columns if column.sort}.union(also)
    return sort if sort.removeprefix("-") in sorts else default


def _sorted_by(sort: str) -> Iterator[str]:
    name = sort.removeprefix("-")
    if name:
        term = rank("status") if name == "rank" else f"lower({name})" if name in _TEXTS else name
        yield f"{term}{' DESC' if sort != name else ''} NULLS LAST"
