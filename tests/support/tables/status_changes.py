"""The recorded changes of status against the statuses that the tables have now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from coordinator_state.insight.group_status import Status
from streaming.tables.clock import utc_now
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS, JUDGED_TABLES, STATUS_CHANGES
from tests.support.tables.tables_folder import Row

Key = tuple[str, str | None, int | None]
"""Group, topic and partition; the last two are None for the group itself."""


def key_of(row: Row) -> Key:
    """The key of a row of `group_lag`, `group_status` or `status_changes`."""
    return row["group_id"], row["topic"], row["partition"]


def contradictions(
    reader: TableReader, at: datetime | None = None, ahead: Collection[datetime] = ()
) -> Iterator[str]:
    """Statuses, times and keys that do not follow from the changes up to a moment, now by default.

    Changes of the future were recorded while the clock was ahead; those at the moments `ahead`,
    too. They do not follow from the changes that were recorded later at earlier times.
    """
    until = at or utc_now()
    for table in JUDGED_TABLES:
        keys = [tuple(row.values()) for row in reader.read(table.name, table.key).to_pylist()]
        if len(set(keys)) < len(keys):
            yield f"{table.name} has a key twice"
    groups = reader.read(GROUP_STATUS.name).to_pylist()
    rows: dict[Key, Row] = {(row["group_id"], None, None): row for row in groups}
    rows |= {key_of(row): row for row in reader.read(GROUP_LAG.name).to_pylist()}
    last: dict[Key, Row] = {}
    changes = reader.read(STATUS_CHANGES.name).sort_by("changed_at").to_pylist()
    changes = [change for change in changes if change["changed_at"] <= until]
    for change in changes:
        key = key_of(change)
        before = last.get(key, {}).get("status_after", change["status_before"])
        if before != change["status_before"] and change["changed_at"] not in ahead:
            yield f"{key}: {change['status_before']} follows {before}"
        if change["status_before"] == change["status_after"]:
            yield f"{key}: {change['status_after']} at {change['changed_at']} is no change"
        last[key] = change
    since = status_begins(changes)
    for key in rows.keys() | last.keys():
        row = rows.get(key, {})
        if key in last and row.get("status") != last[key]["status_after"]:
            yield f"{key} is {row.get('status')}, not {last[key]['status_after']}"
        if row and row["status_since"] != since.get(key):
            yield f"{key} has its status since {row['status_since']}, not {since.get(key)}"


def status_begins(changes: Iterable[Row]) -> dict[Key, datetime]:
    """Since when each key has its status; one that is the same before and after `UNKNOWN` goes on.

    Args:
        changes: rows of `status_changes`, the oldest first.
    """
    since: dict[Key, datetime] = {}
    known: dict[Key, tuple[str | None, datetime]] = {}
    for change in changes:
        key, status = key_of(change), change["status_after"]
        since[key] = change["changed_at"]
        if status == Status.UNKNOWN.value:
            continue
        known_status, known_since = known.get(key, (None, since[key]))
        if change["status_before"] == Status.UNKNOWN.value and status == known_status:
            since[key] = known_since
        known[key] = status, since[key]
    return since
