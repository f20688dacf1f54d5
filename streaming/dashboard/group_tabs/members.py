"""The tab "Members": clients, assignments, and the lag of their partitions."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from coordinator_state.apply.columns import rows_of
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.member_labels import labels_of
from coordinator_state.insight.partition_text import topics_text
from streaming.dashboard.group_tabs.shown_group import Row, ShownGroup
from streaming.dashboard.tables_of_rows import rows_page
from streaming.tables.schemas import GROUP_EVENTS
from streaming.views.list_query import Column, columns
from streaming.views.lists import group_members, group_totals

PAGE_ROWS: Final = 100
_COLUMNS: Final = [
    *("member_id", "group_instance_id", "client_id", "client_host", "rack_id", "member_epoch"),
    *("member_state", "subscribed_topics", "subscribed_regex", "assignment", "tasks"),
]
_OPTIONAL: Final = ("group_instance_id", "rack_id", "member_state")
"""Columns that are shown if a member has a value."""
_TOTALS: Final = ("partitions", "lag", "max_lag", "max_time_lag_ms", "max_time_lag_at_least_ms")
_SHOWN: Final = (
    Column("label", "Member", "own", "label", is_ascending=True),
    *columns("text", client_host="Host", group_instance_id="Instance", rack_id="Rack"),
    *columns("number", partitions="Partitions"),
    *columns("lag", lag="Lag"),
    *columns("number", max_lag="Greatest lag"),
    *columns("time_lag", max_time_lag_at_least_ms="Time lag"),
    Column("assignment", "Assignment", "own", css="assigned"),
    *columns("own", joined="Joined", subscribed_text="Subscription"),
    Column("member_state", "State", "own", "member_state", is_ascending=True),
)


def members(group: ShownGroup) -> dict[str, Any]:
    """The page of members that the address selects."""
    rows = group.snapshot.reader.own("group_members", _COLUMNS, [group.group_id]).to_pylist()
    labels = labels_of(rows)
    by_member = group.snapshot.listed(group_totals([group.group_id], "member_id"))
    totals = {row["member_id"]: row for row in rows_of(by_member)}
    for row in rows:
        row["label"] = labels[group.group_id, row["member_id"]]
        of_member = totals.get(row["member_id"], {})
        row.update({name: of_member.get(name) for name in _TOTALS})
        row["subscribed_text"] = topics_text(row["subscribed_topics"] or ())
        # Not every assigned partition has a committed offset.
        row["partitions"] = None if row["assignment"] is None else len(row["assignment"])
    unknown = {name for name in _OPTIONAL if all(row[name] is None for row in rows)}
    page = rows_page(
        rows,
        [column for column in _SHOWN if column.name not in unknown],
        sort="label",
        page_rows=PAGE_ROWS,
        sql=group_members(group.group_id).sql,
    )
    return {
        "members": page,
        "joined": joined_at(group, [row["member_id"] for row in page.rows]),
    }


def joined_at(group: ShownGroup, member_ids: Collection[str]) -> dict[str, datetime]:
    """When members joined, by member id; history may begin later."""
    if not member_ids:
        return {}
    columns = ["member_id", "record_timestamp"]
    rows: list[Row] = group.snapshot.reader.read(
        GROUP_EVENTS.name,
        columns,
        [
            ("group_id", "=", group.group_id),
            ("event", "=", EventName.MEMBER_JOINED.value),
            ("member_id", "in", sorted(member_ids)),
        ],
    ).to_pylist()
    times: dict[str, datetime] = {}
    for row in rows:
        at = row["record_timestamp"]
        if at is not None and at > times.get(row["member_id"], at.min.replace(tzinfo=at.tzinfo)):
            times[row["member_id"]] = at
    return times
