"""The rules of `__transaction_state`: its tables are `transactions` and `transaction_events`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from coordinator_state.apply.columns import table_of
from coordinator_state.apply.topic_rows import TRANSACTION_EVENT_ROW, TRANSACTION_ROW
from coordinator_state.apply.topic_rules import TopicRecord, TopicRules
from coordinator_state.insight.transaction_events import duration_ms, transaction_event
from coordinator_state.records.internal_topics import TRANSACTION_STATE_TOPIC
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.replay.transactions import (
    Transaction,
    TransactionPartition,
    transaction_of,
)


def _event_rows(
    replayed: Sequence[tuple[TopicRecord[Transaction], Transaction | None]],
) -> pa.Table:
    events = [
        (record, record.value, event)
        for record, before in replayed
        if record.value is not None
        and (event := transaction_event(before, record.value)) is not None
    ]
    return table_of(
        [transaction for _, transaction, _ in events],
        TRANSACTION_EVENT_ROW,
        log_partition=[record.log_partition for record, *_ in events],
        record_offset=[record.record_offset for record, *_ in events],
        record_timestamp_ms=[record.record_timestamp_ms for record, *_ in events],
        event=[event.value for *_, event in events],
        transactional_id=[record.key.fields["transactionalId"] for record, *_ in events],
        duration_ms=[duration_ms(event, transaction) for _, transaction, event in events],
    )


TRANSACTION_STATE: Final[TopicRules[Transaction, Transaction]] = TopicRules(
    name=TRANSACTION_STATE_TOPIC,
    record_types=TRANSACTION_RECORD_TYPES,
    table="transactions",
    row=TRANSACTION_ROW,
    key=("log_partition", "transactional_id"),
    key_of=lambda fields: (fields["transactionalId"],),
    value_of=transaction_of,
    replay=lambda _before, record: record.value,
    state=Transaction,
    entries=("topic_partitions", TransactionPartition),
    history={"transaction_events": _event_rows},
)
