"""The pages about the tables (load progress, accounting, last micro-batches) and about alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import g, render_template, request

from streaming.dashboard.page_snapshot import PageSnapshot, Row, current_alerts
from streaming.dashboard.tables_of_rows import RowList, rows_page

_SORTED_BY = (
    *("log_partition", "state", "next_offset", "behind", "records_read", "records_quarantined"),
    *("records_pending", "unaccounted", "updated_at", "batch_id"),
)
_ACCOUNTED = ("applied", "superseded", "ignored", "quarantined", "pending")
_MOST_BATCHES = 20
_MOST_QUARANTINED = 50


def page() -> str:
    """Show whether the tables are complete and correct."""
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    rows = [_accounted(row) for row in snapshot.progress]
    columns = ["record_timestamp", "log_partition", "record_offset", "reason"]
    quarantined = snapshot.reader.read("quarantine", columns)
    quarantined = quarantined.sort_by([("record_timestamp", "descending")])
    return render_template(
        "health.html",
        snapshot=snapshot,
        progress=rows_page(
            RowList(rows), request.args, sort="log_partition", columns=_SORTED_BY, page_rows=100
        ),
        accounted=_ACCOUNTED,
        totals={
            name: sum(row[f"records_{name}"] for row in rows) for name in ("read", *_ACCOUNTED)
        },
        unequal=[row["log_partition"] for row in rows if row["difference"] or row["unaccounted"]],
        batches=_batches(snapshot),
        quarantined=quarantined.slice(0, _MOST_QUARANTINED).to_pylist(),
    )


def alerts() -> str:
    """Show the alerts of `alert run`."""
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    return render_template("alerts.html", snapshot=snapshot, alerts=current_alerts(snapshot))


def _accounted(row: Row) -> Row:
    accounted = sum(row[f"records_{name}"] for name in _ACCOUNTED)
    behind = row["high_watermark"] - row["next_offset"]
    return {
        **row,
        "behind": behind,
        "difference": row["records_read"] - accounted,
        "unaccounted": row["records_unaccounted"] or 0,
    }


def _batches(snapshot: PageSnapshot) -> Sequence[dict[str, Any]]:
    """The last versions of `load_progress`, one per micro-batch, and when each was written."""
    commits = snapshot.reader.commits(_MOST_BATCHES)
    return [{"version": version, "at": written_at} for version, written_at in commits]


PAGES = (("health", "health", page), ("alerts", "alerts", alerts))
