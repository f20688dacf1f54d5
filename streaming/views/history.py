"""Selections of history: rows of the history tables, newest last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import filters_to_expression

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.insight.group_events import EventName
from streaming.errors import ConfigurationError, did_you_mean
from streaming.tables.as_of import in_utc, parse_time
from streaming.tables.filters import Filters
from streaming.tables.reader import TableReader

HistoryTable: TypeAlias = Literal["group_events", "offset_commits", "group_records"]
Moment: TypeAlias = "datetime | str"
_TIME = "record_timestamp"
_LOG_ORDER = ("log_partition", "record_offset")
_EVENT_NAMES = [name.value for name in EventName]


class Place(NamedTuple):
    """The place of a row in its history: the record timestamp, and then the order of the log."""

    record_timestamp: datetime | None
    log_partition: int
    record_offset: int
    event_number: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """The newest rows of a selection in the order of their record timestamps.

    `more` is the number of older rows of the selection that are not in `rows`.
    """

    rows: pa.Table
    more: int


def history(
    reader: TableReader,
    table: HistoryTable,
    *,
    group: str | None = None,
    topic: str | None = None,
    events: Collection[str] = (),
    since: Moment | None = None,
    until: Moment | None = None,
    before: Place | None = None,
    limit: int | None = None,
) -> History:
    """Select rows of a group, of a period (both ends belong to it), and of these events.

    Rows without a record timestamp count as the oldest, and belong to no period.

    Args:
        reader: the snapshot; it ends the history.
        table: the table. Only `group_events` has events.
        group: the group; all groups if None.
        topic: only rows of this topic.
        events: names of events; all if empty.
        since: the beginning of the period, a time or its text.
        until: the end of the period.
        before: only rows before this one, in the order of the history.
        limit: the number of rows to return; all if None.

    Raises:
        ConfigurationError: a text is not a time, or a name is not an event.
    """
    unknown = sorted(set(events) - set(_EVENT_NAMES))
    if unknown:
        names = f"{', '.join(_EVENT_NAMES)}{did_you_mean(unknown[0], _EVENT_NAMES)}"
        raise ConfigurationError(f"{unknown[0]!r} is not an event: {names}")
    filters: list[tuple[str, str, Any]] = []
    if group is not None:
        filters.append(("group_id", "=", group))
    if topic is not None:
        filters.append(("topic", "=", topic))
    if events:
        filters.append(("event", "in", sorted(set(events))))
    for operator, moment in ((">=", _time(since)), ("<=", _time(until))):
        if moment is not None:
            filters += [("day", operator, moment.date()), (_TIME, operator, moment)]
    return _newest(reader, table, filters, before, limit)


def _time(moment: Moment | None) -> datetime | None:
    if moment is None:
        return None
    return parse_time(moment) if isinstance(moment, str) else in_utc(moment)


def _newest(
    reader: TableReader,
    table: HistoryTable,
    filters: list[tuple[str, str, Any]],
    before: Place | None,
    limit: int | None,
) -> History:
    total = None
    if limit is not None:
        # The order alone first: a busy cluster has millions of rows, and most columns are wide.
        columns = [_TIME] if before is None else _order(table)
        places = _before(table, reader.read(table, columns, _expression(filters, before)), before)
        total = len(places)
        oldest = _nth_newest(places[_TIME], limit) if total > limit else None
        if oldest is not None:
            filters = [*filters, ("day", ">=", oldest.date()), (_TIME, ">=", oldest)]
    rows = _before(table, reader.read(table, filters=_expression(filters, before)), before)
    # Nulls are at the end of every order, so the newest rows come first and are turned round.
    newest_first = pc.sort_indices(rows, sort_keys=[(name, "descending") for name in _order(table)])
    shown = rows.take(newest_first[:limit][::-1])
    return History(shown, (len(rows) if total is None else total) - len(shown))


def _order(table: HistoryTable) -> list[str]:
    return [_TIME, *_LOG_ORDER, *(["event_number"] if table == "group_events" else [])]


def _expression(filters: list[tuple[str, str, Any]], before: Place | None) -> Filters | None:
    """The filters, and that of the time of `before`, which needs an expression for nulls."""
    if before is None or before.record_timestamp is None:
        return filters or None
    at = pc.field(_TIME)
    until = at.is_null() | (at <= pa.scalar(before.record_timestamp, TIMESTAMP))
    return until & filters_to_expression(filters) if filters else until


def _before(table: HistoryTable, rows: pa.Table, before: Place | None) -> pa.Table:
    """The rows before a place; a row without a record timestamp is before all that have one."""
    if before is None:
        return rows
    is_before: Any = pa.repeat(pa.scalar(value=False), len(rows))
    is_equal: Any = pa.repeat(pa.scalar(value=True), len(rows))
    for name, limit in zip(_order(table), before, strict=False):
        column = rows[name]
        if limit is None:
            is_less, is_same = pa.repeat(pa.scalar(value=False), len(rows)), pc.is_null(column)
        else:
            value = pa.scalar(limit, column.type)
            is_less = pc.fill_null(pc.less(column, value), fill_value=True)
            is_same = pc.fill_null(pc.equal(column, value), fill_value=False)
        is_before = pc.or_(is_before, pc.and_(is_equal, is_less))
        is_equal = pc.and_(is_equal, is_same)
    return rows.filter(is_before)


def _nth_newest(times: pa.ChunkedArray, number: int) -> datetime | None:
    """The nth newest time; None if fewer are known."""
    known = times.drop_null()
    if len(known) < number:
        return None
    newest = pc.select_k_unstable(known, k=number, sort_keys=[("", "descending")])
    moment: datetime = known[newest[-1].as_py()].as_py()
    return moment
