"""The charts of a group: lag, records and rates, statuses and events over time, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from coordinator_state.insight.event_digest import BY_WEIGHT, FoldedEvents, folded_events
from coordinator_state.insight.event_text import Labels, Row
from coordinator_state.insight.group_events import EventName
from streaming.dashboard.period import around, period_of
from streaming.dashboard.rendered import Page
from streaming.dashboard.request import request, url_for
from streaming.dashboard.shown import level
from streaming.lag.lag_history import lag_histories, reader_of_groups
from streaming.lag.status_history import status_history
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
    summary = event_summary(
        reader,
        group=group_id,
        events=[*HEAVY, EventName.REBALANCE],
        since=since,
        until=until,
        most=_MOST_EVENTS,
    )
    apart = (until - since) / _PLACES
    folded = [run for row in summary.rows for run in _split(row, apart, summary.labels)]
    rebalances = [run for run in folded if not _is_heavy(run)]
    marked = [run for run in folded if _is_heavy(run)][:_MOST_MARKS]
    if sum(run.count for run in rebalances) <= _FEW_REBALANCES:
        marked += rebalances
    hidden = sum(run.count for run in folded) - sum(run.count for run in marked)
    times = [(run, run.first_at, run.last_at) for run in marked]
    marks = [_mark(run, first, last) for run, first, last in times if first and last]
    return EventMarks(sorted(marks, key=lambda mark: mark["at"]), hidden + summary.more)


def _split(folded: FoldedEvents, apart: timedelta, labels: Labels) -> Iterator[FoldedEvents]:
    """The events of a chart's places that are apart from each other, newest first."""
    runs: list[list[Row]] = []
    for row in folded.rows:
        if not runs or row["record_timestamp"] - runs[-1][-1]["record_timestamp"] > apart:
            runs.append([])
        runs[-1].append(row)
    for run in reversed(runs):
        yield from folded_events(run, labels)


def _is_heavy(folded: FoldedEvents) -> bool:
    return folded.events[0] in HEAVY


def _mark(folded: FoldedEvents, first_at: datetime, last_at: datetime) -> dict[str, Any]:
    names = ",".join(folded.events)
    address = url_for(
        "group",
        group=folded.group_id,
        event=names,
        tab="events",
        **around(first_at, last_at),
        fragment="events",
    )
    return {
        "at": first_at.timestamp(),
        "until": last_at.timestamp(),
        "name": names.replace("_", " "),
        "text": printable(folded.text),
        "count": folded.count,
        "is_heavy": _is_heavy(folded),
        "address": address,
    }


def chart() -> Response:
    """Lag, records, rates and events over time.

    The period of the address is cut to the time from the first sample or commit of the group:
    `begin` is the first point.
    """
    group_id = request.query_params.get("group", "")
    reader, since, until = _spanned()
    source = reader_of_groups(reader, [group_id], since, until, is_past=request.at is not None)
    history = lag_histories(source, [group_id], since=since, until=until, begins_with_data=True)[
        group_id
    ]
    begin = history.at[0]
    marks = event_marks(source, group_id, begin, until)
    return JSONResponse(
        {
            "since": since.timestamp(),
            "begin": begin.timestamp(),
            "until": until.timestamp(),
            "at": [at.timestamp() for at in history.at],
            "lag": history.lag,
            "committed": history.consumed,
            "produced": [
                None if lag is None or consumed is None else consumed + lag
                for consumed, lag in zip(history.consumed, history.lag, strict=True)
            ],
            "commit_rate": history.commit_rate_per_s,
            "produce_rate": history.produce_rate_per_s,
            "events": marks.marks,
            "more_events": marks.more,
        }
    )


def statuses() -> Response:
    """Status over time, from the changes that `run` recorded."""
    group_id = request.query_params.get("group", "")
    reader, since, until = _spanned()
    history = status_history(reader, group_id, since=since, until=until)
    return JSONResponse(
        {
            "periods": [
                {
                    "from": period.begin.timestamp(),
                    "until": period.end.timestamp(),
                    **_shown(period.status, "absent" if period.is_known else "not known"),
                    "reason": period.reason,
                }
                for period in history.periods
            ],
            "changes": [
                {
                    "at": change.at.timestamp(),
                    **_shown(change.after, "absent"),
                    "before": change.before or "absent",
                    "reason": change.reason,
                    "around": url_for("group", group=group_id, **around(change.at)),
                }
                for change in history.changes
            ],
        }
    )


def _shown(status: str | None, no_status: str) -> dict[str, str]:
    return {
        "status": status or no_status,
        "level": "none" if status is None else level(status),
    }


def _spanned() -> tuple[TableReader, datetime, datetime]:
    """The tables, and the begin and the end of the period of the charts."""
    reader = request.cluster.opened(request.at).reader
    period = period_of(reader.moment)
    return reader, period.since, period.until


PAGES = (
    Page("group/chart", "group_chart", chart, is_costly=True, may_be_linked=False, is_json=True),
    Page("group/statuses", "group_statuses", statuses, may_be_linked=False, is_json=True),
)
