"""The tab "Partitions": offsets and lag, of each topic, each member and each partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from coordinator_state.apply.columns import rows_of
from coordinator_state.insight.member_labels import labels_of
from streaming.dashboard.group_tabs.shown_group import ShownGroup
from streaming.dashboard.request import request
from streaming.dashboard.tables_of_rows import chosen_values, list_page
from streaming.tables.filters import of_groups
from streaming.views import lists
from streaming.views.list_query import Column

PAGE_ROWS: Final = 100
_MOST_TOTALS: Final = 8
"""Rows of the tables by topic and by member."""


def partitions(group: ShownGroup) -> dict[str, Any]:
    """Totals by topic and by member, and the page of partitions that the address selects."""
    topic, member_id = request.query_params.get("topic"), request.query_params.get("member")
    query = lists.group_partitions(
        group.group_id,
        topics=[topic] if topic else [],
        member_id=member_id or "",
        search=request.query_params.get("search", ""),
        statuses=chosen_values("status"),
        sort=request.query_params.get("sort", ""),
    )
    totals = [
        (name, label, rows_of(group.snapshot.listed(lists.group_totals([group.group_id], name))))
        for name, label in (("topic", "Topic"), ("member_id", "Member"))
    ]
    if group.is_share:
        query = replace(query, shown=[*map(_of_share_group, query.shown)])
    return {
        "partitions": list_page(group.snapshot, query, page_rows=PAGE_ROWS),
        "labels": member_labels(group),
        "topic": topic,
        "member_id": member_id,
        "totals": [
            (name, label, rows[:_MOST_TOTALS], len(rows))
            for name, label, rows in totals
            if len(rows) > 1
        ],
    }


def _of_share_group(column: Column) -> Column:
    is_start = column.name == "committed_offset"
    return replace(column, label="Start offset") if is_start else column


def member_labels(group: ShownGroup) -> dict[str, str]:
    """The labels of the members of a group, by member id."""
    members = group.snapshot.reader.read(
        "group_members", ["group_id", "member_id", "client_id"], of_groups([group.group_id])
    )
    labels = labels_of(members.to_pylist())
    return {member_id: label for (_, member_id), label in labels.items()}
