"""A micro-batch of `__transaction_state`: the rows that it writes, and its counts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.apply.columns import columns_of, timestamps
from coordinator_state.apply.topic_records import AppliedTopic
from coordinator_state.apply.topic_rows import IS_TOMBSTONE
from coordinator_state.apply.transactions import apply_transactions, transactions_of
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
    return apply_transactions(log_of(*records).rows(), {}, with_history=with_history)


def changes(applied: AppliedTopic) -> list[Row]:
    rows: list[Row] = applied.tables["transactions"].to_pylist()
    return rows


def state_of(value: bytes) -> Transaction:
    """The state that a record value is."""
    (record_type,) = TRANSACTION_RECORD_TYPES.values()
    return transaction_of(decode_value(record_type, value).fields)


def events(applied: AppliedTopic) -> list[str]:
    names: list[str] = applied.tables["transaction_events"]["event"].to_pylist()
    return names


def reason(*record: bytes | None) -> str:
    """The reason why the only record is in quarantine."""
    key, value = record
    applied = apply((key, value))
    (row,) = applied.tables["quarantine"].to_pylist()
    assert (row["log_topic"], row["log_partition"]) == (TRANSACTION_STATE_TOPIC, 7)
    assert (row["record_offset"], row["raw_key"], row["raw_value"]) == (0, key, value)
    assert changes(applied) == []
    assert applied.counts.quarantined == applied.counts.rows == {7: 1}
    assert not any(applied.counts.applied.values())
    return str(row["reason"])


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
    assert [(one["topic"], one["partition"]) for one in row["topic_partitions"]] == [
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


def test_only_an_ongoing_transaction_has_a_time_of_its_abort() -> None:
    fields = {"transactionStartTimestampMs": NOW_MS, "transactionTimeoutMs": 900}
    for state, abort_ms in (("Ongoing", NOW_MS + 900), ("PrepareCommit", None)):
        (row,) = changes(apply((X, transaction_value(state, **fields))))
        assert row["abort_timestamp_ms"] == abort_ms


def test_a_tombstone_deletes_and_ends_no_transaction() -> None:
    applied = apply((X, transaction_value()), (X, None))
    (row,) = changes(applied)
    assert (row["transactional_id"], row["record_offset"], row[IS_TOMBSTONE]) == ("x", 1, True)
    assert row["state"] is None
    assert events(applied) == ["begun"]


def test_a_transactional_id_begins_again_after_its_tombstone() -> None:
    applied = apply((X, transaction_value()), (X, None), (X, transaction_value()))
    assert [row[IS_TOMBSTONE] for row in changes(applied)] == [False]
    assert events(applied) == ["begun", "begun"]


def test_the_state_before_decides_on_the_event() -> None:
    begun = apply((X, transaction_value()))
    stored = columns_of(begun.tables["transactions"], TRANSACTIONS.schema)
    before = transactions_of(stored)
    assert before == {(7, "x"): state_of(transaction_value())}
    log = log_of((X, transaction_value()), (X, transaction_value("PrepareCommit")))
    assert events(apply_transactions(log.rows(), before, with_history=True)) == ["prepared"]
    assert events(apply_transactions(log.rows(), {}, with_history=True)) == ["begun", "prepared"]


def test_an_event_has_the_place_of_its_record_and_its_duration() -> None:
    done = transaction_value("CompleteCommit", transactionLastUpdateTimestampMs=NOW_MS + 70)
    (row,) = apply((X, done)).tables["transaction_events"].to_pylist()
    assert (row["log_partition"], row["record_offset"]) == (7, 0)
    assert (row["event"], row["state"]) == ("committed", "CompleteCommit")
    assert row["record_timestamp_ms"] == NOW_MS
    assert (row["duration_ms"], row["outcome"]) == (70, None)
    assert row["topic_partitions"] == [{"topic": "t", "partition": 0}]


def test_without_history_there_are_no_events() -> None:
    records = ((X, transaction_value()), (X, transaction_value("PrepareCommit")))
    without = apply(*records, with_history=False)
    assert without.tables["transaction_events"].num_rows == 0
    assert changes(without) == changes(apply(*records))
    assert without.counts == apply(*records).counts


def test_records_that_nobody_can_read() -> None:
    value = transaction_value()
    assert "unknown transactionStatus 8" in reason(X, transaction_value(8))
    assert "unknown transactionStatus -1" in reason(X, transaction_value(-1))
    assert "unknown record type 99" in reason(UNKNOWN_TYPE, value)
    assert "unknown record type 99" in reason(UNKNOWN_TYPE, None)
    assert "null key" in reason(None, value)
    assert "null key" in reason(None, None)
    assert "record key field type" in reason(b"", value)
    assert "TransactionLogKey" in reason(X[:-1], value)
    assert "unsupported version" in reason(X, b"\x00\x09")
    assert "TransactionLogValue v1" in reason(X, value[:-3])
    assert "TransactionLogValue" in reason(X, b"")


@pytest.mark.parametrize(
    ("timestamp_ms", "kept_ms"), [(INT64_MIN, MIN_TIMESTAMP_MS), (INT64_MAX, MAX_TIMESTAMP_MS)]
)
def test_extreme_times_become_the_nearest_time_of_the_tables(
    timestamp_ms: int, kept_ms: int
) -> None:
    value = transaction_value(
        "CompleteCommit",
        transactionStartTimestampMs=timestamp_ms,
        transactionLastUpdateTimestampMs=timestamp_ms,
        transactionTimeoutMs=(1 << 31) - 1,
        producerId=INT64_MAX,
    )
    log = log_of()
    log.append((X, value), timestamp_ms=timestamp_ms)
    applied = apply_transactions(log.rows(), {}, with_history=True)
    (row,) = changes(applied)
    assert row["start_timestamp_ms"] == row["last_update_timestamp_ms"] == kept_ms
    stored = columns_of(applied.tables["transactions"], TRANSACTIONS.schema)
    assert transactions_of(stored) == {(7, "x"): state_of(value)}
    event = columns_of(applied.tables["transaction_events"], TRANSACTION_EVENTS.schema)
    (kept,) = timestamps(pa.chunked_array([pa.array([kept_ms])])).to_pylist()
    assert event["record_timestamp"].to_pylist() == event["start_timestamp"].to_pylist() == [kept]
    assert event["day"].to_pylist() == [kept.date()]
    assert event["duration_ms"].to_pylist() == [0]


def test_the_longest_duration() -> None:
    value = transaction_value(
        "CompleteCommit",
        transactionStartTimestampMs=INT64_MIN,
        transactionLastUpdateTimestampMs=INT64_MAX,
    )
    (row,) = apply((X, value)).tables["transaction_events"].to_pylist()
    assert row["duration_ms"] == MAX_TIMESTAMP_MS - MIN_TIMESTAMP_MS


def test_an_ongoing_transaction_with_extreme_times_is_stored() -> None:
    for timestamp_ms in (INT64_MIN, INT64_MAX):
        for timeout_ms in (-(1 << 31), (1 << 31) - 1):
            value = transaction_value(
                transactionStartTimestampMs=timestamp_ms, transactionTimeoutMs=timeout_ms
            )
            applied = apply((X, value))
            stored = columns_of(applied.tables["transactions"], TRANSACTIONS.schema)
            assert transactions_of(stored) == {(7, "x"): state_of(value)}
