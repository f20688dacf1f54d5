"""The overview: unhealthy groups with start time and reason."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow.compute as pc
from flask import g, render_template, request

from coordinator_state.insight.group_events import HUNG_AFTER_MS
from coordinator_state.insight.group_status import StatusRules
from streaming.dashboard.cluster import Cluster
from streaming.dashboard.page_snapshot import PageSnapshot, current_alerts
from streaming.dashboard.shown import level
from streaming.dashboard.tables_of_rows import counted, rows_page
from streaming.errors import ConfigurationError
from streaming.lag.freshness import Freshness
from streaming.tables.schemas import STATE_CURRENT

_SORTED_BY = (
    *("group_id", "rank", "group_state", "members", "partitions_not_ok", "lag"),
    *("max_time_lag_at_least_ms", "min_retention_margin_ms"),
)

_MOST_WORST = 5


def page() -> str:
    """Show all groups, worst first."""
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    groups = rows_page(
        snapshot.group_list,
        request.args,
        sort="-rank",
        columns=_SORTED_BY,
        searched="group_id",
    )
    return render_template(
        "overview.html",
        groups=groups,
        tiles=_tiles(snapshot),
        transactions=len(snapshot.transactions),
        loading=sum(row["state"] != STATE_CURRENT for row in snapshot.progress),
        snapshot=snapshot,
    )


def of_clusters(clusters: Iterable[Cluster]) -> list[dict[str, Any]]:
    """Each cluster with the counts of its statuses, or with the error that hides it."""
    found: list[dict[str, Any]] = []
    for cluster in clusters:
        try:
            snapshot = cluster.snapshot()
            worst = rows_page(
                snapshot.group_list, {}, sort="-rank", columns=["rank"], page_rows=_MOST_WORST
            )
            found.append(
                {
                    **{"name": cluster.name, "notice": snapshot.notice},
                    "statuses": counted(snapshot.group_list.column("status")),
                    "worst": worst.rows,
                }
            )
        except ConfigurationError as error:
            found.append({"name": cluster.name, "fault": str(error)})
    return found


class _Tile(NamedTuple):
    """A measure of the overview; `level` is the severity of its value, and its colour."""

    value: float | None
    level: str


def _tiles(snapshot: PageSnapshot) -> dict[str, _Tile]:
    rules = StatusRules()
    oldest_ms = max((row["age_ms"] for row in snapshot.transactions), default=0)
    lag = pc.sum(snapshot.group_list.column("lag")).as_py()
    time_lag_ms = pc.max(snapshot.group_list.column("max_time_lag_at_least_ms")).as_py()
    # Alerts are always read as of now, so a page of the past has no count.
    alerts = () if g.at else current_alerts(snapshot)
    firing = sum(row["state"] == "firing" for row in alerts) if alerts else None
    return {
        "lag": _Tile(lag, _level_of_lag(snapshot)),
        "time_lag_ms": _Tile(time_lag_ms, _level(time_lag_ms, warning_above=rules.slow_after_ms)),
        "hanging": _Tile(
            sum(row["is_hanging"] for row in snapshot.transactions),
            _level(oldest_ms, warning_above=HUNG_AFTER_MS, bad_above=rules.hanging_after_ms),
        ),
        "firing": _Tile(firing, _level(firing, bad_above=0)),
        "quarantined": _Tile(snapshot.quarantined, _level(snapshot.quarantined, warning_above=0)),
        "behind_ms": _tables_behind(snapshot, rules),
    }


def _tables_behind(snapshot: PageSnapshot, rules: StatusRules) -> _Tile:
    """The tile "tables behind". For stale tables it has the time since the last write."""
    fresh = Freshness.of(snapshot.reader, snapshot.at)
    if fresh.verdict(rules) is not None:
        return _Tile(fresh.age_ms, "bad")
    known = snapshot.known_until
    behind_ms = None if known is None else (snapshot.at - known).total_seconds() * 1000
    is_loading = any(row["state"] != STATE_CURRENT for row in snapshot.progress)
    limit_ms = 0 if is_loading else rules.stale_after_ms
    return _Tile(behind_ms, _level(behind_ms, warning_above=limit_ms))


def _level(
    value: float | None, *, warning_above: float = math.inf, bad_above: float = math.inf
) -> str:
    if value is None:
        return "unknown"
    return "bad" if value > bad_above else "warning" if value > warning_above else "good"


def _level_of_lag(snapshot: PageSnapshot) -> str:
    """The worst severity of a group that is behind: a number of records has no limit."""
    lags = snapshot.group_list.column("lag")
    statuses = snapshot.group_list.column("status").filter(pc.not_equal(lags, 0))
    found = {level(status) for status in pc.unique(statuses).to_pylist()}
    known = "unknown" if lags.null_count == len(lags) else "good"
    return next((one for one in ("bad", "warning", "unknown") if one in found), known)


PAGES = (("", "overview", page),)
