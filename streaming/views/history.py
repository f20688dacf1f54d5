"""Selections of history: the newest rows of a list of history, newest last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa

from coordinator_state.insight.group_events import EventName
from streaming.errors import ConfigurationError, did_you_mean
from streaming.tables.as_of import in_utc, parse_time
from streaming.tables.reader import TableReader
from streaming.views import lists
from streaming.views.list_query import PLACE_OF_ROW, Key
from streaming.views.lists import PLACES, TIME, HistoryTable

Moment: TypeAlias = "datetime | str"
_NUMBER = "number_of_row"
"""DuckDB orders the numbers of rows, because most columns are wide."""
_EVENT_NAMES = [name.value for name in EventName]


@dataclass(frozen=True, slots=True)
class History:
    """The newest rows of a selection in the order of their record timestamps.

    `more` is the number of older rows of the selection that are not in `rows`. `oldest` is the key
    of the first row. `sql` is the query of all rows of the selection.
    """

    rows: pa.Table
    more: int
    oldest: Key
    sql: str


def history(
    reader: TableReader,
    table: HistoryTable,
    *,
    group: str | None = None,
    topic: str | None = None,
    events: Collection[str] = (),
    since: Moment | None = None,
    until: Moment | None = None,
    before: Key | None = None,
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
    from streaming.views.query import asking

    unknown = sorted(set(events) - set(_EVENT_NAMES))
    if unknown:
        names = f"{', '.join(_EVENT_NAMES)}{did_you_mean(unknown[0], _EVENT_NAMES)}"
        raise ConfigurationError(f"{unknown[0]!r} is not an event: {names}")
    query = lists.history(
        table,
        group_id=group,
        topic=topic,
        events=events,
        since=_time(since),
        until=_time(until),
    )
    _, conditions = query.reads
    filters, total = [*conditions], None
    # The rows are read with the conditions.
    selected = replace(query, within=())
    if limit is not None:
        # The order alone first: a busy cluster has millions of rows, and most columns are wide.
        places = reader.read(table, [TIME, *PLACES[table]], filters or None)
        total = len(places)
        if total > limit or before is not None:
            with asking({table: places}) as ask:
                if before is not None:
                    total = ask(selected.number(before))["number"][0].as_py()
                times = ask(f"{selected.behind(before, TIME)}\nLIMIT {limit}")[TIME]
            if total > limit and times[-1].is_valid:
                filters += [*lists.during(times[-1].as_py(), times[0].as_py())]
    rows = reader.read(table, filters=filters or None)
    numbers = pa.array(range(len(rows)), pa.int64())
    numbered = rows.select([TIME, *PLACES[table]]).append_column(_NUMBER, numbers)
    with asking({table: numbered}) as ask:
        most = "" if limit is None else f"\nLIMIT {limit}"
        newest_first = ask(selected.behind(before, _NUMBER) + most)
    count = len(newest_first)
    last = newest_first[PLACE_OF_ROW][-1].as_py() if count else {}
    rows = rows.take(newest_first[_NUMBER].combine_chunks()[::-1])
    return History(
        rows=rows,
        more=(count if total is None else total) - count,
        oldest=tuple(last.values()),
        sql=query.sql,
    )


def _time(moment: Moment | None) -> datetime | None:
    if moment is None:
        return None
    return parse_time(moment) if isinstance(moment, str) else in_utc(moment)
