"""The overview: unhealthy groups with start time and reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import g, render_template, request

from streaming.dashboard.cluster import Cluster
from streaming.dashboard.page_snapshot import PageSnapshot, current_alerts
from streaming.dashboard.tables_of_rows import counted, rows_page
from streaming.errors import ConfigurationError

_SORTED_BY = (
    *("group_id", "rank", "group_state", "members", "partitions_not_ok", "lag"),
    *("max_time_lag_ms", "min_retention_margin_ms"),
)


def page() -> str:
    """Show all groups, worst first."""
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    groups = rows_page(
        snapshot.group_rows,
        request.args,
        sort="-rank",
        columns=_SORTED_BY,
        searched="group_id",
    )
    return render_template(
        "overview.html", snapshot=snapshot, groups=groups, tiles=_tiles(snapshot)
    )


def of_clusters(clusters: Iterable[Cluster]) -> list[dict[str, Any]]:
    """Each cluster with the counts of its statuses, or with the error that hides it."""
    found: list[dict[str, Any]] = []
    for cluster in clusters:
        try:
            snapshot = cluster.snapshot()
            worst = sorted(snapshot.group_rows, key=lambda row: -row["rank"])[:5]
            statuses = counted(row["status"] for row in snapshot.groups)
            found.append(
                {
                    **{"name": cluster.name, "notice": snapshot.notice},
                    **{"statuses": statuses, "worst": worst},
                }
            )
        except ConfigurationError as error:
            found.append({"name": cluster.name, "fault": str(error)})
    return found


def _tiles(snapshot: PageSnapshot) -> dict[str, Any]:
    known = snapshot.known_until
    return {
        "behind_ms": None if known is None else (snapshot.at - known).total_seconds() * 1000,
        "loading": sum(row["state"] != "current" for row in snapshot.progress),
        "lag": sum(lags) if (lags := _known(snapshot, "lag")) else None,
        "time_lag_ms": max(_known(snapshot, "max_time_lag_ms"), default=None),
        "hanging": sum(row["is_hanging"] for row in snapshot.transactions),
        "pending": len(snapshot.transactions),
        # Alerts are always read as of now, so a page of the past has no count.
        "firing": None
        if g.at
        else sum(row["state"] == "firing" for row in current_alerts(snapshot)),
    }


def _known(snapshot: PageSnapshot, name: str) -> list[int]:
    return [row[name] for row in snapshot.groups if row[name] is not None]


PAGES = (("", "overview", page),)
