"""The pages about the tables (load progress, accounting, last micro-batches) and about alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from flask import g, render_template, request

from streaming.dashboard.page_snapshot import PageSnapshot, Row, current_alerts
from streaming.dashboard.tables_of_rows import RowList, rows_page
from streaming.tables.schemas import STATE_CURRENT

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
    columns = ["record_timestamp", "log_topic", "log_partition", "record_offset", "reason"]
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
        others=_others(snapshot),
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


def _others(snapshot: PageSnapshot) -> Sequence[Row]:
    """The progress of the other internal topics, a row for each."""
    by_topic: dict[str, list[Row]] = defaultdict(list)
    for row in snapshot.reader.read("topic_progress").to_pylist():
        by_topic[row["log_topic"]].append(row)
    return [
        {
            "topic": topic,
            "log_partitions": len(rows),
            "current": sum(row["state"] == STATE_CURRENT for row in rows),
            "behind": sum(row["high_watermark"] - row["next_offset"] for row in rows),
            **{
                name: sum(row[f"records_{name}"] for row in rows)
                for name in ("read", "quarantined", "unaccounted")
            },
        }
        for topic, rows in sorted(by_topic.items())
    ]


def _batches(snapshot: PageSnapshot) -> Sequence[dict[str, Any]]:
    """The last versions of `load_progress`, one per micro-batch, and when each was written."""
    commits = snapshot.reader.commits(_MOST_BATCHES)
    return [{"version": version, "at": written_at} for version, written_at in commits]


PAGES = (("health", "health", page), ("alerts", "alerts", alerts))
