"""The loader's rules for `__transaction_state`: the last record of a transactional id is its state.

A tombstone removes the transactional id. The log of a broker that was killed may end in a prepare
state; the coordinator that loads it writes the markers and then the next state.

Source: core/src/main/scala/kafka/coordinator/transaction/TransactionStateManager.scala
(`loadTransactionMetadata`) and TransactionLog.scala at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.errors import UnknownTransactionState
from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from coordinator_state.records.record_types import NO_PRODUCER_ID, NO_TIMESTAMP
from coordinator_state.records.transaction_records import TRANSACTION_STATES

ONGOING: Final = "Ongoing"
PREPARE_COMMIT: Final = "PrepareCommit"
PREPARE_ABORT: Final = "PrepareAbort"
COMPLETE_COMMIT: Final = "CompleteCommit"
COMPLETE_ABORT: Final = "CompleteAbort"
OPEN_STATES: Final = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
"""The states in which markers of the transaction are still to come."""
TWO_PHASE_COMMIT_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a producer with `transaction.two.phase.commit.enable` (KIP-939).

Kafka 4.4: `TransactionMetadata.isDistributedTwoPhaseCommitTxn`. The coordinator never aborts such a
transaction. No record says whether the application has prepared it: its state is `Ongoing`.
"""


@dataclass(frozen=True, slots=True)
class TransactionPartition:
    """A partition that takes part in a transaction.

    A producer that commits offsets adds the partition of `__consumer_offsets` of its group.
    """

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of a transactional id (`TransactionMetadata`).

    `last_producer_id` is the producer id of the last transaction that ended, if the log has it
    (`previousProducerId`). `start_timestamp_ms` is None before the first transaction. Times
    are clamped to those of the tables. `client_transaction_version` is 2 if the producer uses
    transactions of KIP-890.
    """

    producer_id: int
    producer_epoch: int
    last_producer_id: int | None
    timeout_ms: int
    state: str
    topic_partitions: tuple[TransactionPartition, ...]
    last_update_timestamp_ms: int | None
    start_timestamp_ms: int | None
    client_transaction_version: int

    @property
    def abort_timestamp_ms(self) -> int | None:
        """When the coordinator aborts the transaction by itself, if it is ongoing.

        It looks for such transactions every 10 seconds
        (`transaction.abort.timed.out.transaction.cleanup.interval.ms`). None for a two-phase
        commit.
        """
        if self.state != ONGOING or self.start_timestamp_ms is None:
            return None
        if self.timeout_ms == TWO_PHASE_COMMIT_TIMEOUT_MS:
            return None
        return min(self.start_timestamp_ms + self.timeout_ms, MAX_TIMESTAMP_MS)


def transaction_of(value: Mapping[str, Any]) -> Transaction:
    """The state in a TransactionLogValue, by Kafka's names of its fields.

    Raises:
        UnknownTransactionState: Kafka has no state of this number.
    """
    status = value["transactionStatus"]
    if status not in TRANSACTION_STATES:
        raise UnknownTransactionState(status)
    last_producer_id = value["previousProducerId"]
    return Transaction(
        producer_id=value["producerId"],
        producer_epoch=value["producerEpoch"],
        last_producer_id=None if last_producer_id == NO_PRODUCER_ID else last_producer_id,
        timeout_ms=value["transactionTimeoutMs"],
        state=TRANSACTION_STATES[status],
        topic_partitions=tuple(
            TransactionPartition(of_topic["topic"], partition)
            for of_topic in value["transactionPartitions"] or ()
            for partition in of_topic["partitionIds"]
        ),
        last_update_timestamp_ms=_time(value["transactionLastUpdateTimestampMs"]),
        start_timestamp_ms=_time(value["transactionStartTimestampMs"]),
        client_transaction_version=value["clientTransactionVersion"],
    )


def _time(timestamp_ms: int) -> int | None:
    if timestamp_ms == NO_TIMESTAMP:
        return None
    return max(MIN_TIMESTAMP_MS, min(timestamp_ms, MAX_TIMESTAMP_MS))
