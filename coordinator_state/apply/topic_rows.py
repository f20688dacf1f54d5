"""The rows of the tables of `__transaction_state` and `__share_group_state`, one class per table.

They are like those of `coordinator_state.apply.rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TypedDict

from coordinator_state.apply.columns import Int32, nullable, schema_in_ms


class TransactionPartition(TypedDict):
    """A partition that takes part in a transaction."""

    topic: str
    partition: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A transactional id, as its transaction coordinator has it."""

    log_partition: Int32
    transactional_id: str
    producer_id: int
    producer_epoch: Int32
    last_producer_id: int | None
    timeout_ms: Int32
    state: str
    topic_partitions: list[TransactionPartition]
    last_update_timestamp: datetime | None
    start_timestamp: datetime | None
    abort_timestamp: datetime | None
    client_transaction_version: Int32
    record_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEventRow:
    """An event of a transactional id; a record causes at most one."""

    log_partition: Int32
    record_offset: int
    record_timestamp: datetime | None
    event: str
    transactional_id: str
    producer_id: int
    producer_epoch: Int32
    timeout_ms: Int32
    state: str
    topic_partitions: list[TransactionPartition]
    start_timestamp: datetime | None
    duration_ms: int | None
    outcome: str | None
    day: date | None


class DeliveryStateBatch(TypedDict):
    """Record offsets of a partition with the same delivery state and count."""

    first_offset: int
    last_offset: int
    delivery_state: Int32
    delivery_count: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitionRow:
    """A partition that a share group reads, as its share coordinator has it."""

    log_partition: Int32
    group_id: str
    topic_id: str
    partition: Int32
    topic: str | None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: int
    snapshot_epoch: Int32
    delivery_complete_count: Int32 | None
    state_batches: list[DeliveryStateBatch]
    create_timestamp: datetime | None
    write_timestamp: datetime | None
    delivery_timestamp: datetime | None
    record_offset: int


IS_TOMBSTONE = "is_tombstone"
"""Of changes: whether a row only deletes the row of its key."""

TRANSACTION_ROW = schema_in_ms(TransactionRow)
TRANSACTION_EVENT_ROW = nullable(schema_in_ms(TransactionEventRow))
SHARE_PARTITION_ROW = schema_in_ms(SharePartitionRow)
