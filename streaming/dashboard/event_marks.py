"""Events that a chart marks: those that change the position of a group, and a few rebalances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from flask import url_for

from coordinator_state.insight.event_digest import BY_WEIGHT, FoldedEvents, folded_events
from coordinator_state.insight.event_text import Labels, Row
from coordinator_state.insight.group_events import EventName
from streaming.dashboard.period import around
from streaming.tables.reader import TableReader
from streaming.views.event_summary import event_summary
from streaming.views.text import printable

HEAVY: Final = BY_WEIGHT[: BY_WEIGHT.index(EventName.GROUP_EMPTIED)]
_MOST_EVENTS: Final = 5_000
_MOST_MARKS: Final = 30
_FEW_REBALANCES: Final = 12
_PLACES: Final = 60
"""Equal events closer than a sixtieth of the period are one mark."""


@dataclass(frozen=True, slots=True)
class EventMarks:
    """Marks as JSON, oldest first; `more` is the number of events of the period without a mark."""

    marks: Sequence[dict[str, Any]]
    more: int


def event_marks(reader: TableReader, group_id: str, since: datetime, until: datetime) -> EventMarks:
    """The heaviest events of a group in a period, and its rebalances if they are few.

    Equal events that are too close for a chart are one mark.
    """
    found = event_summary(
        reader,
        group=group_id,
        events=[*HEAVY, EventName.REBALANCE],
        since=since,
        until=until,
        most=_MOST_EVENTS,
    )
    apart = (until - since) / _PLACES
    folded = [one for of_kind in found.rows for one in _split(of_kind, apart, found.labels)]
    rebalances = [one for one in folded if not _is_heavy(one)]
    marked = [one for one in folded if _is_heavy(one)][:_MOST_MARKS]
    if sum(one.count for one in rebalances) <= _FEW_REBALANCES:
        marked += rebalances
    hidden = sum(one.count for one in folded) - sum(one.count for one in marked)
    times = [(one, one.first_at, one.last_at) for one in marked]
    marks = [_mark(one, first, last) for one, first, last in times if first and last]
    return EventMarks(sorted(marks, key=lambda one: one["at"]), hidden + found.more)


def _split(found: FoldedEvents, apart: timedelta, labels: Labels) -> Iterator[FoldedEvents]:
    """The events of a chart's places that are apart from each other, newest first."""
    runs: list[list[Row]] = []
    for row in found.rows:
        if not runs or row["record_timestamp"] - runs[-1][-1]["record_timestamp"] > apart:
            runs.append([])
        runs[-1].append(row)
    for run in reversed(runs):
        yield from folded_events(run, labels)


def _is_heavy(found: FoldedEvents) -> bool:
    return found.events[0] in HEAVY


def _mark(found: FoldedEvents, first_at: datetime, last_at: datetime) -> dict[str, Any]:
    names = ",".join(found.events)
    address = url_for(
        "group",
        group=found.group_id,
        event=names,
        tab="events",
        **around(first_at, last_at),
        _anchor="events",
    )
    return {
        "at": first_at.timestamp(),
        "until": last_at.timestamp(),
        "name": names.replace("_", " "),
        "text": printable(found.text),
        "count": found.count,
        "is_heavy": _is_heavy(found),
        "address": address,
    }
