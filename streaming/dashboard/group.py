"""A group: its state, members, partitions, charts and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from flask import abort, g, jsonify, render_template, request
from werkzeug.wrappers import Response

from streaming.dashboard.page_snapshot import PageSnapshot
from streaming.dashboard.shown import level
from streaming.dashboard.tables_of_rows import rows_page
from streaming.lag.group_status import group_statuses
from streaming.lag.lag_history import lag_history
from streaming.tables.reader import TableReader

SPANS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
_LOOKS = 20
_CLOSER = 4
"""So many times the time between two looks is halved to find when a status changed."""
_PARTITIONS_SORTED_BY = (
    *("topic", "partition", "committed_offset", "log_end_offset", "lag", "time_lag_ms"),
    *("rank", "commit_timestamp", "client_id", "pending_offset"),
)


def page() -> str:
    """One group."""
    group_id = request.args.get("group", "")
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    found = next((row for row in snapshot.group_rows if row["group_id"] == group_id), None)
    events = _events(snapshot, group_id)
    if found is None and not events:
        abort(404, f"There is no group {group_id!r} at this moment, and no event tells of one.")
    stated = snapshot.reader.own("groups", _STATED, [group_id]).to_pylist()
    return render_template(
        "group.html",
        snapshot=snapshot,
        group_id=group_id,
        group=found,
        stated=stated[0] if stated else None,
        members=snapshot.reader.own("group_members", _MEMBERS, [group_id]).to_pylist(),
        partitions=rows_page(
            snapshot.partitions_of(group_id),
            request.args,
            sort="-rank",
            columns=_PARTITIONS_SORTED_BY,
            searched="topic",
            page_rows=200,
        ),
        events=events[:_MOST_EVENTS],
        more_events=max(len(events) - _MOST_EVENTS, 0),
        span=_span(),
        spans=SPANS,
    )


_STATED = ["protocol_type", "protocol", "leader", "generation", "group_epoch", "replay_warning"]
_MEMBERS = [
    *("member_id", "group_instance_id", "client_id", "client_host", "member_epoch"),
    *("member_state", "subscribed_topics", "assignment", "tasks"),
]
_MOST_EVENTS = 200


def chart() -> Response:
    """Lag and rates over time, and the status at some moments, as JSON."""
    group_id = request.args.get("group", "")
    reader = g.cluster.snapshot(g.at).reader
    until: datetime = reader.moment
    since = until - SPANS[_span()]
    found = lag_history(reader, group_id, since=since, until=until)
    looks = [
        _look(reader, group_id, since + (until - since) * number / _LOOKS)
        for number in range(_LOOKS + 1)
    ]
    return jsonify(
        {
            "at": [at.timestamp() for at in found.at],
            "lag": found.lag,
            "commit_rate": found.commit_rate_per_s,
            "produce_rate": found.produce_rate_per_s,
            "statuses": [_shown(one) for one in looks],
            "changes": [
                {**_shown(now), "before": before.status}
                for before, now in _changes(reader, group_id, looks)
            ],
        }
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """The status of a group at a moment; None where no such group was known."""

    at: datetime
    status: str | None
    reason: str


def _look(reader: TableReader, group_id: str, at: datetime) -> _Look:
    before = reader if at == reader.moment else reader.before(at)
    if before is not None:
        for row in group_statuses(before, at=at, group_ids=[group_id]).to_pylist():
            return _Look(at, row["status"], row["reason"])
    return _Look(at, None, "no such group was known")


def _changes(
    reader: TableReader, group_id: str, looks: Sequence[_Look]
) -> Iterator[tuple[_Look, _Look]]:
    """Where the status became another one: the last look before and the first after, closer by."""
    for before, after in pairwise(looks):
        if before.status == after.status:
            continue
        for _ in range(_CLOSER):
            between = _look(reader, group_id, before.at + (after.at - before.at) / 2)
            if between.status == before.status:
                before = between
            else:
                after = between
        yield before, after


def _shown(look: _Look) -> dict[str, Any]:
    known = {"at": look.at.timestamp(), "status": look.status, "reason": look.reason}
    return known | {"level": "none" if look.status is None else level(look.status)}


def _events(snapshot: PageSnapshot, group_id: str) -> list[dict[str, Any]]:
    """What happened to a group, the newest first."""
    until = snapshot.at
    found: list[dict[str, Any]] = snapshot.reader.read(
        "group_events", filters=[("group_id", "=", group_id)]
    ).to_pylist()
    found = [row for row in found if (row["record_timestamp"] or until) <= until]
    found.sort(
        key=lambda row: (
            row["record_timestamp"] or until,
            *(row["record_offset"], row["event_number"]),
        ),
        reverse=True,
    )
    return found


def _span() -> str:
    found = request.args.get("span", "1h")
    return found if found in SPANS else "1h"


PAGES = (("group", "group", page), ("group/chart", "group_chart", chart))
