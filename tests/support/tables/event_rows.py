"""Rows of `group_events`, as a reader has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from streaming.tables.schemas import GROUP_EVENTS

BEGIN = datetime(2026, 11, 21, 6, 56, tzinfo=timezone.utc)


def event_row(event: str, at_s: float | None = 0, **fields: Any) -> dict[str, Any]:
    """An event of the group `g`, `at_s` seconds after `BEGIN`; in the log after earlier ones."""
    timestamp = None if at_s is None else BEGIN + timedelta(seconds=at_s)
    row = {
        **dict.fromkeys(GROUP_EVENTS.schema.names),
        **{"log_partition": 0, "record_offset": int((at_s or 0) * 1000), "event_number": 0},
        **{"record_timestamp": timestamp, "day": None if timestamp is None else timestamp.date()},
        **{"event": event, "group_id": "g", "group_type": "classic"},
    }
    assert set(fields) <= set(row)
    return row | fields


def moved(event: str, before: int, after: int, at_s: float = 0, **fields: Any) -> dict[str, Any]:
    """An `offset_rewind` or `offset_reset` of `orders:0`."""
    at = {"topic": "orders", "partition": 0, "offset_before": before, "offset_after": after}
    return event_row(event, at_s, **(at | {"member_count": 0} | fields))


def by_member(member_id: str, client_id: str = "search-consumer") -> dict[str, Any]:
    """The columns of an event that name a member."""
    return {"member_id": member_id, "client_id": client_id, "client_host": "/10.0.0.1"}


def partitions_of_orders(*partitions: int) -> list[dict[str, Any]]:
    """An assignment, as a row of events or members has it."""
    return [{"topic": "orders", "topic_id": None, "partition": number} for number in partitions]


def in_log_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as events in the order of their records, numbered within each record."""
    ordered = sorted(rows, key=lambda row: row["record_offset"])
    return [row | {"event_number": number} for number, row in enumerate(ordered)]
