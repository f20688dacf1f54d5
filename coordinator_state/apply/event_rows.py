"""Turns events into rows of `group_events`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.groups import PlacedEvent
from coordinator_state.apply.rows import EVENT_SCHEMA
from coordinator_state.insight.group_events import HUNG_AFTER_MS, EventName, GroupEvent
from coordinator_state.replay.groups import as_columns
from coordinator_state.replay.offsets import Outcome

Row = dict[str, Any]

_ENDED = pa.array([Outcome.COMMITTED.value, Outcome.ABORTED.value])
_ASSIGNMENTS = ("assignment_before", "assignment_after")
_LISTS = (*_ASSIGNMENTS, "tasks_before", "tasks_after")


def event_rows(events: Iterable[PlacedEvent], topic_names: Mapping[str, str]) -> pa.Table:
    """Rows in log order, with event numbers within each record, and with known topic names.

    A marker may cause events of several offsets. They are ordered by topic and partition, so that
    every cut of the log into micro-batches gives an event the same number, if it finds the same
    events (docs/events.md says which of them the history mode `sampled` may leave out).
    """
    rows = [
        {
            **event_columns(placed.event),
            "log_partition": placed.log_partition,
            "record_timestamp_ms": placed.timestamp_ms,
        }
        for placed in events
    ]
    rows.sort(key=_place)
    previous, number = None, 0
    for row in rows:
        record = row["log_partition"], row["record_offset"]
        number = number + 1 if record == previous else 0
        row["event_number"], previous = number, record
        for assigned in (one for name in _ASSIGNMENTS for one in row[name] or ()):
            assigned["topic"] = assigned["topic"] or topic_names.get(assigned["topic_id"])
    return pa.Table.from_pylist(rows, schema=EVENT_SCHEMA)


def _place(row: Row) -> tuple[Any, ...]:
    partition = -1 if row["partition"] is None else row["partition"]
    record = row["log_partition"], row["record_offset"], row["group_id"]
    return *record, row["topic"] or "", partition


def event_columns(event: GroupEvent) -> Row:
    """The columns of an event that do not depend on its log partition or timestamp."""
    columns = event._asdict()
    for name in _LISTS:
        columns[name] = as_columns(columns[name])
    columns["event"] = event.event.value
    return columns


def hung_transactions(history: pa.Table) -> list[PlacedEvent]:
    """One event per transaction and group with an offset pending longer than `HUNG_AFTER_MS`."""
    pending_ms = pc.subtract(history["outcome_timestamp_ms"], history["record_timestamp_ms"])
    is_hung = pc.and_(pc.is_valid(history["producer_id"]), pc.greater(pending_ms, HUNG_AFTER_MS))
    hung = history.append_column("pending_ms", pending_ms).filter(
        pc.and_(is_hung, pc.is_in(history["outcome"], _ENDED))
    )
    transaction = ["log_partition", "group_id", "producer_id", "outcome_record_offset", "outcome"]
    found = hung.group_by(transaction).aggregate(
        [("pending_ms", "max"), ("outcome_timestamp_ms", "max")]
    )
    return [
        PlacedEvent(
            log_partition=row["log_partition"],
            timestamp_ms=row["outcome_timestamp_ms_max"],
            event=GroupEvent(
                event=EventName.TRANSACTION_HUNG,
                group_id=row["group_id"],
                record_offset=row["outcome_record_offset"],
                producer_id=row["producer_id"],
                outcome=row["outcome"],
                duration_ms=row["pending_ms_max"],
            ),
        )
        for row in found.to_pylist()
    ]
