"""The page of transactions: pending offsets, and the groups that a transaction blocks."""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc
from flask import g, render_template

from streaming.served.snapshot import ServedSnapshot

_MOST_BLOCKED: Final = 200


def page() -> str:
    """Show pending offsets, and the groups that a transaction blocks."""
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
    lags = snapshot.lags
    is_blocked = pc.less(lags["last_stable_offset"], lags["log_end_offset"])
    blocked = [
        row
        for row in lags.filter(is_blocked).to_pylist()
        if row["lag"] and row["lag_to_last_stable"] == 0
    ]
    return render_template("transactions.html", snapshot=snapshot, blocked=blocked[:_MOST_BLOCKED])


PAGES = (("transactions", "transactions", page),)
