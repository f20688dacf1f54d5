"""The page of a topic: its groups and partitions."""

from __future__ import annotations

import pyarrow.compute as pc
from starlette.exceptions import HTTPException

from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import PAGE_ROWS, chosen_values, list_page
from streaming.dashboard.topic_matrix import MAX_CELLS, Matrix
from streaming.dashboard.topic_partitions import AT_ONCE, TopicPartitions
from streaming.lag.judged_partitions import rows_of
from streaming.served.lists import topic_groups
from streaming.served.snapshot import ServedSnapshot


def page() -> str:
    """Show one topic."""
    name = request.query_params.get("topic", "")
    snapshot: ServedSnapshot = request.cluster.snapshot(request.at)
    known = rows_of(snapshot.topics.filter(pc.field("topic") == name))
    if not known:
        raise HTTPException(
            404, f"No group reads topic {name!r} at this moment, and it is not sampled."
        )
    (topic,) = known
    rows = snapshot.partitions_of_topic(name)
    partitions = TopicPartitions(topic, rows, snapshot.unread)
    columns = partitions.shown(request.query_params.get("first", "0"))
    query = topic_groups(
        name,
        search=request.query_params.get("search", ""),
        statuses=chosen_values(request.query_params, "status"),
        sort=request.query_params.get("sort", ""),
    )
    page_rows = min(PAGE_ROWS, MAX_CELLS // max(len(columns), 1))
    groups = list_page(snapshot, query, request.query_params, page_rows=page_rows)
    return render_template(
        "topic.html",
        snapshot=snapshot,
        topic=topic,
        partitions=partitions,
        columns=columns,
        partitions_at_once=AT_ONCE,
        groups=groups,
        matrix=Matrix.of(snapshot, name, groups.rows, rows, columns),
        silent=_silent_groups(snapshot, name, {row["group_id"] for row in rows}),
    )


def _silent_groups(snapshot: ServedSnapshot, topic: str, known: set[str]) -> list[str]:
    """The groups with members on the topic that have committed nothing of it."""
    return [
        group_id
        for group_id, places in snapshot.silent.items()
        if group_id not in known and any(place["topic"] == topic for place in places)
    ]


PAGES = (Page("topic", "topic", page),)
