"""The charts of a group: lag, records and rates, statuses and events over time, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from flask import g, jsonify, request, url_for
from werkzeug.wrappers import Response

from streaming.dashboard.event_marks import event_marks
from streaming.dashboard.period import around, period_of
from streaming.dashboard.shown import level
from streaming.lag.lag_history import lag_history, reader_of_groups
from streaming.lag.past_statuses import GroupStatus, PastStatuses
from streaming.tables.reader import TableReader

_STATUS_STEPS = 20
_HALVINGS = 4
"""How often the interval around a status change is halved, to find its time more exactly."""


def chart() -> Response:
    """Lag, records, rates and events over time.

    The period of the address is cut to the time from the first sample or commit of the group:
    `begin` is the first point.
    """
    group_id = request.args.get("group", "")
    reader, since, until = _spanned()
    source = reader_of_groups(reader, [group_id], since, until, is_past=g.at is not None)
    found = lag_history(source, group_id, since=since, until=until, begins_with_data=True)
    begin = found.at[0]
    marks = event_marks(source, group_id, begin, until)
    return jsonify(
        {
            "since": since.timestamp(),
            "begin": begin.timestamp(),
            "until": until.timestamp(),
            "at": [at.timestamp() for at in found.at],
            "lag": found.lag,
            "committed": found.consumed,
            "produced": [
                None if lag is None or consumed is None else consumed + lag
                for consumed, lag in zip(found.consumed, found.lag, strict=True)
            ],
            "commit_rate": found.commit_rate_per_s,
            "produce_rate": found.produce_rate_per_s,
            "events": marks.marks,
            "more_events": marks.more,
        }
    )


def statuses() -> Response:
    """Status over time. It takes longer than the chart, so the page shows it later."""
    group_id = request.args.get("group", "")
    reader, since, until = _spanned()
    past = PastStatuses(reader, group_id, since)
    found = [
        past.status(since + (until - since) * number / _STATUS_STEPS)
        for number in range(_STATUS_STEPS + 1)
    ]
    return jsonify(
        {
            "statuses": [_status_json(one) for one in found],
            "changes": [
                {
                    **_status_json(now),
                    "before": before.status or "absent",
                    "around": url_for("group", group=group_id, **around(now.at)),
                }
                for before, now in status_changes(past.status, found)
            ],
        }
    )


def status_changes(
    status_at: Callable[[datetime], GroupStatus], statuses: Sequence[GroupStatus]
) -> Iterator[tuple[GroupStatus, GroupStatus]]:
    """The status before and after each change, at moments close to the change.

    Between a known status and a moment that cannot be read, no change is known.
    """
    for before, after in pairwise(statuses):
        if before.status == after.status or not (before.is_known and after.is_known):
            continue
        for _ in range(_HALVINGS):
            between = status_at(before.at + (after.at - before.at) / 2)
            if not between.is_known:
                break
            if between.status == before.status:
                before = between
            else:
                after = between
        yield before, after


def _status_json(found: GroupStatus) -> dict[str, Any]:
    text = found.status or ("absent" if found.is_known else "not known")
    known = {"at": found.at.timestamp(), "status": text, "reason": found.reason}
    return known | {"level": "none" if found.status is None else level(found.status)}


def _spanned() -> tuple[TableReader, datetime, datetime]:
    """The tables, and the begin and the end of the period of the charts."""
    reader: TableReader = g.cluster.opened(g.at).reader
    period = period_of(reader.moment)
    return reader, period.since, period.until


PAGES = (
    ("group/chart", "group_chart", chart),
    ("group/statuses", "group_statuses", statuses),
)
