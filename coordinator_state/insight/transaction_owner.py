"""The transactional id behind pending offsets, and whether their transaction can still end.

A coordinator writes the marker to each partition of a transaction, and then the complete state to
`__transaction_state`. A pending offset whose producer has no ongoing transaction will therefore
never get a marker: the transactional commit arrived after the marker (KIP-890 has the cases), or
the marker was lost. Only `kafka-transactions.sh abort` ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from coordinator_state.replay.transactions import (
    ONGOING,
    OPEN_STATES,
    TWO_PHASE_COMMIT_TIMEOUT_MS,
)

SLACK: Final = timedelta(minutes=1)
"""Two logs are read up to slightly different moments, and brokers' clocks differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """The row of `transactions` that has a producer id."""

    transactional_id: str
    timeout_ms: int
    state: str
    start_timestamp: datetime | None
    last_update_timestamp: datetime | None
    abort_timestamp: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOwner:
    """The owner of pending offsets.

    Attributes:
        transactional_id: None if no transactional id has the producer id any more.
        state: the state of the transactional id.
        abort_timestamp: when the coordinator aborts the transaction, if it is ongoing.
        is_marker_lost: whether the offsets stay pending for ever; None if the tables lack records
            that may tell.
        is_two_phase_commit: whether the transaction is ongoing, and only its application ends it,
            maybe long after it has prepared it (KIP-939).
    """

    transactional_id: str | None
    state: str | None
    abort_timestamp: datetime | None
    is_marker_lost: bool | None
    is_two_phase_commit: bool = False


def transaction_owner(
    producer: ProducerState | None, last_commit_at: datetime, at: datetime, *, is_at_end: bool
) -> TransactionOwner:
    """The owner of pending offsets at a moment.

    Args:
        producer: the state of the producer id; None if `transactions` has none.
        last_commit_at: the time of the producer's newest pending offset in the log partition.
        at: the moment of the tables.
        is_at_end: whether the tables have all records of the log partition and of
            `__transaction_state` up to the end. Else a marker or a begin may be unread.
    """
    if producer is None:
        is_lost = last_commit_at < at - SLACK
        return TransactionOwner(
            transactional_id=None,
            state=None,
            abort_timestamp=None,
            is_marker_lost=is_lost if is_at_end else None,
        )
    begun = producer.start_timestamp
    is_open = (
        producer.state in OPEN_STATES and begun is not None and begun <= last_commit_at + SLACK
    )
    updated = producer.last_update_timestamp
    is_settled = last_commit_at < at - SLACK and (updated is None or updated < at - SLACK)
    return TransactionOwner(
        transactional_id=producer.transactional_id,
        state=producer.state,
        abort_timestamp=producer.abort_timestamp if is_open else None,
        is_marker_lost=not is_open and is_settled if is_at_end else None,
        is_two_phase_commit=is_open
        and producer.state == ONGOING
        and producer.timeout_ms == TWO_PHASE_COMMIT_TIMEOUT_MS,
    )
