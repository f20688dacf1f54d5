"""The changes of a micro-batch to the tables of the internal topics besides `__consumer_offsets`.

Their rules are simpler: a record replaces the state of its key, or updates it. Log partitions are
independent of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.share_partitions import apply_share_partitions, share_partitions_of
from coordinator_state.apply.topic_records import AppliedTopic
from coordinator_state.apply.transactions import apply_transactions, transactions_of
from coordinator_state.errors import CoordinatorStateError
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.records.serde import decode_key
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES

NAME_COLUMNS: Final = {
    TRANSACTION_STATE_TOPIC: "transactional_id",
    SHARE_STATE_TOPIC: "group_id",
}
"""The column with the first field of a key, in the table of keys of each topic."""

_RECORD_TYPES: Final = {
    TRANSACTION_STATE_TOPIC: TRANSACTION_RECORD_TYPES,
    SHARE_STATE_TOPIC: SHARE_STATE_RECORD_TYPES,
}


def apply_topic(
    topic: str, rows: pa.Table, before: Mapping[Any, Any], *, with_history: bool
) -> AppliedTopic:
    """Apply one micro-batch of a topic; `before` is the state that `topic_state` restores."""
    if topic == TRANSACTION_STATE_TOPIC:
        return apply_transactions(rows, before, with_history=with_history)
    return apply_share_partitions(rows, before)


def touched_names(topic: str, rows: pa.Table) -> set[str]:
    """The transactional ids or groups that log rows are about; a micro-batch needs their state."""
    names = set()
    for raw_key in pc.unique(rows["raw_key"]).to_pylist():
        if raw_key is not None:
            # A record with another key is quarantined.
            with suppress(CoordinatorStateError):
                names.add(decode_key(raw_key, _RECORD_TYPES[topic]).group_id)
    return names


def topic_state(topic: str, rows: pa.Table) -> dict[Any, Any]:
    """The state that rows of the topic's table of keys have."""
    return transactions_of(rows) if topic == TRANSACTION_STATE_TOPIC else share_partitions_of(rows)
