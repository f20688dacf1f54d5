"""The page of all topics: who reads them, who is slowest, and what nobody reads."""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc
from flask import g, render_template, request

from streaming.dashboard.tables_of_rows import rows_page
from streaming.served.snapshot import ServedSnapshot

_SORTED_BY: Final = (
    *("topic", "rank", "readers", "slowest", "lag", "max_time_lag_at_least_ms", "partitions"),
    *("produce_rate_per_s", "min_retention_margin_ms", "unread"),
)
_UNREAD: Final = {"topics": "No readers", "partitions": "Some partitions not read"}
"""The filters `unread` of the address."""


def page() -> str:
    """Show all topics, the worst first."""
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
    known = snapshot.topic_list
    has_none = pc.equal(known.column("readers"), 0)
    masks = {
        "topics": has_none,
        "partitions": pc.and_not(pc.greater(known.column("unread"), 0), has_none),
    }
    only = request.args.get("unread", "")
    topics = rows_page(
        known.only(masks[only]) if only in masks else known,
        request.args,
        sort="-rank",
        columns=_SORTED_BY,
        searched="topic",
    )
    return render_template(
        "topics.html",
        snapshot=snapshot,
        topics=topics,
        only=only,
        known=len(known),
        unread=[(name, text, pc.sum(masks[name]).as_py() or 0) for name, text in _UNREAD.items()],
    )


PAGES = (("topics", "topics", page),)
