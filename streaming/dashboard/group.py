"""The page of a group: its state, members, partitions, charts and events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from flask import abort, g, jsonify, render_template, request
from werkzeug.wrappers import Response

from streaming.dashboard.events import EVENT_NAMES, events_page
from streaming.dashboard.page_snapshot import PageSnapshot
from streaming.dashboard.shown import level
from streaming.dashboard.tables_of_rows import RowList, rows_page
from streaming.lag.lag_history import lag_history
from streaming.lag.past_statuses import GroupStatus, PastStatuses
from streaming.tables.past import Past
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS
from streaming.views.explanation import explained
from streaming.views.member_labels import member_labels

SPANS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
_STATUS_STEPS = 20
_HALVINGS = 4
"""How often the interval around a status change is halved, to find its time more exactly."""
_PARTITIONS_SORTED_BY = (
    *("topic", "partition", "committed_offset", "log_end_offset", "lag"),
    "time_lag_at_least_ms",
    *("rank", "commit_timestamp", "client_id", "pending_offset"),
)


def page() -> str:
    """Show one group."""
    group_id = request.args.get("group", "")
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    found = snapshot.group_list.of_groups([group_id]).get(group_id)
    events = events_page(snapshot, group=group_id, until=g.at, is_ranked=False)
    if found is None and not (events.page.rows or events.names):
        abort(404, f"Group {group_id!r} does not exist at this moment and has no events.")
    details = snapshot.reader.own("groups", _GROUP_COLUMNS, [group_id]).to_pylist()
    members = snapshot.reader.own("group_members", _MEMBER_COLUMNS, [group_id]).to_pylist()
    return render_template(
        "group.html",
        snapshot=snapshot,
        group_id=group_id,
        group=found,
        details=details[0] if details else None,
        members=members,
        labels={**member_labels(snapshot.reader, members), **events.labels},
        partitions=rows_page(
            RowList(snapshot.partitions_of(group_id)),
            request.args,
            sort="-rank",
            columns=_PARTITIONS_SORTED_BY,
            searched="topic",
            page_rows=200,
        ),
        events=events,
        event_names=EVENT_NAMES,
        span=_span(),
        spans=SPANS,
    )


_GROUP_COLUMNS = [
    "protocol_type",
    "protocol",
    "leader",
    "generation",
    "group_epoch",
    "replay_warning",
]
_MEMBER_COLUMNS = [
    *("member_id", "group_instance_id", "client_id", "client_host", "member_epoch"),
    *("member_state", "subscribed_topics", "assignment", "tasks"),
]


def why() -> str:
    """Explain one group; the page of the group loads it after itself."""
    group_id = request.args.get("group", "")
    snapshot: PageSnapshot = g.cluster.opened(g.at)
    explanation = explained(snapshot.reader, group_id, at=snapshot.at)
    return render_template(
        "why.html", snapshot=snapshot, group_id=group_id, explanation=explanation
    )


def chart() -> Response:
    """Lag and rates over time, as JSON."""
    group_id = request.args.get("group", "")
    reader, since, until = _spanned()
    past = Past(reader, since=since, group_ids=[group_id], keeps=[OFFSET_COMMITS])
    # A past moment is rebuilt again with the rows of this group only.
    source = past.newest if g.at is None else past.before(until) or reader
    found = lag_history(source, group_id, since=since, until=until)
    return jsonify(
        {
            "at": [at.timestamp() for at in found.at],
            "lag": found.lag,
            "commit_rate": found.commit_rate_per_s,
            "produce_rate": found.produce_rate_per_s,
        }
    )


def statuses() -> Response:
    """Status over time, as JSON. It takes longer than the chart, so the page shows it later."""
    reader, since, until = _spanned()
    past = PastStatuses(reader, request.args.get("group", ""), since)
    found = [
        past.status(since + (until - since) * number / _STATUS_STEPS)
        for number in range(_STATUS_STEPS + 1)
    ]
    return jsonify(
        {
            "statuses": [_status_json(one) for one in found],
            "changes": [
                {**_status_json(now), "before": before.status or "absent"}
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
    """The tables, and the begin and the end of the span of the charts."""
    reader: TableReader = g.cluster.opened(g.at).reader
    return reader, reader.moment - SPANS[_span()], reader.moment


def _span() -> str:
    found = request.args.get("span", "1h")
    return found if found in SPANS else "1h"


PAGES = (
    ("group", "group", page),
    ("group/why", "group_why", why),
    ("group/chart", "group_chart", chart),
    ("group/statuses", "group_statuses", statuses),
)
