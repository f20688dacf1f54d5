"""A micro-batch of `__transaction_state`: the rows that it writes, and its counts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.apply.columns import columns_of, timestamps
from coordinator_state.apply.topic_rows import IS_TOMBSTONE
from coordinator_state.apply.topic_rules import AppliedTopic
from coordinator_state.apply.transactions import TRANSACTION_STATE
from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from coordinator_state.records.internal_topics import TRANSACTION_STATE_TOPIC
from coordinator_state.records.serde import decode_value
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.replay.transactions import Transaction, transaction_of
from streaming.tables.schemas import TRANSACTION_EVENTS, TRANSACTIONS
from tests.support.logs.topic_logs import (
    NOW_MS,
    UNKNOWN_TYPE,
    KeyAndValue,
    TopicLog,
    transaction_key,
    transaction_value,
)

Row = dict[str, Any]

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
X = transaction_key("x")


def log_of(*records: KeyAndValue) -> TopicLog:
    log = TopicLog(TRANSACTION_STATE_TOPIC, log_partition=7)
    log.append(*records)
    return log


def apply(*records: KeyAndValue, with_history: bool = True) -> AppliedTopic:
    return TRANSACTION_STATE.apply(log_of(*records).rows(), {}, with_history=with_history)


def changes(applied: AppliedTopic) -> list[Row]:
    rows: list[Row] = applied.tables["transactions"].to_pylist()
    return rows


def state_of(value: bytes) -> Transaction:
    """The state that a record value is."""
    (record_type,) = TRANSACTION_RECORD_TYPES.values()
    return transaction_of(decode_value(record_type, value).fields)


def stored(applied: AppliedTopic) -> pa.Table:
    """The rows as the table has them."""
    return columns_of(applied.tables["transactions"], TRANSACTIONS.schema)


def events(applied: AppliedTopic) -> list[str]:
    names: list[str] = applied.tables["transaction_events"]["event"].to_pylist()
    return names


@pytest.mark.parametrize("version", [0, 1])
def test_a_row_has_the_fields_of_the_record(version: int) -> None:
    partitions = [
        {"topic": "t", "partitionIds": [0, 2]},
        {"topic": "__consumer_offsets", "partitionIds": [9]},
    ]
    tagged = {"previousProducerId": 4, "clientTransactionVersion": 2} if version else {}
    value = transaction_value(version=version, transactionPartitions=partitions, **tagged)
    applied = apply((X, transaction_value("Empty")), (X, value))
    (row,) = changes(applied)
    assert (
        row.items()
        >= {
            "log_partition": 7,
            "transactional_id": "x",
            "producer_id": 5,
            "producer_epoch": 0,
            "last_producer_id": 4 if version else None,
            "timeout_ms": 60_000,
            "state": "Ongoing",
            "last_update_timestamp_ms": NOW_MS,
            "start_timestamp_ms": NOW_MS,
            "client_transaction_version": 2 if version else 0,
            "record_offset": 1,
            IS_TOMBSTONE: False,
        }.items()
    )
    assert [(place["topic"], place["partition"]) for place in row["topic_partitions"]] == [
        *(("t", 0), ("t", 2)),
        ("__consumer_offsets", 9),
    ]
    assert applied.counts.applied == applied.counts.rows == {7: 2}


def test_null_partitions_and_no_times() -> None:
    value = transaction_value(
        "Empty",
        transactionPartitions=None,
        transactionLastUpdateTimestampMs=-1,
        transactionStartTimestampMs=-1,
    )
    (row,) = changes(apply((X, value)))
    assert row["topic_partitions"] == []
    assert row["last_update_timestamp_ms"] is row["start_timestamp_ms"] is None


@pytest.mark.parametrize(("state", "timeout_ms"), [("Ongoing", 900), ("PrepareCommit", None)])
def test_only_an_ongoing_transaction_has_a_time_of_its_abort(
    state: str, timeout_ms: int | None
) -> None:
    (row,) = changes(apply((X, transaction_value(state, transactionTimeoutMs=900))))
    assert row["abort_timestamp_ms"] == (timeout_ms and NOW_MS + timeout_ms)


def test_a_coordinator_never_aborts_a_two_phase_commit() -> None:
    """KIP-939: `TransactionMetadata.isDistributedTwoPhaseCommitTxn` of Kafka 4.4."""
    (row,) = changes(apply((X, transaction_value("Ongoing", transactionTimeoutMs=2**31 - 1))))
    assert (row["state"], row["abort_timestamp_ms"]) == ("Ongoing", None)


def test_a_tombstone_deletes_and_ends_no_transaction() -> None:
    applied = apply((X, transaction_value()), (X, None))
    (row,) = changes(applied)
    assert (row["transactional_id"], row["record_offset"], row[IS_TOMBSTONE]) == ("x", 1, True)
    assert row["state"] is None
    assert events(applied) == ["begun"]
    # The transactional id begins again after it.
    applied = apply((X, transaction_value()), (X, None), (X, transaction_value()))
    assert [row[IS_TOMBSTONE] for row in changes(applied)] == [False]
    assert events(applied) == ["begun", "begun"]


def test_the_state_before_decides_on_the_event() -> None:
    begun = apply((X, transaction_value()))
    before = TRANSACTION_STATE.read_states(stored(begun))
    assert before == {(7, "x"): state_of(transaction_value())}
    records = ((X, transaction_value()), (X, transaction_value("PrepareCommit")))
    rows = log_of(*records).rows()
    assert events(TRANSACTION_STATE.apply(rows, before, with_history=True)) == ["prepared"]
    assert events(apply(*records)) == ["begun", "prepared"]
    without = apply(*records, with_history=False)
    assert (events(without), changes(without)) == ([], changes(apply(*records)))
    assert without.counts == apply(*records).counts


def test_an_event_has_the_place_of_its_record_and_its_duration() -> None:
    done = transaction_value("CompleteCommit", transactionLastUpdateTimestampMs=NOW_MS + 70)
    (row,) = apply((X, done)).tables["transaction_events"].to_pylist()
    assert (row["log_partition"], row["record_offset"]) == (7, 0)
    assert (row["event"], row["state"]) == ("committed", "CompleteCommit")
    assert row["record_timestamp_ms"] == NOW_MS
    assert (row["duration_ms"], row["outcome"]) == (70, None)
    assert row["topic_partitions"] == [{"topic": "t", "partition": 0}]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (X, transaction_value(8), "unknown transactionStatus 8"),
        (X, transaction_value(-1), "unknown transactionStatus -1"),
        (UNKNOWN_TYPE, transaction_value(), "unknown record type 99"),
        (UNKNOWN_TYPE, None, "unknown record type 99"),
        (None, transaction_value(), "null key"),
        (None, None, "null key"),
        (b"", transaction_value(), "record key field type"),
        (X[:-1], transaction_value(), "TransactionLogKey"),
        (X, b"\x00\x09", "unsupported version"),
        (X, transaction_value()[:-3], "TransactionLogValue v1"),
        (X, b"", "TransactionLogValue"),
    ],
)
def test_a_record_that_cannot_be_read_is_in_quarantine(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    applied = apply((key, value))
    (row,) = applied.tables["quarantine"].to_pylist()
    assert reason in row["reason"]
    assert (row["log_topic"], row["log_partition"]) == (TRANSACTION_STATE_TOPIC, 7)
    assert (row["record_offset"], row["raw_key"], row["raw_value"]) == (0, key, value)
    assert changes(applied) == []
    assert applied.counts.quarantined == applied.counts.rows == {7: 1}
    assert not any(applied.counts.applied.values())


@pytest.mark.parametrize(
    ("timestamp_ms", "kept_ms"), [(INT64_MIN, MIN_TIMESTAMP_MS), (INT64_MAX, MAX_TIMESTAMP_MS)]
)
def test_extreme_times_become_the_nearest_time_of_the_tables(
    timestamp_ms: int, kept_ms: int
) -> None:
    fields = {"transactionStartTimestampMs": timestamp_ms, "producerId": INT64_MAX}
    value = transaction_value(
        "CompleteCommit",
        transactionLastUpdateTimestampMs=timestamp_ms,
        transactionTimeoutMs=(1 << 31) - 1,
        **fields,
    )
    log = log_of()
    log.append((X, value), timestamp_ms=timestamp_ms)
    applied = TRANSACTION_STATE.apply(log.rows(), {}, with_history=True)
    (row,) = changes(applied)
    assert row["start_timestamp_ms"] == row["last_update_timestamp_ms"] == kept_ms
    assert TRANSACTION_STATE.read_states(stored(applied)) == {(7, "x"): state_of(value)}
    event = columns_of(applied.tables["transaction_events"], TRANSACTION_EVENTS.schema)
    (kept,) = timestamps(pa.chunked_array([pa.array([kept_ms])])).to_pylist()
    assert event["record_timestamp"].to_pylist() == event["start_timestamp"].to_pylist() == [kept]
    assert event["day"].to_pylist() == [kept.date()]
    assert event["duration_ms"].to_pylist() == [0]
    # Of an ongoing transaction, the time of its abort is stored, too.
    for timeout_ms in (-(1 << 31), (1 << 31) - 1):
        value = transaction_value(transactionTimeoutMs=timeout_ms, **fields)
        assert TRANSACTION_STATE.read_states(stored(apply((X, value)))) == {
            (7, "x"): state_of(value)
        }


def test_the_longest_duration() -> None:
    value = transaction_value(
        "CompleteCommit",
        transactionStartTimestampMs=INT64_MIN,
        transactionLastUpdateTimestampMs=INT64_MAX,
    )
    (row,) = apply((X, value)).tables["transaction_events"].to_pylist()
    assert row["duration_ms"] == MAX_TIMESTAMP_MS - MIN_TIMESTAMP_MS
