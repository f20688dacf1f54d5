"""The tab "Transactions": those of a group that are open, and those that ended."""

from __future__ import annotations

from typing import Any, Final

from streaming.dashboard.group_tabs.shown_group import Row, ShownGroup
from streaming.dashboard.period import SPANS, period_of
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import rows_page
from streaming.views.group_transactions import group_transactions
from streaming.views.list_query import Column, columns

MOST_TRANSACTIONS: Final = 100
_ENDED: Final = (
    *columns("moment", record_timestamp="First commit", outcome_timestamp="End"),
    *columns("duration", duration_ms="Took"),
    *columns("own", outcome="Outcome"),
    *columns("text", transactional_id="Transactional id"),
    *columns("place", producer_id="Producer id", producer_epoch="Epoch"),
    *columns("number", offsets="Offsets"),
    Column("record_offset", "Record", "own", is_number=True),
)


def transactions(group: ShownGroup) -> dict[str, Any]:
    """The open transactions of a group."""
    return {"open": open_of(group)}


def open_of(group: ShownGroup) -> list[Row]:
    """The open transactions with pending offsets of a group, oldest first."""
    return [row for row in group.snapshot.transactions if row["group_id"] == group.group_id]


def ended() -> str:
    """Show the ended transactions of a group; its page loads them after itself."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    period = period_of(snapshot.reader.moment)
    ended_transactions = group_transactions(
        snapshot.reader,
        group_id,
        since=period.since,
        until=period.until,
        limit=MOST_TRANSACTIONS,
    )
    return render_template(
        "group/ended_transactions.html",
        snapshot=snapshot,
        group_id=group_id,
        period=period,
        spans=SPANS,
        ended=rows_page(
            ended_transactions.rows,
            _ENDED,
            arguments={},
            page_rows=MOST_TRANSACTIONS,
            sql=ended_transactions.sql,
        ),
        counts=ended_transactions.counts,
    )


PAGES = (Page("group/transactions", "group_transactions", ended, is_costly=True),)
