"""The page of transactions: pending offsets, and the groups that a transaction blocks."""

from __future__ import annotations

from typing import Final

from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import list_page
from streaming.served.lists import blocked_groups
from streaming.served.snapshot import ServedSnapshot

_MOST_BLOCKED: Final = 200


def page() -> str:
    """Show pending offsets, and the groups that a transaction blocks."""
    snapshot: ServedSnapshot = request.cluster.snapshot(request.at)
    blocked = list_page(
        snapshot, blocked_groups(), request.query_params, has_status=False, page_rows=_MOST_BLOCKED
    )
    return render_template("transactions.html", snapshot=snapshot, blocked=blocked)


PAGES = (Page("transactions", "transactions", page),)
