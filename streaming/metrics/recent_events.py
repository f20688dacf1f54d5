"""Counts of recent events of groups, for gauges of a window.

They are no counters: history is deleted after some time, and a reload may rewrite it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import with_columns
from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.offsets import Outcome
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, HISTORY_OFF, OFFSET_COMMITS

RECENT: Final = timedelta(minutes=5)
_EVENTS: Final = {
    "rebalances": EventName.REBALANCE,
    "member_joins": EventName.MEMBER_JOINED,
    "member_leaves": EventName.MEMBER_LEFT,
}
COUNTS: Final = (*_EVENTS, "aborted_commits")


def with_recent_events(reader: TableReader, groups: pa.Table) -> pa.Table:
    """The groups with a column for each of `COUNTS`; all null if the tables have no history."""
    if reader.history_mode == HISTORY_OFF:
        return with_columns(groups, dict.fromkeys(COUNTS, pa.nulls(groups.num_rows, pa.int64())))
    # Events have times of the brokers.
    until = reader.moment + reader.clock_skew
    since = until - RECENT
    during = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        ("record_timestamp", "<=", until),
    ]
    names = [event.value for event in _EVENTS.values()]
    events = reader.read(
        GROUP_EVENTS.name, ["group_id", "event"], [*during, ("event", "in", names)]
    )
    aborted = reader.read(
        OFFSET_COMMITS.name, ["group_id"], [*during, ("outcome", "=", Outcome.ABORTED.value)]
    )
    chosen = {
        name: events.filter(pc.equal(events["event"], event.value))
        for name, event in _EVENTS.items()
    }
    chosen["aborted_commits"] = aborted
    return with_columns(groups, {name: _counts(groups, rows) for name, rows in chosen.items()})


def _counts(groups: pa.Table, rows: pa.Table) -> pa.Array:
    """The number of rows of each group."""
    counted = rows.group_by("group_id").aggregate([([], "count_all")])
    known = counted["group_id"].combine_chunks()
    counts = counted["count_all"].take(pc.index_in(groups["group_id"], value_set=known))
    return pc.fill_null(counts, 0)
