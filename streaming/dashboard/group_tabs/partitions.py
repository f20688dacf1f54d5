"""The tab "Partitions": offsets and lag, of each topic, each member and each partition."""

from __future__ import annotations

from typing import Any, Final

from flask import request

from coordinator_state.insight.member_labels import labels_of
from streaming.dashboard.group_tabs.shown_group import ShownGroup
from streaming.dashboard.tables_of_rows import rows_page
from streaming.served.group_partitions import GroupPartitions
from streaming.tables.filters import of_groups

PAGE_ROWS: Final = 100
_SORTED_BY: Final = (
    *("topic", "partition", "committed_offset", "log_end_offset", "lag"),
    "time_lag_at_least_ms",
    *("rank", "commit_timestamp", "client_id", "pending_offset"),
)
_MOST_TOTALS: Final = 8
"""Rows of the tables by topic and by member."""


def partitions(group: ShownGroup) -> dict[str, Any]:
    """Totals by topic and by member, and the page of partitions that the address selects."""
    every = GroupPartitions.of(group.snapshot, group.group_id)
    topic, member_id = request.args.get("topic"), request.args.get("member")
    selected = {
        name: value for name, value in (("topic", topic), ("member_id", member_id)) if value
    }
    topics, members = every.by("topic"), every.by("member_id")
    return {
        "partitions": rows_page(
            every.where(**selected),
            request.args,
            sort="-rank",
            columns=_SORTED_BY,
            searched="topic",
            page_rows=PAGE_ROWS,
        ),
        "labels": member_labels(group),
        "topic": topic,
        "member_id": member_id,
        "totals": [
            (name, label, rows[:_MOST_TOTALS], len(rows))
            for name, label, rows in (("topic", "Topic", topics), ("member_id", "Member", members))
            if len(rows) > 1
        ],
    }


def member_labels(group: ShownGroup) -> dict[str, str]:
    """The labels of the members of a group, by member id."""
    found = group.snapshot.reader.read(
        "group_members", ["group_id", "member_id", "client_id"], of_groups([group.group_id])
    )
    labels = labels_of(found.to_pylist())
    return {member_id: label for (_, member_id), label in labels.items()}
