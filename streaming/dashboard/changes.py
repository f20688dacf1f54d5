"""The page of changes between two moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow.compute as pc
from flask import g, render_template, request

from coordinator_state.insight.group_status import Status
from streaming.dashboard.events import EVENT_NAMES, events_page
from streaming.dashboard.moments import moment_of
from streaming.dashboard.page_snapshot import PageSnapshot

_MOST = 500
_DEFAULT_SPAN = timedelta(minutes=20)


class _Heaviest(NamedTuple):
    """The rows of a table that matter most, and the number of the others."""

    rows: Sequence[Mapping[str, Any]]
    more: int


def page() -> str:
    """Show groups that appeared, disappeared or changed, changed offsets, and events."""
    until: PageSnapshot = g.cluster.snapshot(moment_of("until") or g.at)
    since: PageSnapshot = g.cluster.snapshot(moment_of("since") or _default_since(until))
    if since.at > until.at:
        since, until = until, since
    group_id = request.args.get("group") or None
    return render_template(
        "changes.html",
        snapshot=until,
        since=since,
        until=until,
        group=group_id,
        groups=_groups(since, until, group_id),
        moved=_moved(since, until, group_id),
        # The page shows whole seconds: the first one belongs to the period.
        events=events_page(
            until, group=group_id, since=since.at.replace(microsecond=0), until=until.at
        ),
        event_names=EVENT_NAMES,
    )


def _default_since(until: PageSnapshot) -> datetime:
    # Whole minutes: refreshes of the page compare with the same moment, whose snapshot is cached.
    since = (until.at - _DEFAULT_SPAN).replace(second=0, microsecond=0)
    return max(since, until.reader.begins_at)


def _groups(since: PageSnapshot, until: PageSnapshot, group_id: str | None) -> _Heaviest:
    """Groups whose status, state, or number of members or partitions changed, worst first."""
    before, after = _states(since), _states(until)
    names = before.keys() | after.keys() if group_id is None else [group_id]
    worst = {
        name: max(Status(side[0]).rank for side in (before.get(name), after.get(name)) if side)
        for name in names
        if before.get(name) != after.get(name)
    }
    found = sorted(worst, key=lambda name: (-worst[name], name))
    shown = found[:_MOST]
    sides = [snapshot.group_list.of_groups(shown) for snapshot in (since, until)]
    rows = [
        {"group_id": name, "before": sides[0].get(name), "after": sides[1].get(name)}
        for name in shown
    ]
    return _Heaviest(rows, len(found) - len(shown))


def _states(snapshot: PageSnapshot) -> Mapping[str, tuple[Any, ...]]:
    """The part of each group whose change is shown, by group."""
    names, *states = (
        snapshot.group_list.column(name).to_pylist()
        for name in ("group_id", "status", "group_state", "members", "partitions")
    )
    return dict(zip(names, zip(*states, strict=True), strict=True))


def _moved(since: PageSnapshot, until: PageSnapshot, group_id: str | None) -> _Heaviest:
    """Changes of the committed offsets per group and topic; groups that went back come first."""
    before, after = _offsets(since, group_id), _offsets(until, group_id)
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
    return _Heaviest(rows[:_MOST], max(len(rows) - _MOST, 0))


def _offsets(snapshot: PageSnapshot, group_id: str | None) -> dict[tuple[str, str, int], int]:
    lags = snapshot.lags
    if group_id is not None:
        lags = lags.filter(pc.field("group_id") == group_id)
    columns = [
        lags[name].to_pylist() for name in ("group_id", "topic", "partition", "committed_offset")
    ]
    return {(group, topic, at): offset for group, topic, at, offset in zip(*columns, strict=True)}


PAGES = (("changes", "changes", page),)
