"""The events of a transactional id, from two states of it that follow each other in the log.

A coordinator that aborts a transaction by itself first raises the producer epoch, so the producer
can no longer write. It does this for a transaction that exceeds its timeout, and for the ongoing
transaction of an earlier producer when another one initialises with the same transactional id.
Since KIP-890 the abort by a producer of transaction version 2 raises the epoch, too. The log then
does not tell it from an abort for another producer, and both are `prepared`.

Kafka's cleaner may have removed records before they were read. Events of these records are missing.

Source: core/src/main/scala/kafka/coordinator/transaction/TransactionCoordinator.scala
(`abortTimedOutTransactions`, `handleInitProducerId`) and TransactionMetadata.java
(`prepareFenceProducerEpoch`, `prepareAbortOrCommit`) at 4.2.0.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from coordinator_state.replay.transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Transaction,
)

_FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2
"""`TransactionVersion.supportsEpochBump`: each end of a transaction raises the epoch (KIP-890)."""


class TransactionEventName(Enum):
    """The names of the events, as `transaction_events` has them."""

    BEGUN = "begun"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    FENCED = "fenced"


_EVENTS: Final = {
    ONGOING: TransactionEventName.BEGUN,
    PREPARE_COMMIT: TransactionEventName.PREPARED,
    PREPARE_ABORT: TransactionEventName.PREPARED,
    COMPLETE_COMMIT: TransactionEventName.COMMITTED,
    COMPLETE_ABORT: TransactionEventName.ABORTED,
}
"""The event of a record by its state; the others begin or end no transaction."""


def transaction_event(
    before: Transaction | None, after: Transaction
) -> TransactionEventName | None:
    """The event of a record; None if it is none, such as a further partition of a transaction."""
    if before is not None and _place(before) == _place(after):
        return None
    if after.state == PREPARE_ABORT and before is not None:
        return _abort_event(before, after)
    return _EVENTS.get(after.state)


def _place(transaction: Transaction) -> tuple[str, int, int, int | None]:
    """The transaction, and how far it is."""
    return (
        transaction.state,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.start_timestamp_ms,
    )


def duration_ms(event: TransactionEventName, transaction: Transaction) -> int | None:
    """The time from the start of the transaction to the record; None for its start."""
    started, updated = transaction.start_timestamp_ms, transaction.last_update_timestamp_ms
    if event is TransactionEventName.BEGUN or started is None or updated is None:
        return None
    return updated - started


def _abort_event(before: Transaction, after: Transaction) -> TransactionEventName:
    """Tell who aborts: before the coordinator does it by itself, it raises the epoch."""
    is_raised = (
        before.state == ONGOING
        and before.producer_id == after.producer_id
        and before.producer_epoch < after.producer_epoch
    )
    open_ms = duration_ms(TransactionEventName.PREPARED, after)
    if is_raised and open_ms is not None and open_ms >= after.timeout_ms:
        return TransactionEventName.TIMED_OUT
    if is_raised and before.client_transaction_version < _FIRST_VERSION_WITH_EPOCH_BUMP:
        return TransactionEventName.FENCED
    return TransactionEventName.PREPARED
