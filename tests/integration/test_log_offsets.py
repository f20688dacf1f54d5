"""Samples of the logs of user topics, of a real broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from coordinator_state.insight.lag import GONE, PRESENT
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.engine.progress import ProgressEvent
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.freshness import tables_known_to
from streaming.lag.group_lag import group_lag, tables_known_until
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.run.sampling import LogOffsetsSampling
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import commit, create_topic, produce
from tests.support.brokers.running_query import run_settings, running
from tests.support.eventually import Eventually
from tests.support.logs.record_batches import write_message_set
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

ROUNDING = timedelta(milliseconds=1)


@pytest.fixture
def admin(broker: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = f"sampled-{uuid4()}"
    create_topic(broker, name, 2)
    return name


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[LogOffsetsClient]:
    with LogOffsetsClient(broker.bootstrap_servers) as client:
        yield client


def _only(client: LogOffsetsClient, topic: str) -> LogOffsets:
    (sample,) = client.sample([TopicPartition(topic, 0)])
    return sample


def _offsets(sample: LogOffsets) -> tuple[int | None, int | None, int | None]:
    return sample.log_start_offset, sample.last_stable_offset, sample.log_end_offset


def test_an_open_transaction_holds_the_last_stable_offset(
    broker: EmbeddedBroker, topic: str, client: LogOffsetsClient, eventually: Eventually
) -> None:
    produce(broker, topic, 5)
    assert _offsets(_only(client, topic)) == (0, 5, 5)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"of {topic}"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"record", partition=0)
    producer.flush(30)
    produce(broker, topic, 2)

    open_ = _only(client, topic)
    assert (open_.state, _offsets(open_)) == (PRESENT, (0, 5, 8))
    # It is answered before the markers are written.
    producer.abort_transaction()
    eventually(lambda: _offsets(_only(client, topic)) == (0, 9, 9), 120)


def test_the_log_start_follows_what_is_deleted(
    broker: EmbeddedBroker, admin: AdminClient, topic: str, client: LogOffsetsClient
) -> None:
    produce(broker, topic, 5)
    for deleted in admin.delete_records([Place(topic, 0, 3)]).values():
        deleted.result()
    assert _offsets(_only(client, topic)) == (3, 5, 5)


def test_what_is_not_there_is_a_state(
    broker: EmbeddedBroker,
    admin: AdminClient,
    topic: str,
    client: LogOffsetsClient,
    eventually: Eventually,
) -> None:
    before = _only(client, topic)
    nowhere = TopicPartition(topic, 7), TopicPartition("zzz-no-such-topic", 0)
    both = client.sample([TopicPartition(topic, 1)], whole_topics=True)
    assert [(sample.topic, sample.partition) for sample in both] == [(topic, 0), (topic, 1)]
    present, *gone = client.sample([TopicPartition(topic, 0), *nowhere])
    assert present == before
    assert [(sample.state, _offsets(sample)) for sample in gone] == [(GONE, (None, None, None))] * 2

    for deleted in admin.delete_topics([topic]).values():
        deleted.result()
    eventually(lambda: _only(client, topic).state == GONE, 120)
    create_topic(broker, topic, 2)
    again = eventually(
        lambda: next((f for f in [_only(client, topic)] if f.state == PRESENT), None), 120
    )
    assert again is not None
    assert again.topic_id != before.topic_id


def test_all_topics_but_internal_ones_are_listed(
    broker: EmbeddedBroker, topic: str, client: LogOffsetsClient, eventually: Eventually
) -> None:
    commit(broker, "any", topic, 0)
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    places = eventually(lambda: client.partitions() if both <= client.partitions() else None, 120)
    assert places is not None
    assert not {at.topic for at in places if at.topic.startswith("__")}


def test_only_transaction_markers_are_left(
    broker: EmbeddedBroker, topic: str, client: LogOffsetsClient, eventually: Eventually
) -> None:
    produce(broker, topic, 5)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"marks {topic}"}
    )
    producer.init_transactions()
    for size in (1, 20_000):
        producer.begin_transaction()
        producer.produce(topic, b"x" * size, partition=0)
        producer.commit_transaction()
    at = TopicPartition(topic, 0)
    # Five records, then twice a record and a marker.
    eventually(lambda: _only(client, topic).last_stable_offset == 9, 120)
    for first, markers in ((8, 1), (7, 1), (5, 1), (9, 0)):
        assert client.end_markers({at: (first, 9)}) == {at: markers}
    assert client.end_markers({TopicPartition(f"no-{topic}", 0): (8, 9)}) == {}
    assert client.end_markers({at: (12, 13)}) == {}
    assert client.end_markers({}) == {}
    # Aborted records are none for a `read_committed` consumer.
    producer.begin_transaction()
    for _ in range(300):
        producer.produce(topic, b"x" * 1_000, partition=0)
    producer.flush(30)
    producer.abort_transaction()
    end = 9 + 300 + 1
    eventually(lambda: _only(client, topic).last_stable_offset == end, 120)
    places = {at: (9, end), TopicPartition(topic, 1): (0, 0)}
    assert client.end_markers(places)[at] == end - 9
    assert client.end_markers({at: (7, end)}) == {at: end - 8}


@pytest.mark.long
def test_a_log_of_messages_from_before_kafka_0_11_does_not_hold_up_the_others(
    stoppable_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    """A group waits before the last message of each log, so the ends are read."""
    broker = stoppable_broker
    old, new = {0: "of-kafka-0.9", 1: "of-kafka-0.10"}, "of-kafka-4"
    for topic in (*old.values(), new):
        create_topic(broker, topic)
    produce(broker, new, 5)
    broker.stop()
    # Read as the header of a batch, it has a negative offset delta.
    messages = [(number, 1_500_000_000_000, b"\xff" * 60, b"value") for number in range(7)]
    for magic, topic in old.items():
        broker.replace_log(0, write_message_set(messages, magic=magic), topic=topic)
    broker.start()
    ends = {**dict.fromkeys(old.values(), 7), new: 5}
    places = [TopicPartition(topic, 0) for topic in ends]
    with LogOffsetsClient(broker.bootstrap_servers) as client:
        # A broker that has just started has no leaders yet.
        eventually(lambda: {sample.state for sample in client.sample(places)} == {PRESENT}, 120)
    tables = create_tables(tmp_path)
    group = {"group_id": "g", "partition": 0, "log_partition": 0}
    apply_micro_batch(
        tables,
        progress=[{"log_partition": 0}],
        group_offsets=[
            {**group, "topic": topic, "committed_offset": end - 1} for topic, end in ends.items()
        ],
    )
    writer, begun_at = open_for_writing(tables, "test"), datetime.now(timezone.utc)
    with closing(LogOffsetsSampling(writer, broker.bootstrap_servers, {})) as sampling:
        for _ in range(3):
            sampling.sample()
    rows = TableReader(tables).read("log_offsets").to_pylist()
    # The ends are known with the second sample.
    assert {
        (row["topic"], row["state"], row["log_end_offset"], row["end_markers"])
        for row in rows
        if row["topic"] != OFFSETS_TOPIC and row["sampled_at"] >= begun_at
    } == {(topic, PRESENT, end, markers) for topic, end in ends.items() for markers in (None, 0)}
    sampled = sampling.metrics.registry.get_sample_value
    assert sampled("coordinator_state_run_sampling_total", {"outcome": "done"}) == 3


@pytest.mark.long
def test_a_run_samples_what_groups_read_and_tells_their_time_lag(
    broker: EmbeddedBroker,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    """Also when nobody commits; against the timestamps of the records, read back."""
    produce(broker, topic, 5)
    behind = {f"{committed} of {topic}": committed for committed in (2, 5, 20, 60, 100, 145)}
    for group, committed in behind.items():
        commit(broker, group, topic, committed)
    tables = tmp_path / "tables"

    def samples() -> list[tuple[datetime, int]]:
        of_topic = TableReader(tables).read("log_offsets", filters=[("topic", "=", topic)])
        rows = sorted(of_topic.to_pylist(), key=lambda row: row["sampled_at"])
        assert {row["state"] for row in rows} <= {PRESENT}
        # No group reads partition 1, but one may at any time.
        assert {row["partition"] for row in rows} in (set(), {0, 1})
        read_rows = [row for row in rows if row["partition"] == 0]
        return [(row["sampled_at"], row["log_end_offset"]) for row in read_rows]

    def last_end() -> int:
        return samples()[-1][1] if samples() else -1

    with running(broker, spark, tmp_path, eventually):
        eventually(lambda: last_end() == 5, 120)
        for burst in (40, 3, 60, 20, 22):
            produce(broker, topic, burst)
            threading.Event().wait(1.7)
        eventually(lambda: last_end() == 150, 120)

    now = datetime.now(timezone.utc)
    appended_at = _timestamps(broker, topic)
    rows = {row["group_id"]: row for row in group_lag(TableReader(tables), at=now).to_pylist()}
    for group, committed in behind.items():
        row = rows[group]
        assert (row["lag"], row["data_lost"]) == (150 - committed, 0)
        if committed < 5:
            # The brokers were asked for the time before the first sample.
            estimate = now - timedelta(milliseconds=row["time_lag_ms"])
            assert abs(estimate - appended_at[committed]) < timedelta(seconds=5) + 0.1 * (
                now - appended_at[committed]
            )
            continue
        before, after = _samples_around(samples(), committed)
        estimate = now - timedelta(milliseconds=row["time_lag_ms"])
        assert before[-1] - ROUNDING <= estimate <= after[0] + ROUNDING, group
        # A record and a sample are dated by two processes: one sample more on each side.
        assert before[0] <= appended_at[committed] <= (*after[1:], now)[0], group


def _samples_around(
    samples: list[tuple[datetime, int]], offset: int
) -> tuple[list[datetime], list[datetime]]:
    """Up to two samples before an offset was in the log, and two after."""
    before = [at for at, end in samples if end <= offset]
    after = [at for at, end in samples if end > offset]
    return before[-2:], after[:2]


def test_a_single_load_shows_lag_and_how_far_behind_it_is(
    broker: EmbeddedBroker, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    """`run --available-now` in a new folder, while groups go on committing."""
    produce(broker, topic, 5)
    group = f"reads {topic}"
    commit(broker, group, topic, 2)
    meanwhile = [3]

    def on_progress(_event: ProgressEvent) -> None:
        if meanwhile:
            commit(broker, group, topic, meanwhile.pop())

    began_at = datetime.now(timezone.utc)
    settings = run_settings(broker, tmp_path, available_now=True)
    run_query(settings, session=spark, on_progress=on_progress)
    assert not meanwhile
    reader = TableReader(settings.tables)
    # Each log partition was sampled after the load.
    assert pc.all(tables_known_until(reader)["is_sampled"]).as_py()
    known_to = tables_known_to(reader)
    assert known_to is not None
    assert known_to > began_at
    (row,) = group_lag(reader, group_ids=[group]).to_pylist()
    assert (row["log_end_offset"], row["lag"]) == (5, 5 - row["committed_offset"])


def _timestamps(broker: EmbeddedBroker, topic: str) -> list[datetime]:
    """The time of each record of partition 0."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody"})
    with closing(consumer):
        consumer.assign([Place(topic, 0, 0)])
        _, end = consumer.get_watermark_offsets(Place(topic, 0))
        timestamps: list[datetime] = []
        while len(timestamps) < end:
            message = consumer.poll(60)
            assert message is not None
            _, timestamp_ms = message.timestamp()
            timestamps.append(datetime.fromtimestamp(timestamp_ms / 1000, timezone.utc))
    return timestamps
