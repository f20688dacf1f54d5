"""Samples of the logs of user topics, of a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from coordinator_state.insight.lag import GONE, PRESENT
from streaming.engine.progress import ProgressEvent
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.freshness import tables_known_to
from streaming.lag.group_lag import group_lag, tables_known_until
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import commit, create_topic, produce
from tests.support.brokers.receivers import http_receiver
from tests.support.brokers.running_query import run_settings, running
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)


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


def test_a_sample_follows_an_open_transaction_and_deleted_records(
    broker: EmbeddedBroker,
    admin: AdminClient,
    topic: str,
    client: LogOffsetsClient,
    eventually: Eventually,
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
    for deleted in admin.delete_records([Place(topic, 0, 3)]).values():
        deleted.result()
    assert _offsets(_only(client, topic)) == (3, 9, 9)


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
    for _ in range(2_000):
        producer.produce(topic, b"x" * 1_000, partition=0)
    producer.flush(30)
    producer.abort_transaction()
    end = 9 + 2_000 + 1
    eventually(lambda: _only(client, topic).last_stable_offset == end, 120)
    places = {at: (9, end), TopicPartition(topic, 1): (0, 0)}
    assert client.end_markers(places)[at] == end - 9
    assert client.end_markers({at: (7, end)}) == {at: end - 8}
    # The records of the next transaction are behind the last stable offset.
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    eventually(lambda: _only(client, topic).log_end_offset == end + 1, 120)
    assert _only(client, topic).last_stable_offset == end
    assert client.end_markers({at: (9, end)}) == {at: end - 9}
    producer.abort_transaction()


@pytest.mark.long
def test_a_run_tells_the_time_lag_of_records_that_are_older_than_its_samples(
    broker: EmbeddedBroker,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    """It asks the brokers for the log ends of the time before."""
    began_at, group = datetime.now(timezone.utc), f"reads {topic}"
    produce(broker, topic, 5)
    produced_at = datetime.now(timezone.utc)
    commit(broker, group, topic, 2)

    def lag() -> dict[str, Any]:
        (row,) = group_lag(TableReader(tables), group_ids=[group]).to_pylist() or [{}]
        return row

    with running(broker, spark, tmp_path, eventually) as tables:
        eventually(lambda: lag().get("time_lag_ms"), 120)
        row, now = lag(), datetime.now(timezone.utc)
    assert (row["lag"], row["data_lost"]) == (3, 0)
    estimate = now - timedelta(milliseconds=row["time_lag_ms"])
    within = timedelta(seconds=5) + 0.1 * (now - produced_at)
    assert began_at - within < estimate < produced_at + within


def test_a_single_load_shows_lag_and_how_far_behind_it_is(
    broker: EmbeddedBroker, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    """`run --available-now` samples logs and reports lineage while groups go on committing."""
    produce(broker, topic, 5)
    group = f"reads {topic}"
    commit(broker, group, topic, 2)
    meanwhile = [3]

    def on_progress(_event: ProgressEvent) -> None:
        if meanwhile:
            commit(broker, group, topic, meanwhile.pop())

    began_at = datetime.now(timezone.utc)
    with http_receiver() as receiver:
        settings = run_settings(broker, tmp_path, available_now=True, openlineage=receiver.url)
        run_query(settings, session=spark, on_progress=on_progress)
    assert not meanwhile
    events = [posted.body for posted in receiver.posted]
    assert [event["eventType"] for event in events if "run" in event] == [
        "START",
        "RUNNING",
        "COMPLETE",
    ]
    (inputs,) = (event["inputs"] for event in events if event["job"]["name"] == group)
    assert [dataset["name"] for dataset in inputs] == [topic]
    reader = TableReader(settings.tables)
    # Each log partition was sampled after the load.
    assert pc.all(tables_known_until(reader)["is_sampled"]).as_py()
    known_to = tables_known_to(reader)
    assert known_to is not None
    assert known_to > began_at
    (row,) = group_lag(reader, group_ids=[group]).to_pylist()
    assert (row["log_end_offset"], row["lag"]) == (5, 5 - row["committed_offset"])
