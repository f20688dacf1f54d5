"""The page of transactions: pending offsets, and the groups that a transaction blocks."""

from __future__ import annotations

from typing import Final

from flask import g, render_template, request

from streaming.dashboard.tables_of_rows import list_page
from streaming.served.lists import blocked_groups
from streaming.served.snapshot import ServedSnapshot

_MOST_BLOCKED: Final = 200


def page() -> str:
    """Show pending offsets, and the groups that a transaction blocks."""
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
    blocked = list_page(
        snapshot, blocked_groups(), request.args, has_status=False, page_rows=_MOST_BLOCKED
    )
    return render_template("transactions.html", snapshot=snapshot, blocked=blocked)


PAGES = (("transactions", "transactions", page),)
