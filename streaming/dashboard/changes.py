"""The page of changes between two moments."""

from __future__ import annotations

from datetime import datetime, timedelta

from streaming.dashboard.events import EVENT_NAMES, events_page
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import moment_of, request
from streaming.served.changes_between import group_changes, offset_changes
from streaming.served.snapshot import ServedSnapshot

_DEFAULT_SPAN = timedelta(minutes=20)
_MOST_ROWS = 300
"""Of each table: the page stays below 300 kB."""


def page() -> str:
    """Show groups that appeared, disappeared or changed, changed offsets, and events."""
    until = request.cluster.snapshot(moment_of("until") or request.at)
    since = request.cluster.snapshot(moment_of("since") or _default_since(until))
    if since.at > until.at:
        since, until = until, since
    group_id = request.query_params.get("group") or None
    return render_template(
        "changes.html",
        snapshot=until,
        since=since,
        until=until,
        group=group_id,
        groups=group_changes(since, until, group_id, _MOST_ROWS),
        moved=offset_changes(since, until, group_id, _MOST_ROWS),
        # The page shows whole seconds: the first one belongs to the period.
        events=events_page(
            until, group=group_id, since=since.at.replace(microsecond=0), until=until.at
        ),
        event_names=EVENT_NAMES,
    )


def _default_since(until: ServedSnapshot) -> datetime:
    # Whole minutes: refreshes of the page compare with the same moment, whose snapshot is cached.
    since = (until.at - _DEFAULT_SPAN).replace(second=0, microsecond=0)
    return max(since, until.reader.begins_at)


PAGES = (Page("changes", "changes", page, is_costly=True),)
