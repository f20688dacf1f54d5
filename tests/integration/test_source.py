"""The source in a streaming query on a real broker, against what a consumer reads of the topic."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.records.serde import decode_key, decode_value
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.source.coordinator_log import CoordinatorLogDataSource
from tests.support.brokers.commits import admin_of, commit, create_topic
from tests.support.eventually import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

TOPIC = "sourced"


def commit_in_transactions(broker: EmbeddedBroker, group_id: str, *are_committed: bool) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=group_id)
    with closing(producer):
        producer.init_transactions()
        for number, is_committed in enumerate(are_committed):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                {TopicPartition(TOPIC, 0): OffsetAndMetadata(number, "", -1)},
                ConsumerGroupMetadata(group_id, -1, "", None),
            )
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def consumed(broker: EmbeddedBroker, ends: Mapping[int, int]) -> dict[tuple[int, int], Row]:
    """The records below the ends as kafka-python's own consumer reads them."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        exclude_internal_topics=False,
    )
    places = [TopicPartition(OFFSETS_TOPIC, log_partition) for log_partition in ends]
    rows: dict[tuple[int, int], Row] = {}

    def is_at_the_ends() -> bool:
        for at, batch in consumer.poll(timeout_ms=200).items():
            rows.update(
                ((at.partition, record.offset), expected_row(record))
                for record in batch
                if record.offset < ends[at.partition]
            )
        return all(consumer.position(at) >= ends[at.partition] for at in places)

    with closing(consumer):
        consumer.assign(places)
        wait_until(is_at_the_ends, 120)
    return rows


def expected_row(record: Any) -> Row:
    """The columns of a row that a consumer's record tells."""
    key = decode_key(record.key)
    row: dict[str, Any] = {
        "record_timestamp_ms": record.timestamp,
        "record_type": key.record_type.id,
        "group_id": key.group_id,
        "is_tombstone": record.value is None,
    }
    if key.record_type.id not in (0, 1):
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


def read_to_end(spark: SparkSession, broker: EmbeddedBroker, checkpoint: Path) -> list[Row]:
    """The rows of the micro-batch from the checkpoint to the end of the log."""
    batches: list[list[Row]] = []

    def collect(frame: DataFrame, _batch_id: int) -> None:
        batches.append(frame.toArrow().to_pylist())

    query = (
        spark.readStream.format("coordinator_log")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("history", "all")
        .load()
        .writeStream.option("checkpointLocation", str(checkpoint))
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


def test_rows_are_what_a_consumer_reads_and_the_markers(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(CoordinatorLogDataSource)
    create_topic(broker, TOPIC)
    commit(broker, "source-plain", TOPIC, *range(8))
    commit(broker, "source-removed", TOPIC, 1)
    with admin_of(broker) as admin:
        admin.delete_groups(["source-removed"])
    commit_in_transactions(broker, "source-transactional", True, True, False)

    batch = read_to_end(spark, broker, tmp_path)
    rows = {
        (row["log_partition"], row["record_offset"]): row
        for row in batch
        if row["row_kind"] not in ("progress", "marker")
    }
    # Other tests may write to the log meanwhile.
    progress = [row for row in batch if row["row_kind"] == "progress"]
    ends = {row["log_partition"]: row["record_offset"] for row in progress}
    assert ends.keys() == set(range(50))
    expected = consumed(broker, ends)
    assert rows.keys() == expected.keys()
    assert {at: {name: rows[at][name] for name in row} for at, row in expected.items()} == expected
    producer_ids = {
        row["producer_id"] for row in rows.values() if row["group_id"] == "source-transactional"
    }
    markers = [row for row in batch if row["row_kind"] == "marker"]
    own_markers = sorted(
        (row["record_offset"], row["control_type"])
        for row in markers
        if row["producer_id"] in producer_ids
    )
    assert [control_type for _, control_type in own_markers] == [1, 1, 0]
    assert len(batch) == len(rows) + len(markers) + len(progress)

    commit(broker, "source-plain", TOPIC, 9)
    later = read_to_end(spark, broker, tmp_path)
    commits = [row["committed_offset"] for row in later if row["group_id"] == "source-plain"]
    assert commits == [9]
