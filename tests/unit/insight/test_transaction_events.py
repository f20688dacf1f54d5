"""The events of a transactional id, from the states of it in the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator_state.insight.transaction_events import (
    TransactionEventName,
    duration_ms,
    transaction_event,
)
from coordinator_state.replay.transactions import Transaction, TransactionPartition

TIMEOUT_MS = 60_000
STARTED_MS = 1_000

BEGUN, PREPARED = TransactionEventName.BEGUN, TransactionEventName.PREPARED
COMMITTED, ABORTED = TransactionEventName.COMMITTED, TransactionEventName.ABORTED
TIMED_OUT, FENCED = TransactionEventName.TIMED_OUT, TransactionEventName.FENCED


def state(name: str, *, epoch: int = 0, after_ms: int = 10, **fields: Any) -> Transaction:
    """A state that was written some time after the start of the transaction."""
    started_ms = fields.pop("start_timestamp_ms", STARTED_MS)
    given = {
        "producer_id": 5,
        "producer_epoch": epoch,
        "last_producer_id": None,
        "timeout_ms": TIMEOUT_MS,
        "state": name,
        "topic_partitions": (TransactionPartition("t", 0),),
        "start_timestamp_ms": started_ms,
        "last_update_timestamp_ms": (started_ms or 0) + after_ms,
        "client_transaction_version": 1,
        **fields,
    }
    return Transaction(**given)


def events(states: Iterable[Transaction]) -> list[TransactionEventName | None]:
    """The event of each state, the first of which has none before it."""
    names, before = [], None
    for after in states:
        names.append(transaction_event(before, after))
        before = after
    return names


EMPTY = state("Empty", start_timestamp_ms=None, topic_partitions=())
ONGOING = state("Ongoing")
BOTH_PARTITIONS = (TransactionPartition("t", 0), TransactionPartition("t", 1))


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            [EMPTY, state("Ongoing"), state("PrepareCommit"), state("CompleteCommit")],
            [None, BEGUN, PREPARED, COMMITTED],
        ),
        (
            [EMPTY, state("Ongoing"), state("PrepareAbort"), state("CompleteAbort")],
            [None, BEGUN, PREPARED, ABORTED],
        ),
        # Further partitions and repeated records are no events.
        (
            [
                state("Ongoing"),
                state("Ongoing", topic_partitions=BOTH_PARTITIONS, after_ms=20),
                state("PrepareCommit"),
                state("PrepareCommit", after_ms=30),
            ],
            [BEGUN, None, PREPARED, None],
        ),
        # The next transaction begins at its own time.
        (
            [state("CompleteCommit"), state("Ongoing", start_timestamp_ms=9_000)],
            [COMMITTED, BEGUN],
        ),
    ],
)
def test_the_events_of_a_log(
    log: list[Transaction], expected: list[TransactionEventName | None]
) -> None:
    assert events(log) == expected


def of_version(version: int) -> Transaction:
    return state("Ongoing", client_transaction_version=version)


LATE = {"epoch": 1, "after_ms": TIMEOUT_MS}


@pytest.mark.parametrize(
    ("before", "after", "event"),
    [
        # An abort with a greater epoch after the timeout is a timeout.
        *((of_version(version), state("PrepareAbort", **LATE), TIMED_OUT) for version in (0, 1, 2)),
        # Before the timeout, a client of version 2 raises the epoch when it aborts, too.
        *(
            (of_version(version), state("PrepareAbort", epoch=1, after_ms=TIMEOUT_MS - 1), event)
            for version, event in ((0, FENCED), (1, FENCED), (2, PREPARED))
        ),
        # The producer itself aborts late.
        (ONGOING, state("PrepareAbort", after_ms=2 * TIMEOUT_MS), PREPARED),
        # The producer has a new id.
        (ONGOING, state("PrepareAbort", epoch=1, producer_id=6), PREPARED),
        # The time of the start is not known.
        (ONGOING, state("PrepareAbort", start_timestamp_ms=None, **LATE), FENCED),
        # The cleaner removed all records before.
        (None, ONGOING, BEGUN),
        (None, state("PrepareAbort", **LATE), PREPARED),
        (None, state("CompleteCommit"), COMMITTED),
        # It removed the start, so nobody can tell who aborts.
        (EMPTY, state("PrepareAbort", **LATE), PREPARED),
        # It removed whole transactions in between.
        (state("CompleteCommit"), state("CompleteCommit", start_timestamp_ms=9_000), COMMITTED),
        (ONGOING, state("Ongoing", start_timestamp_ms=9_000), BEGUN),
        (ONGOING, state("CompleteAbort", epoch=1), ABORTED),
        # The other states are no events.
        *((ONGOING, state(name, epoch=1), None) for name in ("Empty", "Dead", "PrepareEpochFence")),
    ],
)
def test_the_event_of_two_states(
    before: Transaction | None, after: Transaction, event: TransactionEventName | None
) -> None:
    assert transaction_event(before, after) is event


def test_the_duration_is_since_the_start() -> None:
    done = state("CompleteCommit", after_ms=30)
    assert duration_ms(COMMITTED, done) == 30
    assert duration_ms(BEGUN, done) is None
    assert duration_ms(COMMITTED, state("CompleteCommit", start_timestamp_ms=None)) is None
    assert duration_ms(COMMITTED, state("CompleteCommit", last_update_timestamp_ms=None)) is None
