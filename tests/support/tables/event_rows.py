"""Rows of `group_events`, as a reader has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from streaming.tables.schemas import GROUP_EVENTS

Row = dict[str, Any]

BEGIN = datetime(2026, 11, 21, 6, 56, tzinfo=timezone.utc)


def event_row(event: str, at_s: float | None = 0, **fields: Any) -> Row:
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


def moved(event: str, before: int, after: int, at_s: float = 0, **fields: Any) -> Row:
    """An `offset_rewind` or `offset_reset` of `orders:0`."""
    at = {"topic": "orders", "partition": 0, "offset_before": before, "offset_after": after}
    return event_row(event, at_s, **(at | {"member_count": 0} | fields))


def by_member(member_id: str, client_id: str = "search-consumer") -> Row:
    """The columns of an event that name a member."""
    return {"member_id": member_id, "client_id": client_id, "client_host": "/10.0.0.1"}


def joined(member_id: str, at_s: float, **fields: Any) -> Row:
    return event_row("member_joined", at_s, **(by_member(member_id) | fields))


def left(member_id: str, at_s: float, **fields: Any) -> Row:
    return event_row("member_left", at_s, **(by_member(member_id) | fields))


def assigned(
    member_id: str, at_s: float, before: Iterable[int], after: Iterable[int], **fields: Any
) -> Row:
    """A change of the partitions of `orders` that a member has."""
    sides = {
        "assignment_before": partitions_of_orders(*before),
        "assignment_after": partitions_of_orders(*after),
    }
    return event_row("assignment_changed", at_s, **(by_member(member_id) | sides | fields))


def rebalance(at_s: float, epoch: int, **fields: Any) -> Row:
    epochs = {"epoch_before": epoch - 1, "epoch_after": epoch}
    return event_row("rebalance", at_s, **(epochs | fields))


def partitions_of_orders(*partitions: int) -> list[Row]:
    """An assignment, as a row of events or members has it."""
    return [{"topic": "orders", "topic_id": None, "partition": number} for number in partitions]


def in_log_order(rows: Iterable[Row]) -> list[Row]:
    """The rows as events in the order of their records, numbered within each record."""
    ordered = sorted(rows, key=lambda row: row["record_offset"])
    return [row | {"event_number": number} for number, row in enumerate(ordered)]
