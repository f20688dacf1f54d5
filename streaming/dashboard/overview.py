"""The overview: unhealthy groups with start time and reason."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import pyarrow.compute as pc
from starlette.datastructures import QueryParams
from starlette.responses import Response

from coordinator_state.insight.group_status import StatusRules
from streaming.dashboard.chosen_columns import COLUMNS, chosen_columns, keeping_columns
from streaming.dashboard.group_filters import group_filters, selected_groups
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.shown import level
from streaming.dashboard.tables_of_rows import RowsPage, list_page
from streaming.lag.freshness import Freshness
from streaming.served.snapshot import ServedSnapshot, current_alerts
from streaming.tables.schemas import STATE_CURRENT


def page() -> Response:
    """Show all groups, worst first."""
    snapshot: ServedSnapshot = request.cluster.snapshot(request.at)
    shown = render_template(
        "overview.html",
        groups=groups_page(snapshot, request.query_params),
        filters=group_filters(snapshot, request.query_params),
        columns=chosen_columns(),
        all_columns=COLUMNS,
        tiles=tiles_of(snapshot),
        transactions=len(snapshot.transactions),
        loading=sum(row["state"] != STATE_CURRENT for row in snapshot.progress),
        snapshot=snapshot,
    )
    return keeping_columns(shown)


def groups_page(snapshot: ServedSnapshot, arguments: QueryParams) -> RowsPage:
    """The groups that the arguments of an address select: those of its page, worst first."""
    shown = list_page(snapshot, selected_groups(arguments), arguments)
    # With their reasons, which an evaluation makes only of the rows that are asked for.
    rows = snapshot.groups([row["group_id"] for row in shown.rows])
    return replace(shown, rows=list(rows.values()))


class Tile(NamedTuple):
    """A measure of the overview; `level` is the severity of its value, and its colour."""

    value: float | None
    level: str


def tiles_of(snapshot: ServedSnapshot) -> dict[str, Tile]:
    """The measures of a cluster, each with its severity."""
    rules = snapshot.status_rules
    hanging = sum(row["is_hanging"] for row in snapshot.transactions)
    groups = snapshot.evaluation.statuses
    lag = pc.sum(groups["lag"]).as_py()
    time_lag_ms = pc.max(groups["max_time_lag_at_least_ms"]).as_py()
    # Alerts are always read as of now, so a page of the past has no count.
    alerts = () if request.at else current_alerts(snapshot)
    firing = sum(row["state"] == "firing" for row in alerts) if alerts else None
    return {
        "lag": Tile(lag, _level_of_lag(snapshot)),
        "time_lag_ms": Tile(time_lag_ms, _level(time_lag_ms, warning_above=rules.slow_after_ms)),
        "hanging": Tile(
            hanging,
            _level(hanging, bad_above=0),
        ),
        "firing": Tile(firing, _level(firing, bad_above=0)),
        "quarantined": Tile(snapshot.quarantined, _level(snapshot.quarantined, warning_above=0)),
        "behind_ms": _tables_behind(snapshot, rules),
    }


def _tables_behind(snapshot: ServedSnapshot, rules: StatusRules) -> Tile:
    """The tile "tables behind". For stale tables it has the time since the last write."""
    fresh = Freshness.of(snapshot.reader, snapshot.at)
    if fresh.verdict(rules) is not None:
        return Tile(fresh.age_ms, "bad")
    known = snapshot.known_until
    behind_ms = None if known is None else (snapshot.at - known).total_seconds() * 1000
    is_loading = any(row["state"] != STATE_CURRENT for row in snapshot.progress)
    limit_ms = 0 if is_loading else rules.stale_after_ms
    return Tile(behind_ms, _level(behind_ms, warning_above=limit_ms))


def _level(
    value: float | None, *, warning_above: float = math.inf, bad_above: float = math.inf
) -> str:
    if value is None:
        return "unknown"
    return "bad" if value > bad_above else "warning" if value > warning_above else "good"


def _level_of_lag(snapshot: ServedSnapshot) -> str:
    """The worst severity of a group that is behind: a number of records has no limit."""
    groups = snapshot.evaluation.statuses
    lags = groups["lag"]
    statuses = pc.unique(groups["status"].filter(pc.not_equal(lags, 0))).to_pylist()
    levels = {level(status) for status in statuses}
    known = "unknown" if lags.null_count == len(lags) else "good"
    return next((worst for worst in ("bad", "warning", "unknown") if worst in levels), known)


PAGES = (Page("", "overview", page),)
