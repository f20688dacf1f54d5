"""The page of a group: its state, charts and tables."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from streaming.dashboard.group_tabs import records, transactions
from streaming.dashboard.group_tabs.shown_group import ShownGroup, named_period
from streaming.dashboard.group_tabs.tabs import chosen_of, shown, tab_address, tabs_of
from streaming.dashboard.period import SPANS, period_of
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.tables.properties import history_interval_ms
from streaming.views.history import history


def page() -> str:
    """Show one group."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.snapshot(request.at)
    details = snapshot.reader.own("groups", _GROUP_COLUMNS, [group_id]).to_pylist()
    group = ShownGroup(
        group_id=group_id,
        snapshot=snapshot,
        status=snapshot.groups([group_id]).get(group_id),
        details=details[0] if details else None,
        period=named_period(snapshot),
    )
    if not (group.exists or _has_events(group)):
        raise HTTPException(
            404, f"Group {group_id!r} does not exist at this moment and has no events."
        )
    tabs = tabs_of(group)
    chosen = chosen_of(tabs)
    period, reader = period_of(snapshot.reader.moment), snapshot.reader
    return render_template(
        "group.html",
        snapshot=snapshot,
        group_id=group_id,
        group=group.status,
        details=group.details,
        connector=group.connector,
        is_well=group.is_well,
        tabs=[(tab, tab.count(group), tab_address(tab)) for tab in tabs],
        chosen=chosen,
        table=shown(chosen, group),
        period=period,
        interval_ms=history_interval_ms(reader.properties, reader.moment - period.since),
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


def _has_events(group: ShownGroup) -> bool:
    events = history(group.snapshot.reader, "group_events", group=group.group_id, limit=1)
    return bool(events.rows.num_rows)


PAGES = (
    Page("group", "group", page),
    *transactions.PAGES,
    *records.PAGES,
)
