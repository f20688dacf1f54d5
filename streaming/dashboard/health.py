"""The pages about the tables (load progress, accounting, last micro-batches) and about alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import g, render_template, request

from streaming.dashboard.tables_of_rows import RowList, rows_page
from streaming.lag.topic_loads import topic_loads
from streaming.served.snapshot import Row, ServedSnapshot, current_alerts
from streaming.tables.schemas import STATE_CURRENT

_SORTED_BY = (
    *("log_partition", "state", "next_offset", "behind", "records_read", "records_quarantined"),
    *("records_pending", "unaccounted", "updated_at", "batch_id"),
)
_ACCOUNTED = ("applied", "superseded", "ignored", "quarantined", "pending")
_MOST_BATCHES = 10
_MOST_QUARANTINED = 50


def page() -> str:
    """Show whether the tables are complete and correct."""
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
    rows = [_accounted(row) for row in snapshot.progress]
    shown = rows if request.args.get("all") == "yes" else [row for row in rows if _is_shown(row)]
    columns = ["record_timestamp", "log_topic", "log_partition", "record_offset", "reason"]
    quarantined = snapshot.reader.read("quarantine", columns)
    quarantined = quarantined.sort_by([("record_timestamp", "descending")])
    return render_template(
        "health.html",
        snapshot=snapshot,
        progress=rows_page(
            RowList(shown), request.args, sort="log_partition", columns=_SORTED_BY, page_rows=100
        ),
        without_records=len(rows) - len(shown),
        accounted=_ACCOUNTED,
        totals={
            name: sum(row[f"records_{name}"] for row in rows) for name in ("read", *_ACCOUNTED)
        },
        unequal=[row["log_partition"] for row in rows if row["difference"] or row["unaccounted"]],
        others=topic_loads(snapshot.reader).values(),
        batches=_batches(snapshot),
        quarantined=quarantined.slice(0, _MOST_QUARANTINED).to_pylist(),
    )


def alerts() -> str:
    """Show the alerts of `alert run`."""
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
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


def _is_shown(row: Row) -> bool:
    """Whether a log partition has records, or is not read to its end."""
    return bool(row["records_read"] or row["behind"] or row["unaccounted"]) or (
        row["state"] != STATE_CURRENT
    )


def _batches(snapshot: ServedSnapshot) -> Sequence[dict[str, Any]]:
    """The last versions of `load_progress`, one per micro-batch, and when each was written."""
    commits = snapshot.reader.commits(_MOST_BATCHES)
    return [{"version": version, "at": written_at} for version, written_at in commits]


PAGES = (("health", "health", page), ("alerts", "alerts", alerts))
