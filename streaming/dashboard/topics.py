"""The page of all topics: who reads them, who is slowest, and what nobody reads."""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import chosen_values, list_page
from streaming.views import lists

_NOT_READ: Final = {"topics": "No readers", "partitions": "Some partitions not read"}
"""The filters `unread` of the address."""


def page() -> str:
    """Show all topics, the worst first."""
    snapshot = request.cluster.snapshot(request.at)
    only = request.query_params.get("unread", "")
    query = lists.topics(
        search=request.query_params.get("search", ""),
        statuses=chosen_values("status"),
        readers=only,
        sort=request.query_params.get("sort", ""),
    )
    topics = list_page(snapshot, query)
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


PAGES = (Page("topics", "topics", page),)
