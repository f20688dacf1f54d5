"""The tab "Transactions": those of a group that are open, and those that ended."""

from __future__ import annotations

from typing import Any, Final

from streaming.dashboard.group_tabs.shown_group import Row, ShownGroup
from streaming.dashboard.period import SPANS, period_of
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.views.group_transactions import group_transactions

MOST_TRANSACTIONS: Final = 100


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
        ended_transactions=ended_transactions,
        total=sum(ended_transactions.counts.values()),
    )


PAGES = (Page("group/transactions", "group_transactions", ended, is_costly=True),)
