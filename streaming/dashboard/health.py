"""Pages about the tables, alerts and open transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import list_page
from streaming.served.snapshot import Row, ServedSnapshot
from streaming.views import lists

_ACCOUNTED = ("applied", "superseded", "ignored", "quarantined", "pending")
_MOST_BATCHES = 10
_MOST_QUARANTINED = 50
_MOST_BLOCKED = 200
_MOST_ALERTS = 1_000_000


def page() -> str:
    """Show whether the tables are complete and correct."""
    snapshot = request.cluster.snapshot(request.at)
    rows = [_accounted(row) for row in snapshot.progress]
    query = lists.load_progress(
        is_all=request.query_params.get("all") == "yes", sort=request.query_params.get("sort", "")
    )
    progress = list_page(snapshot, query, page_rows=100)
    quarantined = list_page(snapshot, lists.quarantine(), arguments={}, page_rows=_MOST_QUARANTINED)
    return render_template(
        "health.html",
        snapshot=snapshot,
        progress=progress,
        without_records=len(rows) - progress.total,
        accounted=_ACCOUNTED,
        totals={
            name: sum(row[f"records_{name}"] for row in rows) for name in ("read", *_ACCOUNTED)
        },
        unequal=[row["log_partition"] for row in rows if row["difference"] or row["unaccounted"]],
        others=list_page(snapshot, lists.topic_loads(), arguments={}),
        batches=_batches(snapshot),
        quarantined=quarantined,
    )


def alerts() -> str:
    """Show the alerts of `alert run`."""
    snapshot = request.cluster.snapshot(request.at)
    shown = list_page(snapshot, lists.alerts(), arguments={}, page_rows=_MOST_ALERTS)
    return render_template("alerts.html", snapshot=snapshot, alerts=shown)


def _accounted(row: Row) -> Row:
    accounted = sum(row[f"records_{name}"] for name in _ACCOUNTED)
    return {
        **row,
        "difference": row["records_read"] - accounted,
        "unaccounted": row["records_unaccounted"] or 0,
    }


def _batches(snapshot: ServedSnapshot) -> Sequence[dict[str, Any]]:
    """The last versions of `load_progress`, one per micro-batch, and when each was written."""
    commits = snapshot.reader.commits(_MOST_BATCHES)
    return [{"version": version, "at": written_at} for version, written_at in commits]


def transactions() -> str:
    """Show pending offsets, and the groups that a transaction blocks."""
    snapshot = request.cluster.snapshot(request.at)
    blocked = list_page(
        snapshot,
        lists.blocked_groups(),
        page_rows=_MOST_BLOCKED,
    )
    return render_template("transactions.html", snapshot=snapshot, blocked=blocked)


PAGES = (
    Page("health", "health", page),
    Page("alerts", "alerts", alerts),
    Page("transactions", "transactions", transactions),
)
