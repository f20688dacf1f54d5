"""Selections of history: rows of the history tables, newest last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_events import EventName
from streaming.errors import ConfigurationError, did_you_mean
from streaming.tables.as_of import in_utc, parse_time
from streaming.tables.reader import TableReader

HistoryTable: TypeAlias = Literal["group_events", "offset_commits", "group_records"]
Moment: TypeAlias = "datetime | str"
_TIME = "record_timestamp"
_LOG_ORDER = ("log_partition", "record_offset")
_EVENT_NAMES = [name.value for name in EventName]


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
    events: Collection[str] = (),
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> History:
    """Select rows of a group, of a period (both ends belong to it), and of these events.

    Rows without a record timestamp count as the oldest, and belong to no period.

    Args:
        reader: the snapshot; it ends the history.
        table: the table. Only `group_events` has events.
        group: the group; all groups if None.
        events: names of events; all if empty.
        since: the beginning of the period, a time or its text.
        until: the end of the period.
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
    if events:
        filters.append(("event", "in", sorted(set(events))))
    for operator, moment in ((">=", _time(since)), ("<=", _time(until))):
        if moment is not None:
            filters += [("day", operator, moment.date()), (_TIME, operator, moment)]
    return _newest(reader, table, filters, limit)


def _time(moment: Moment | None) -> datetime | None:
    if moment is None:
        return None
    return parse_time(moment) if isinstance(moment, str) else in_utc(moment)


def _newest(
    reader: TableReader,
    table: HistoryTable,
    filters: list[tuple[str, str, Any]],
    limit: int | None,
) -> History:
    total = None
    if limit is not None:
        # Times alone first: a busy cluster has millions of rows, and most columns are wide.
        times = reader.read(table, [_TIME], filters or None)[_TIME]
        total = len(times)
        if total > limit:
            oldest = _nth_newest(times, limit)
            if oldest is not None:
                filters = [*filters, ("day", ">=", oldest.date()), (_TIME, ">=", oldest)]
    rows = reader.read(table, filters=filters or None)
    order = [name for name in (_TIME, *_LOG_ORDER, "event_number") if name in rows.column_names]
    # Nulls are at the end of every order, so the newest rows come first and are turned round.
    newest_first = pc.sort_indices(rows, sort_keys=[(name, "descending") for name in order])
    shown = rows.take(newest_first[:limit][::-1])
    return History(shown, (len(rows) if total is None else total) - len(shown))


def _nth_newest(times: pa.ChunkedArray, number: int) -> datetime | None:
    """The nth newest time; None if fewer are known."""
    known = times.drop_null()
    if len(known) < number:
        return None
    newest = pc.select_k_unstable(known, k=number, sort_keys=[("", "descending")])
    found: datetime = known[newest[-1].as_py()].as_py()
    return found
