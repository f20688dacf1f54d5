"""The page of a topic: its groups and partitions."""

from __future__ import annotations

from flask import abort, g, render_template, request

from streaming.dashboard.tables_of_rows import PAGE_ROWS, RowList, rows_page
from streaming.dashboard.topic_matrix import MAX_CELLS, Matrix
from streaming.dashboard.topic_partitions import AT_ONCE, TopicPartitions
from streaming.served.snapshot import ServedSnapshot
from streaming.served.topic_groups import topic_groups

_GROUPS_SORTED_BY = (
    *("group_id", "rank", "partitions", "lag", "skew", "max_time_lag_at_least_ms", "readers"),
)


def page() -> str:
    """Show one topic."""
    name = request.args.get("topic", "")
    snapshot: ServedSnapshot = g.cluster.snapshot(g.at)
    topic = snapshot.topic_list.of_topic(name)
    if topic is None:
        abort(404, f"No group reads topic {name!r} at this moment, and it is not sampled.")
    rows = snapshot.partitions_of_topic(name)
    partitions = TopicPartitions(topic, rows, snapshot.unread)
    columns = partitions.shown(request.args.get("first", "0"))
    groups = rows_page(
        RowList(topic_groups(rows)),
        request.args,
        sort="-rank",
        columns=_GROUPS_SORTED_BY,
        searched="group_id",
        page_rows=min(PAGE_ROWS, MAX_CELLS // len(columns)),
    )
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


PAGES = (("topic", "topic", page),)
