"""The last activity of groups, and the client that a group was last seen with."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, TypeAlias

from streaming.plans.obstacles import Client
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader

GroupPlace: TypeAlias = tuple[int, str]
"""A log partition and a group id: a group may also have rows in an old log partition."""

_KEY: Final = ["log_partition", "group_id"]
_TIMES: Final = {
    "group_offsets": "commit_timestamp",
    "pending_offsets": "commit_timestamp",
    "coordinator_records": "record_timestamp",
    "groups": "state_timestamp",
}


def last_activity(reader: TableReader) -> dict[GroupPlace, datetime | None]:
    """The time of the last commit or group record of each group, None if no time is known."""
    activity_by_place: dict[GroupPlace, datetime | None] = {}
    for table, time in _TIMES.items():
        rows = reader.read(table, [*_KEY, time]).group_by(_KEY).aggregate([(time, "max")])
        for row in rows.to_pylist():
            place = row["log_partition"], row["group_id"]
            times = [
                moment
                for moment in (activity_by_place.get(place), row[f"{time}_max"])
                if moment is not None
            ]
            activity_by_place[place] = max(times, default=None)
    return activity_by_place


def last_clients(reader: TableReader, group_ids: Collection[str]) -> dict[str, Client]:
    """The client of a member of each group, or else of the last event that names a client."""
    columns = ["group_id", *Client._fields]
    events = reader.read("group_events", [*columns, "record_timestamp"], of_groups(group_ids))
    members = reader.own("group_members", columns, group_ids)
    rows = [*events.sort_by("record_timestamp").to_pylist(), *members.to_pylist()]
    return {
        row["group_id"]: Client(row["client_id"], row["client_host"])
        for row in rows
        if row["client_id"] is not None
    }
