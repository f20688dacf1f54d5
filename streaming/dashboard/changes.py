"""The page of changes between two moments."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from flask import g, render_template

from streaming.dashboard.moments import moment_of
from streaming.dashboard.page_snapshot import PageSnapshot

_MOST = 500
_DEFAULT_SPAN = timedelta(minutes=20)


def page() -> str:
    """Show groups that appeared, disappeared or changed, changed offsets, and events."""
    until: PageSnapshot = g.cluster.snapshot(moment_of("until") or g.at)
    since: PageSnapshot = g.cluster.snapshot(moment_of("since") or _default_since(until))
    if since.at > until.at:
        since, until = until, since
    return render_template(
        "changes.html",
        snapshot=until,
        since=since,
        until=until,
        groups=_groups(since, until),
        moved=_moved(since, until),
        events=_events(since, until),
        most=_MOST,
    )


def _default_since(until: PageSnapshot) -> datetime:
    # Whole minutes: refreshes of the page compare with the same moment, whose snapshot is cached.
    since = (until.at - _DEFAULT_SPAN).replace(second=0, microsecond=0)
    return max(since, until.reader.begins_at)


def _groups(since: PageSnapshot, until: PageSnapshot) -> list[dict[str, Any]]:
    """Groups whose status, state, or number of members or partitions changed."""
    before, after = _by_group(since), _by_group(until)
    found = []
    for group_id in sorted(before.keys() | after.keys()):
        was, became = before.get(group_id), after.get(group_id)
        if was is None or became is None or _state(was) != _state(became):
            found.append({"group_id": group_id, "before": was, "after": became})
    return found[:_MOST]


def _by_group(snapshot: PageSnapshot) -> Mapping[str, Mapping[str, Any]]:
    return {row["group_id"]: row for row in snapshot.group_rows}


def _state(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["status"], row["group_state"], row["members"], row["partitions"]


def _moved(since: PageSnapshot, until: PageSnapshot) -> list[dict[str, Any]]:
    """Changes of the committed offsets per group and topic; groups that went back come first."""
    before, after = _offsets(since), _offsets(until)
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for key in before.keys() | after.keys():
        was, became = before.get(key), after.get(key)
        if was != became:
            of = totals.setdefault(key[:2], {"forward": 0, "back": 0, "added": 0, "removed": 0})
            if was is None:
                of["added"] += 1
            elif became is None:
                of["removed"] += 1
            else:
                of["forward" if became > was else "back"] += abs(became - was)
    rows = [{"group_id": group, "topic": topic, **of} for (group, topic), of in totals.items()]
    rows.sort(key=lambda row: (-row["back"], -row["removed"], row["group_id"], row["topic"]))
    return rows[:_MOST]


def _offsets(snapshot: PageSnapshot) -> dict[tuple[str, str, int], int]:
    columns = [
        snapshot.lags[name].to_pylist()
        for name in ("group_id", "topic", "partition", "committed_offset")
    ]
    return {(group, topic, at): offset for group, topic, at, offset in zip(*columns, strict=True)}


def _events(since: PageSnapshot, until: PageSnapshot) -> list[dict[str, Any]]:
    rows = until.reader.read(
        "group_events",
        filters=[
            *(("day", ">=", since.at.date()), ("day", "<=", until.at.date())),
            *(("record_timestamp", ">", since.at), ("record_timestamp", "<=", until.at)),
        ],
    )
    rows = rows.sort_by([("record_timestamp", "descending"), ("record_offset", "descending")])
    found: list[dict[str, Any]] = rows.slice(0, _MOST).to_pylist()
    return found


PAGES = (("changes", "changes", page),)
