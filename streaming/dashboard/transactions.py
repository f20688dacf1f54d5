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
    is_held = pc.field("last_stable_offset") < pc.field("log_end_offset")
    is_at_hold = (pc.field("lag") > 0) & (pc.field("lag_to_last_stable") == 0)
    blocked = snapshot.evaluation.lags_where(is_held & is_at_hold).slice(0, _MOST_BLOCKED)
    return render_template("transactions.html", snapshot=snapshot, blocked=blocked.to_pylist())


PAGES = (("transactions", "transactions", page),)
