"""The charts of a group: lag, records and rates, statuses and events over time, as JSON."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import JSONResponse, Response

from streaming.dashboard.event_marks import event_marks
from streaming.dashboard.period import around, period_of
from streaming.dashboard.rendered import Page
from streaming.dashboard.request import request, url_for
from streaming.dashboard.shown import level
from streaming.lag.lag_history import lag_history, reader_of_groups
from streaming.lag.status_history import status_history
from streaming.tables.reader import TableReader


def chart() -> Response:
    """Lag, records, rates and events over time.

    The period of the address is cut to the time from the first sample or commit of the group:
    `begin` is the first point.
    """
    group_id = request.query_params.get("group", "")
    reader, since, until = _spanned()
    source = reader_of_groups(reader, [group_id], since, until, is_past=request.at is not None)
    history = lag_history(source, group_id, since=since, until=until, begins_with_data=True)
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
    reader: TableReader = request.cluster.opened(request.at).reader
    period = period_of(reader.moment)
    return reader, period.since, period.until


PAGES = (
    Page("group/chart", "group_chart", chart, is_costly=True, may_be_linked=False, is_json=True),
    Page("group/statuses", "group_statuses", statuses, may_be_linked=False, is_json=True),
)
