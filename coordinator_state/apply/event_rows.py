"""Turns events into rows of `group_events`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import table_of
from coordinator_state.apply.groups import PlacedEvent
from coordinator_state.apply.rows import EVENT_SCHEMA
from coordinator_state.insight.group_events import (
    HUNG_AFTER_MS,
    EventName,
    GroupEvent,
    Partitions,
)
from coordinator_state.replay.offsets import Outcome

_ENDED = pa.array([Outcome.COMMITTED.value, Outcome.ABORTED.value])


def event_rows(events: Iterable[PlacedEvent], topic_names: Mapping[str, str]) -> pa.Table:
    """Rows in log order, with event numbers within each record, and with known topic names.

    A marker may cause events of several offsets. They are ordered by topic and partition, so that
    every cut of the log into micro-batches gives an event the same number, if it finds the same
    events (docs/events.md says which of them the history mode `sampled` may leave out).
    """
    placed = sorted(events, key=_place)
    in_order = [placed_event.event for placed_event in placed]
    log_partitions = [placed_event.log_partition for placed_event in placed]
    records = zip(log_partitions, (event.record_offset for event in in_order), strict=True)
    return table_of(
        in_order,
        EVENT_SCHEMA,
        log_partition=log_partitions,
        record_timestamp_ms=[placed_event.timestamp_ms for placed_event in placed],
        event=[event.event.value for event in in_order],
        event_number=[number for _, run in groupby(records) for number, _ in enumerate(run)],
        assignment_before=[_named(event.assignment_before, topic_names) for event in in_order],
        assignment_after=[_named(event.assignment_after, topic_names) for event in in_order],
    )


def _place(placed: PlacedEvent) -> tuple[Any, ...]:
    event = placed.event
    partition = -1 if event.partition is None else event.partition
    record = placed.log_partition, event.record_offset, event.group_id
    return *record, event.topic or "", partition


def _named(partitions: Partitions, topic_names: Mapping[str, str]) -> Partitions:
    """The same topic partitions with the topic names that are known."""
    if partitions is None or all(partition.topic for partition in partitions):
        return partitions
    return tuple(
        partition
        if partition.topic
        else replace(partition, topic=topic_names.get(partition.topic_id or ""))
        for partition in partitions
    )


def hung_transactions(history: pa.Table) -> list[PlacedEvent]:
    """One event per transaction and group with an offset pending longer than `HUNG_AFTER_MS`."""
    pending_ms = pc.subtract(history["outcome_timestamp_ms"], history["record_timestamp_ms"])
    is_hung = pc.and_(pc.is_valid(history["producer_id"]), pc.greater(pending_ms, HUNG_AFTER_MS))
    hung = history.append_column("pending_ms", pending_ms).filter(
        pc.and_(is_hung, pc.is_in(history["outcome"], _ENDED))
    )
    transaction = ["log_partition", "group_id", "producer_id", "outcome_record_offset", "outcome"]
    transactions = hung.group_by(transaction).aggregate(
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
        for row in transactions.to_pylist()
    ]
