"""The source in streaming queries on a real broker, against what a consumer reads of the topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.errors import NoError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.partitioner import partition_for
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.source.coordinator_log import CoordinatorLogDataSource
from tests.support.brokers.commits import create_topic
from tests.support.brokers.consumed_log import consumed
from tests.support.clients.admin_client import admin_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

TOPIC = "sourced"


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(CoordinatorLogDataSource)


class Log:
    """Commits of groups on one broker."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        create_topic(broker, TOPIC, 3)

    def commit(self, group_id: str, *offsets: int) -> None:
        places = [TopicPartition(TOPIC, partition) for partition in range(3)]
        with admin_of(self.broker) as admin:
            for offset in offsets:
                committed = dict.fromkeys(places, OffsetAndMetadata(offset, f"at {offset}", -1))
                errors = admin.alter_group_offsets(group_id, committed)
                assert set(errors.values()) == {NoError}

    def remove(self, group_id: str) -> None:
        with admin_of(self.broker) as admin:
            admin.delete_groups([group_id])

    def commit_in_transactions(self, group_id: str, *, commits: int, aborts: int) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.broker.bootstrap_servers, transactional_id=group_id
        )
        with closing(producer):
            producer.init_transactions()
            for number in range(commits + aborts):
                producer.begin_transaction()
                producer.send_offsets_to_transaction(
                    {TopicPartition(TOPIC, 0): OffsetAndMetadata(number, "", -1)},
                    ConsumerGroupMetadata(group_id, -1, "", None),
                )
                if number < commits:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()

    def consumed(self, ends: Mapping[int, int] | None = None) -> dict[tuple[int, int], Row]:
        """The records that a consumer reads of the topic, as rows."""
        return {at: expected_row(record) for at, record in consumed(self.broker, ends).items()}


def expected_row(record: Any) -> Row:
    """The columns of a row that a consumer's record tells."""
    key = decode_key(record.key)
    row: dict[str, Any] = {
        "record_timestamp_ms": record.timestamp,
        "record_type": key.record_type.id,
        "group_id": key.group_id,
        "is_tombstone": record.value is None,
        "row_kind": "offset" if key.record_type.id in (0, 1) else "record",
    }
    if row["row_kind"] == "record":
        return row | {"raw_key": record.key, "raw_value": record.value}
    row |= {"topic": key.fields["topic"], "partition": key.fields["partition"]}
    if record.value is not None:
        value = decode_value(key.record_type, record.value)
        row |= {
            "committed_offset": value.fields["offset"],
            "metadata": value.fields["metadata"],
            "commit_timestamp_ms": value.fields["commitTimestamp"],
        }
    return row


RunQuery = Callable[..., list[Row]]


@pytest.fixture
def run_query(spark: SparkSession, tmp_path: Path) -> RunQuery:
    """Runs a query to the end of the log, on one checkpoint; gives the rows of its micro-batch."""

    def run(broker: EmbeddedBroker, **options: str) -> list[Row]:
        batches: list[list[Row]] = []

        def collect(frame: DataFrame, _batch_id: int) -> None:
            batches.append(frame.toArrow().to_pylist())

        query = (
            spark.readStream.format("coordinator_log")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .options(**options)
            .load()
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(collect)
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        (batch,) = batches
        return batch

    return run


def by_offset(rows: list[Row]) -> dict[tuple[int, int], Row]:
    row_by_offset = {}
    for row in rows:
        if row["row_kind"] != "progress":
            at = (row["log_partition"], row["record_offset"])
            assert at not in row_by_offset, f"read twice: {at}"
            row_by_offset[at] = row
    return row_by_offset


def progress_of(batch: list[Row]) -> dict[int, Row]:
    progress = {row["log_partition"]: row for row in batch if row["row_kind"] == "progress"}
    assert len(progress) == sum(row["row_kind"] == "progress" for row in batch)
    return progress


def assert_same_records(batch: list[Row], log: Log) -> None:
    """The rows are the consumer's records, and the markers that a consumer does not show."""
    data = {at: row for at, row in by_offset(batch).items() if row["row_kind"] != "marker"}
    # Other tests may write to the log meanwhile.
    ends = {p: row["record_offset"] for p, row in progress_of(batch).items()}
    expected = log.consumed(ends)
    assert set(data) == set(expected)
    for at, row in expected.items():
        assert {name: data[at][name] for name in row} == row


def assert_accounted(batch: list[Row]) -> None:
    """The micro-batch has every log partition, and its counts add up."""
    progress = progress_of(batch)
    assert set(progress) == set(range(50))
    for log_partition, row in progress.items():
        assert row["from_offset"] <= row["record_offset"] <= row["high_watermark"]
        emitted = sum(
            other["log_partition"] == log_partition and other["row_kind"] != "progress"
            for other in batch
        )
        assert row["records_read"] == emitted + row["records_superseded"]


def test_all_history_is_what_a_consumer_reads_and_the_markers(
    broker: EmbeddedBroker, run_query: RunQuery
) -> None:
    log = Log(broker)
    log.commit("source-plain", *range(8))
    log.commit("source-removed", 1)
    log.remove("source-removed")
    log.commit_in_transactions("source-transactional", commits=3, aborts=2)
    batch = run_query(broker, history="all")
    assert_accounted(batch)
    assert_same_records(batch, log)
    rows = [row for _, row in sorted(by_offset(batch).items())]
    commits = [row for row in rows if row["group_id"] == "source-transactional"]
    (producer,) = {row["producer_id"] for row in commits if row["is_transactional"]}
    markers = [row for row in rows if row["row_kind"] == "marker"]
    ended = [row["control_type"] for row in markers if row["producer_id"] == producer]
    assert ended == [1, 1, 1, 0, 0]

    log.commit("source-plain", 9)
    batch = run_query(broker, history="all")
    commits = [row for row in batch if row["group_id"] == "source-plain"]
    assert [row["committed_offset"] for row in commits] == [9] * 3


def test_chosen_log_partitions_from_chosen_offsets(
    broker: EmbeddedBroker, run_query: RunQuery
) -> None:
    log = Log(broker)
    log.commit("source-chosen", *range(5))
    log_partition = partition_for("source-chosen")
    end = max(offset for p, offset in log.consumed() if p == log_partition) + 1
    batch = run_query(
        broker,
        history="all",
        log_partitions=str(log_partition),
        start_offsets=f'{{"{log_partition}": {end - 4}}}',
    )
    (progress,) = progress_of(batch).values()
    # A member of another test's group may have left meanwhile.
    offsets = range(end - 4, max(end, progress["record_offset"]))
    assert [progress["from_offset"], progress["record_offset"]] == [offsets.start, offsets.stop]
    assert progress["records_read"] == len(offsets)
    assert [offset for _, offset in by_offset(batch)] == list(offsets)
