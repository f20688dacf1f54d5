"""The page of all topics: who reads them, who is slowest, and what nobody reads."""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc
from flask import g, render_template, request

from streaming.dashboard.tables_of_rows import chosen_values, list_page
from streaming.served import lists
from streaming.served.snapshot import ServedSnapshot

_NOT_READ: Final = {"topics": "No readers", "partitions": "Some partitions not read"}
"""The filters `unread` of the address."""


def page() -> str:
    """Show all topics, the worst first."""
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
    only = request.args.get("unread", "")
    query = lists.topics(
        search=request.args.get("search", ""),
        statuses=chosen_values(request.args, "status"),
        readers=only,
        sort=request.args.get("sort", ""),
    )
    topics = list_page(snapshot, query, request.args)
    readers, unread = snapshot.topics["readers"], snapshot.topics["partitions_unread"]
    has_none = pc.equal(readers, 0)
    numbers = {
        "topics": pc.sum(has_none).as_py() or 0,
        "partitions": pc.sum(pc.and_not(pc.greater(unread, 0), has_none)).as_py() or 0,
    }
    return render_template(
        "topics.html",
        snapshot=snapshot,
        topics=topics,
        only=only,
        known=snapshot.topics.num_rows,
        unread=[(name, text, numbers[name]) for name, text in _NOT_READ.items()],
    )


PAGES = (("topics", "topics", page),)
