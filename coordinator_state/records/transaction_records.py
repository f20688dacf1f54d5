"""The record type of `__transaction_state`: the last state of each transactional id.

Source: transaction-coordinator/src/main/resources/common/message/TransactionLog{Key,Value}.json at
3.9.1 to 4.4.0; KIP-915 for the flexible version, KIP-890 for the tagged fields.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.records.record_types import NO_PRODUCER_ID, RecordType
from coordinator_state.wire.schema import Field, FieldType, Schema

TRANSACTION_STATES: Final = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
"""Names of `transactionStatus`, as DescribeTransactions answers them (`TransactionState.java`)."""

_PARTITIONS: Final = Field(
    name="transactionPartitions",
    type="struct",
    is_array=True,
    is_nullable=True,
    fields=(
        Field(name="topic", type="string"),
        Field(name="partitionIds", type="int32", is_array=True),
    ),
)


def _tagged(tag: int, name: str, field_type: FieldType, default: int) -> Field:
    return Field(name=name, type=field_type, versions=(1, 1), tag=tag, default=default)


TRANSACTION_RECORD_TYPES: Final = {
    0: RecordType(
        id=0,
        name="TransactionLog",
        key_fields=(Field(name="transactionalId", type="string"),),
        # v0: 0.11. v1: flexible; 3.4.1 and later read it (KIP-915), 4.0 writes it with feature
        # transaction.version 1 or higher.
        value=Schema(
            name="TransactionLogValue",
            versions=(0, 1),
            first_flexible=1,
            fields=(
                Field(name="producerId", type="int64"),
                _tagged(0, "previousProducerId", "int64", NO_PRODUCER_ID),
                _tagged(1, "nextProducerId", "int64", NO_PRODUCER_ID),
                Field(name="producerEpoch", type="int16"),
                _tagged(3, "nextProducerEpoch", "int16", -1),
                Field(name="transactionTimeoutMs", type="int32"),
                Field(name="transactionStatus", type="int8"),
                _PARTITIONS,
                Field(name="transactionLastUpdateTimestampMs", type="int64"),
                Field(name="transactionStartTimestampMs", type="int64"),
                _tagged(2, "clientTransactionVersion", "int16", 0),
            ),
        ),
    )
}
"""The record types by their number in the key."""
