"""Applies a micro-batch of `__transaction_state` to `transactions` and `transaction_events`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from coordinator_state.apply.columns import in_ms, table_of
from coordinator_state.apply.topic_records import AppliedTopic, TopicRecord, decode_topic_records
from coordinator_state.apply.topic_rows import (
    TRANSACTION_CHANGES,
    TRANSACTION_EVENT_ROW,
    TRANSACTION_ROW,
)
from coordinator_state.insight.transaction_events import (
    TransactionEventName,
    duration_ms,
    transaction_event,
)
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.replay.transactions import (
    Transaction,
    TransactionPartition,
    transaction_of,
)

TransactionKey = tuple[int, str]
"""Log partition and transactional id."""


def apply_transactions(
    rows: pa.Table, before: Mapping[TransactionKey, Transaction], *, with_history: bool
) -> AppliedTopic:
    """Apply one micro-batch of any set of log partitions of `__transaction_state`.

    Args:
        rows: log rows (`LOG_ROW_SCHEMA`) in any order, without rows that the state before has
            already. Rows of kind `progress` are ignored.
        before: the state before the micro-batch, of at least the transactional ids in it.
        with_history: whether events are wanted.
    """
    decoded = decode_topic_records(rows, TRANSACTION_RECORD_TYPES, transaction_of)
    after: dict[TransactionKey, Transaction | None] = {}
    last: dict[TransactionKey, int] = {}
    events = []
    for record in decoded.records:
        key = record.log_partition, record.key.fields["transactionalId"]
        known = after[key] if key in after else before.get(key)
        if with_history and record.value is not None:
            event = transaction_event(known, record.value)
            if event is not None:
                events.append((record, event))
        after[key], last[key] = record.value, record.record_offset
    return AppliedTopic(
        tables={
            "transactions": _changes(after, last),
            "transaction_events": _event_rows(events),
            "quarantine": decoded.quarantine,
        },
        counts=decoded.counts,
    )


def transactions_of(rows: pa.Table) -> dict[TransactionKey, Transaction]:
    """The state that rows of `transactions` have."""
    rows_in_ms = in_ms(rows, TRANSACTION_ROW)
    return {_key(row): _transaction(row) for row in rows_in_ms.to_pylist()}


def _key(row: Mapping[str, Any]) -> TransactionKey:
    return row["log_partition"], row["transactional_id"]


def _transaction(row: Mapping[str, Any]) -> Transaction:
    fields = {name: row[name] for name in Transaction.__dataclass_fields__}
    fields["topic_partitions"] = tuple(
        TransactionPartition(**partition) for partition in row["topic_partitions"]
    )
    return Transaction(**fields)


def _changes(
    after: Mapping[TransactionKey, Transaction | None], last: Mapping[TransactionKey, int]
) -> pa.Table:
    """One row of `TRANSACTION_CHANGES` for each transactional id."""
    return table_of(
        after.values(),
        TRANSACTION_CHANGES,
        log_partition=[log_partition for log_partition, _ in after],
        transactional_id=[transactional_id for _, transactional_id in after],
        record_offset=last.values(),
        is_tombstone=[state is None for state in after.values()],
    )


def _event_rows(
    events: Iterable[tuple[TopicRecord[Transaction], TransactionEventName]],
) -> pa.Table:
    rows = [
        {
            "log_partition": record.log_partition,
            "record_offset": record.record_offset,
            "record_timestamp_ms": record.record_timestamp_ms,
            "event": event.value,
            "transactional_id": record.key.fields["transactionalId"],
            "duration_ms": duration_ms(event, record.value),
            "transaction": record.value,
        }
        for record, event in events
        if record.value is not None
    ]
    states = [row.pop("transaction") for row in rows]
    given = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    return table_of(states, TRANSACTION_EVENT_ROW, outcome=[None] * len(states), **given)
