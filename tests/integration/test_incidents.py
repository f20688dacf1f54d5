"""Incidents on a real broker, made by real clients: what the tables say, and who is told of it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_state.insight.group_status import Status
from streaming.alerts.alert_run import AlertRun
from streaming.lag.group_lag import group_lag
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.receivers import HttpReceiver, http_receiver
from tests.support.brokers.running_query import running
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

# A rule for each status: what begins and what ends is told, down to that all is well.
_RULES = """
status_rules:
  {{stop_after: 4s, stop_unknown_after: 4s, slow_after: 3s, pending_after: 2s, hanging_after: 4s,
    idle_after: 3s, rebalances: 5}}
sinks: {{hook: {{type: webhook, url: "{url}"}}}}
rules:
"""
_STATUSES = [status.value for status in Status if status is not Status.ERR]
_PRODUCE_EVERY_S = 0.05


@dataclass
class Traffic:
    """Producers and consumers of topics, each with a thread, until they are told to stop."""

    servers: str
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def run(self, step: Callable[[], object], until: threading.Event | None = None) -> None:
        """Take steps until the end, or until an event."""

        def loop() -> None:
            while not (self.stop.is_set() or (until is not None and until.is_set())):
                step()

        self.threads.append(threading.Thread(target=loop))
        self.threads[-1].start()

    def produce(self, topic: str) -> None:
        """Twenty records a second."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})

        def step() -> None:
            producer.produce(topic, b"x")
            producer.poll(0)
            self.stop.wait(_PRODUCE_EVERY_S)

        self.run(step)

    def consume(self, group_id: str, topic: str, until: threading.Event | None = None) -> Consumer:
        """A consumer that commits several times a second."""
        consumer = self.consumer(group_id, topic)
        self.run(lambda: consumer.poll(0.1), until)
        return consumer

    def consumer(self, group_id: str, topic: str, *, auto_commit: bool = True) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 300,
                "enable.auto.commit": auto_commit,
            }
        )
        consumer.subscribe([topic])
        return consumer

    def close(self) -> None:
        """End every thread."""
        self.stop.set()
        for thread in self.threads:
            thread.join()


@dataclass
class Cluster:
    """A broker with a run beside it, whose tables alert rules look at once a second."""

    servers: str
    tables: Path
    traffic: Traffic
    eventually: Eventually
    admin: AdminClient
    alerts: AlertRun
    receiver: HttpReceiver

    def look(self) -> None:
        """One look at every group."""
        self.alerts.round()
        self.traffic.stop.wait(1)

    def told(self, group_id: str, status: str) -> list[dict[str, Any]]:
        """The notices about a group that is, or is not any more, in a status."""
        told = self.receiver.alerts
        return [one for one in told if (one["group_id"], one["rule"]) == (group_id, status)]

    def topic(self) -> str:
        """A new topic with one partition, which is produced to."""
        name = f"t-{uuid.uuid4()}"
        self.create(name)
        self.traffic.produce(name)
        return name

    def create(self, name: str) -> None:
        (created,) = self.admin.create_topics([NewTopic(name, 1, 1)]).values()
        created.result()

    def has_status(self, group_id: str, status: str) -> dict[str, Any]:
        """Wait until somebody was told of a status, and not of its end."""

        def look() -> dict[str, Any]:
            last = self.told(group_id, status)[-1:]
            return last[0] if last and last[0]["status"] == "firing" else {}

        try:
            return self.eventually(look, 120)
        except pytest.fail.Exception:
            told = [one for one in self.receiver.alerts if one["group_id"] == group_id]
            pytest.fail(f"{group_id} is not {status}; last told: {told[-2:]}")

    def is_well_again(self, group_id: str, after: str) -> None:
        """Wait until the group is OK, and somebody was told that the status before is over."""
        self.eventually(lambda: self.told(group_id, after)[-1]["status"] == "resolved", 120)
        self.has_status(group_id, "OK")

    def events(self, group_id: str) -> list[dict[str, Any]]:
        rows = TableReader(self.tables).read("group_events", filters=[("group_id", "=", group_id)])
        return sorted(rows.to_pylist(), key=lambda row: (row["record_offset"], row["event_number"]))


@pytest.fixture
def cluster(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> Iterator[Cluster]:
    traffic = Traffic(broker.bootstrap_servers)
    with running(broker, spark, tmp_path, eventually) as tables, http_receiver() as receiver:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        rules_file = tmp_path / "alerts.yaml"
        rules = (f"- {{name: {status}, status: {status}}}\n" for status in _STATUSES)
        rules_file.write_text(_RULES.format(url=receiver.url) + "".join(rules))
        alerts = AlertRun(str(tables), str(rules_file))
        servers = broker.bootstrap_servers
        found = Cluster(servers, tables, traffic, eventually, admin, alerts, receiver)
        traffic.run(found.look)
        try:
            yield found
        finally:
            traffic.close()


def a_consumer_is_killed_while_producers_go_on(cluster: Cluster) -> None:
    topic, killed = cluster.topic(), threading.Event()
    consumer = cluster.traffic.consume("killed", topic, killed)
    cluster.has_status("killed", "OK")
    killed.set()
    stopped = cluster.has_status("killed", "STOP")
    assert "no commit for" in stopped["reason"]
    assert stopped["value"] > 20
    # It goes on, and all is well again.
    cluster.traffic.run(lambda: consumer.poll(0.1))
    cluster.is_well_again("killed", after="STOP")


def a_group_is_reset_to_the_earliest_offset(cluster: Cluster) -> None:
    topic, closing = cluster.topic(), threading.Event()
    consumer = cluster.traffic.consume("reset", topic, closing)
    cluster.has_status("reset", "OK")
    closing.set()
    consumer.close()
    request = ConsumerGroupTopicPartitions("reset", [Place(topic, 0, 0)])
    (reset,) = cluster.admin.alter_consumer_group_offsets([request]).values()
    reset.result()
    # Who reads on from there, slower than is written; a group that nobody reads for would be STOP.
    slow, hurry = cluster.traffic.consumer("reset", topic), threading.Event()
    cluster.traffic.run(lambda: (slow.poll(0.1), hurry.wait(0.3)), hurry)
    back = cluster.has_status("reset", "REWIND")
    assert "went back" in back["reason"]
    (event,) = (e for e in cluster.events("reset") if e["event"].startswith("offset_"))
    assert (event["event"], event["offset_after"], event["member_id"]) == ("offset_reset", 0, None)
    assert event["offset_before"] > 0
    hurry.set()
    cluster.traffic.run(lambda: slow.poll(0.1))
    cluster.is_well_again("reset", after="REWIND")


def a_transaction_hangs(cluster: Cluster) -> None:
    topic = f"t-{uuid.uuid4()}"
    cluster.create(topic)
    plain = Producer({"bootstrap.servers": cluster.servers})
    plain.produce(topic, b"x")
    plain.flush()
    cluster.traffic.consume("blocked", topic)
    cluster.has_status("blocked", "OK")
    producer = Producer(
        {"bootstrap.servers": cluster.servers, "transactional.id": topic, "linger.ms": 0}
        | {"transaction.timeout.ms": 600_000}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush()
    plain.produce(topic, b"x")
    plain.flush()
    blocked = cluster.has_status("blocked", "HANGING_TRANSACTION")
    assert "last stable offset 1, log end 3" in blocked["reason"]
    producer.abort_transaction()
    cluster.is_well_again("blocked", after="HANGING_TRANSACTION")


def a_transaction_with_offsets_hangs(cluster: Cluster) -> None:
    topic = f"t-{uuid.uuid4()}"
    cluster.create(topic)
    consumer = cluster.traffic.consumer("pending", topic)
    cluster.eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 120)
    producer = Producer(
        # Longer than the waits below: the coordinator would end the transaction itself.
        {"bootstrap.servers": cluster.servers, "transactional.id": topic}
        | {"transaction.timeout.ms": 600_000}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction([Place(topic, 0, 0)], consumer.consumer_group_metadata())
    # Nothing is committed yet, so there is no offset to have a status: it waits.
    waiting = cluster.eventually(
        lambda: (
            TableReader(cluster.tables)
            .read("pending_offsets", filters=[("group_id", "=", "pending")])
            .to_pylist()
        ),
        120,
    )
    assert [row["topic"] for row in waiting] == [topic]
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send_offsets_to_transaction([Place(topic, 0, 0)], consumer.consumer_group_metadata())
    hanging = cluster.has_status("pending", "HANGING_TRANSACTION")
    assert "by an open transaction of" in hanging["reason"]
    # The transactional id stands before the producer if __transaction_state is loaded by then.
    assert "client rdkafka)" in hanging["reason"]
    producer.commit_transaction()
    cluster.is_well_again("pending", after="HANGING_TRANSACTION")
    consumer.close()


def a_topic_is_deleted_and_created_again(cluster: Cluster) -> None:
    topic, closing = f"t-{uuid.uuid4()}", threading.Event()
    cluster.create(topic)
    producer = Producer({"bootstrap.servers": cluster.servers})
    producer.produce(topic, b"x")
    producer.flush()
    consumer = cluster.traffic.consume("orphan", topic, closing)
    cluster.has_status("orphan", "OK")
    closing.set()
    consumer.close()
    request = ConsumerGroupTopicPartitions("orphan", [Place(topic, 0, 1)])
    # Kafka 4 deletes the offsets of a deleted topic; who commits for it later leaves one behind.
    (deleted,) = cluster.admin.delete_topics([topic]).values()
    deleted.result()
    cluster.eventually(
        lambda: any(e["event"] == "offset_deleted" for e in cluster.events("orphan")), 120
    )
    cluster.create(topic)
    (altered,) = cluster.admin.alter_consumer_group_offsets([request]).values()
    altered.result()
    cluster.has_status("orphan", "IDLE")


def records_are_deleted_before_they_are_read(cluster: Cluster) -> None:
    topic, slow = cluster.topic(), threading.Event()
    consumer = cluster.traffic.consume("too-slow", topic, slow)
    cluster.has_status("too-slow", "OK")
    slow.set()
    cluster.has_status("too-slow", "STOP")
    (deletion,) = cluster.admin.delete_records([Place(topic, 0, -1)]).values()
    low = deletion.result().low_watermark
    lost = cluster.has_status("too-slow", "DATA_LOSS")
    assert f"log start {low}" in lost["reason"]
    # It goes on at the log start.
    cluster.traffic.run(lambda: consumer.poll(0.1))
    cluster.is_well_again("too-slow", after="DATA_LOSS")


def a_storm_of_rebalances(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.traffic.consume("storm", topic)
    cluster.has_status("storm", "OK")
    for _ in range(3):
        _join_and_leave(cluster, topic)
    storm = cluster.has_status("storm", "REBALANCING_LOOP")
    assert "rebalances in 5 min" in storm["reason"]


def a_transactional_topic_is_all_read(cluster: Cluster) -> None:
    """No incident: who commits the offset after its last record is one behind, and has no lag."""
    topic = f"t-{uuid.uuid4()}"
    cluster.create(topic)
    producer = Producer({"bootstrap.servers": cluster.servers, "transactional.id": topic})
    producer.init_transactions()
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"x")
        producer.commit_transaction()
    consumer = cluster.traffic.consumer("exactly-once", topic, auto_commit=False)
    cluster.eventually(
        lambda: (found := consumer.poll(0.1)) is not None and found.offset() == 4, 120
    )
    consumer.commit(offsets=[Place(topic, 0, 5)], asynchronous=False)

    def at_the_end() -> list[dict[str, Any]]:
        rows = group_lag(TableReader(cluster.tables), group_ids=["exactly-once"]).to_pylist()
        return [row for row in rows if row["markers"]]

    (row,) = cluster.eventually(at_the_end, 120)
    assert (row["committed_offset"], row["log_end_offset"]) == (5, 6)
    assert (row["markers"], row["lag"], row["time_lag_ms"]) == (1, 0, 0)
    cluster.has_status("exactly-once", "OK")
    consumer.close()


INCIDENTS = (
    a_transactional_topic_is_all_read,
    a_consumer_is_killed_while_producers_go_on,
    a_group_is_reset_to_the_earliest_offset,
    a_transaction_hangs,
    a_transaction_with_offsets_hangs,
    a_topic_is_deleted_and_created_again,
    records_are_deleted_before_they_are_read,
    a_storm_of_rebalances,
)


def test_incidents(cluster: Cluster) -> None:
    """All of them at once: each has groups and topics of its own."""
    with ThreadPoolExecutor(len(INCIDENTS)) as pool:
        done = [pool.submit(incident, cluster) for incident in INCIDENTS]
    for incident in done:
        incident.result()


def _join_and_leave(cluster: Cluster, topic: str) -> None:
    consumer = cluster.traffic.consumer("storm", topic)
    joined = threading.Event()
    consumer.subscribe([topic], on_assign=lambda *_: joined.set())
    cluster.eventually(lambda: [consumer.poll(0.1), joined.is_set()][-1], 120)
    consumer.close()
