"""The source in streaming queries on a real broker, against what a consumer reads of the topic."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
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
from tests.support.brokers.secured_broker import SecuredBroker
from tests.support.clients.admin_client import admin_of
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

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
        """What a consumer reads of the topic, as rows."""
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


class Query:
    """Queries on one checkpoint; `batches` are the rows of their micro-batches."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self.spark = spark
        self.checkpoint = checkpoint
        self.batches: list[list[Row]] = []

    def start(
        self, broker: EmbeddedBroker, options: Mapping[str, str], *, live: bool = False
    ) -> StreamingQuery:
        def collect(frame: DataFrame, _batch_id: int) -> None:
            self.batches.append(frame.toArrow().to_pylist())

        writer = (
            self.spark.readStream.format("coordinator_log")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .options(**options)
            .load()
            .writeStream.option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(collect)
        )
        if live:
            return writer.trigger(processingTime="0 seconds").start()
        return writer.trigger(availableNow=True).start()

    def run(self, broker: EmbeddedBroker, **options: str) -> list[list[Row]]:
        """Run to the end of what is there; return the micro-batches of this run."""
        before = len(self.batches)
        query = self.start(broker, options)
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        return self.batches[before:]

    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    def next_offsets(self) -> dict[int, int]:
        """Where the last micro-batch ended: other tests may write to the log meanwhile."""
        return {p: row["record_offset"] for p, row in progress_of(self.batches[-1]).items()}


def by_offset(rows: list[Row]) -> dict[tuple[int, int], Row]:
    found = {}
    for row in rows:
        if row["row_kind"] != "progress":
            at = (row["log_partition"], row["record_offset"])
            assert at not in found, f"read twice: {at}"
            found[at] = row
    return found


def progress_of(batch: list[Row]) -> dict[int, Row]:
    found = {row["log_partition"]: row for row in batch if row["row_kind"] == "progress"}
    assert len(found) == sum(row["row_kind"] == "progress" for row in batch)
    return found


def assert_same_records(query: Query, log: Log) -> None:
    """The rows are the consumer's records, and the markers that a consumer does not show."""
    rows = by_offset(query.rows())
    data = {at: row for at, row in rows.items() if row["row_kind"] != "marker"}
    expected = log.consumed(query.next_offsets())
    assert set(data) == set(expected)
    for at, row in expected.items():
        assert {name: data[at][name] for name in row} == row


def assert_accounted(batches: list[list[Row]]) -> None:
    """Each micro-batch has every log partition, goes on where the last one ended, and adds up."""
    positions: dict[int, int] = {}
    for batch in batches:
        progress = progress_of(batch)
        assert set(progress) == set(range(50))
        for log_partition, row in progress.items():
            assert row["from_offset"] == positions.get(log_partition, row["from_offset"])
            assert row["from_offset"] <= row["record_offset"] <= row["high_watermark"]
            positions[log_partition] = row["record_offset"]
            emitted = sum(
                other["log_partition"] == log_partition and other["row_kind"] != "progress"
                for other in batch
            )
            assert row["records_read"] == emitted + row["records_superseded"]


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Query:
    return Query(spark, tmp_path / "checkpoint")


def test_all_history_is_what_a_consumer_reads_and_the_markers(
    broker: EmbeddedBroker, query: Query
) -> None:
    log = Log(broker)
    log.commit("source-plain", *range(8))
    log.commit("source-removed", 1)
    log.remove("source-removed")
    log.commit_in_transactions("source-transactional", commits=3, aborts=2)
    batches = query.run(broker, history="all")
    assert len(batches) == 1
    assert_accounted(batches)
    assert_same_records(query, log)
    rows = [row for _, row in sorted(by_offset(query.rows()).items())]
    commits = [row for row in rows if row["group_id"] == "source-transactional"]
    (producer,) = {row["producer_id"] for row in commits if row["is_transactional"]}
    markers = [row for row in rows if row["row_kind"] == "marker"]
    ended = [row["control_type"] for row in markers if row["producer_id"] == producer]
    assert ended == [1, 1, 1, 0, 0]

    log.commit("source-plain", 9)
    (batch,) = query.run(broker, history="all")
    commits = [row for row in batch if row["group_id"] == "source-plain"]
    assert [row["committed_offset"] for row in commits] == [9] * 3


@pytest.mark.long
def test_limited_micro_batches_add_up_and_keep_the_last_commits(
    broker: EmbeddedBroker, query: Query
) -> None:
    log = Log(broker)
    log.commit("source-limited", *range(40))
    batches = query.run(broker, max_records_per_trigger="50", tasks="3")
    assert len(batches) > 2
    assert_accounted(batches)
    found = by_offset(query.rows())
    expected = log.consumed(query.next_offsets())
    assert sum(row["records_superseded"] for b in batches for row in progress_of(b).values()) > 0
    assert set(found) >= {at for at, row in last_per_key(expected).items()}
    last = last_per_key(found)
    for at, row in last_per_key(expected).items():
        assert {name: last[at][name] for name in row} == row


def last_per_key(records: Mapping[tuple[int, int], Row]) -> dict[tuple[int, int], Row]:
    last = {}
    for at, row in sorted(records.items()):
        if row["row_kind"] == "offset":
            last[row["group_id"], row["topic"], row["partition"]] = (at, row)
    return dict(last.values())


def test_chosen_log_partitions_from_chosen_offsets(broker: EmbeddedBroker, query: Query) -> None:
    log = Log(broker)
    log.commit("source-chosen", *range(5))
    log_partition = partition_for("source-chosen")
    end = max(offset for p, offset in log.consumed() if p == log_partition) + 1
    (batch,) = query.run(
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


@pytest.mark.long
def test_a_running_query_survives_a_crash_of_the_broker(
    stoppable_broker: EmbeddedBroker, query: Query, eventually: Eventually
) -> None:
    log, group_id = Log(stoppable_broker), "source-crash"
    log.commit(group_id, 1, 2)
    running = query.start(stoppable_broker, {"history": "all", "long_poll_ms": "200"}, live=True)

    def committed() -> set[int]:
        assert running.isActive, running.exception()
        return {row["committed_offset"] for row in query.rows() if row["group_id"] == group_id}

    try:
        eventually(lambda: {1, 2} <= committed(), 120)
        for number, restart in enumerate((crash, EmbeddedBroker.restart), start=3):
            restart(stoppable_broker)
            stoppable_broker.wait_until_loaded()
            log.commit(group_id, number)
            eventually(partial(lambda offset: offset in committed(), number), 120)
    finally:
        running.stop()
    assert_same_records(query, log)


def crash(broker: EmbeddedBroker) -> None:
    broker.kill()
    broker.start()


@pytest.mark.long
def test_a_query_that_does_not_fit_its_log_ends(
    broker: EmbeddedBroker, secured_broker: SecuredBroker, query: Query
) -> None:
    with refused("TopicMissing: there is no topic nowhere"):
        query.run(broker, topic="nowhere")
    with refused("ConfigurationError: unknown option 'nonsense'"):
        query.run(broker, nonsense="1")
    Log(broker).commit("source-cluster", 1)
    query.run(broker)
    with refused(r"ConfigurationError: the offsets belong to cluster \S+, but this is cluster"):
        query.run(secured_broker.broker)


def refused(complaint: str) -> Any:
    from pyspark.errors import PySparkException

    return pytest.raises(PySparkException, match=complaint)
