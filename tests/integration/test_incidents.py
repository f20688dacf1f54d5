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
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from coordinator_state.insight.group_status import Status
from streaming.alerts.alert_run import AlertRun
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import create_topic
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

    broker: EmbeddedBroker
    traffic: Traffic
    eventually: Eventually
    alerts: AlertRun
    receiver: HttpReceiver

    def look(self) -> None:
        """One look at every group."""
        self.alerts.round()
        self.traffic.stop.wait(1)

    def notices(self, group_id: str, status: str) -> list[dict[str, Any]]:
        """The notices about a group that is, or is not any more, in a status."""
        return [
            alert
            for alert in self.receiver.alerts
            if (alert["group_id"], alert["rule"]) == (group_id, status)
        ]

    def topic(self) -> str:
        """A new topic with one partition."""
        name = f"t-{uuid.uuid4()}"
        create_topic(self.broker, name)
        return name

    def produced_topic(self) -> str:
        """A new topic with one partition, which is produced to."""
        name = self.topic()
        self.traffic.produce(name)
        return name

    def has_status(self, group_id: str, status: str) -> dict[str, Any]:
        """Wait until somebody was told of a status, and not of its end."""

        def look() -> dict[str, Any]:
            last = self.notices(group_id, status)[-1:]
            return last[0] if last and last[0]["status"] == "firing" else {}

        try:
            return self.eventually(look, 120)
        except pytest.fail.Exception:
            alerts = [alert for alert in self.receiver.alerts if alert["group_id"] == group_id]
            pytest.fail(f"{group_id} is not {status}; its last notices: {alerts[-2:]}")

    def is_well_again(self, group_id: str, after: str) -> None:
        """Wait until the group is OK, and somebody was told that the status before is over."""
        self.eventually(lambda: self.notices(group_id, after)[-1]["status"] == "resolved", 120)
        self.has_status(group_id, "OK")


@pytest.fixture
def cluster(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> Iterator[Cluster]:
    traffic = Traffic(broker.bootstrap_servers)
    with running(broker, spark, tmp_path, eventually) as tables, http_receiver() as receiver:
        rules_file = tmp_path / "alerts.yaml"
        rules = (f"- {{name: {status}, status: {status}}}\n" for status in _STATUSES)
        rules_file.write_text(_RULES.format(url=receiver.url) + "".join(rules))
        alerts = AlertRun(str(tables), str(rules_file))
        cluster = Cluster(broker, traffic, eventually, alerts, receiver)
        traffic.run(cluster.look)
        try:
            yield cluster
        finally:
            traffic.close()


def a_consumer_is_killed_while_producers_go_on(cluster: Cluster) -> None:
    topic, killed = cluster.produced_topic(), threading.Event()
    consumer = cluster.traffic.consume("killed", topic, killed)
    cluster.has_status("killed", "OK")
    killed.set()
    stopped = cluster.has_status("killed", "STOP")
    assert "no commit for" in stopped["reason"]
    assert stopped["value"] > 20
    # It goes on, and all is well again.
    cluster.traffic.run(lambda: consumer.poll(0.1))
    cluster.is_well_again("killed", after="STOP")


def a_transaction_hangs(cluster: Cluster) -> None:
    topic = cluster.topic()
    plain = Producer({"bootstrap.servers": cluster.broker.bootstrap_servers})
    plain.produce(topic, b"x")
    plain.flush()
    cluster.traffic.consume("blocked", topic)
    cluster.has_status("blocked", "OK")
    producer = Producer(
        {
            "bootstrap.servers": cluster.broker.bootstrap_servers,
            "transactional.id": topic,
            "transaction.timeout.ms": 600_000,
            "linger.ms": 0,
        }
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


def records_are_deleted_before_they_are_read(cluster: Cluster) -> None:
    topic, slow = cluster.produced_topic(), threading.Event()
    consumer = cluster.traffic.consume("too-slow", topic, slow)
    cluster.has_status("too-slow", "OK")
    slow.set()
    cluster.has_status("too-slow", "STOP")
    admin = AdminClient({"bootstrap.servers": cluster.broker.bootstrap_servers})
    (deletion,) = admin.delete_records([Place(topic, 0, -1)]).values()
    low = deletion.result().low_watermark
    lost = cluster.has_status("too-slow", "DATA_LOSS")
    assert f"log start {low}" in lost["reason"]
    # It goes on at the log start.
    cluster.traffic.run(lambda: consumer.poll(0.1))
    cluster.is_well_again("too-slow", after="DATA_LOSS")


INCIDENTS = (
    a_consumer_is_killed_while_producers_go_on,
    a_transaction_hangs,
    records_are_deleted_before_they_are_read,
)


def test_incidents(cluster: Cluster) -> None:
    """All of them at once: each has groups and topics of its own."""
    with ThreadPoolExecutor(len(INCIDENTS)) as pool:
        done = [pool.submit(incident, cluster) for incident in INCIDENTS]
    for incident in done:
        incident.result()
