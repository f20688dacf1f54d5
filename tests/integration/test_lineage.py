"""`run --openlineage` on a real broker, with a catalogue that comes and goes."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from streaming.lineage.catalogue import API_KEY
from streaming.local.broker.configuration import free_port
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import commit, committed, create_topic
from tests.support.brokers.receivers import HttpReceiver, http_receiver
from tests.support.brokers.running_query import running
from tests.support.clients.admin_client import admin_of
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ORDERS, REFUNDS = "lineage-orders", "lineage-refunds"
FIRST, SECOND, MEMBERS = GROUPS = ("lineage-a", "lineage-b", "lineage-c")
KEY = "key-of-the-catalogue"

Topics = dict[str, list[tuple[str, ...]]]


def topics_of_groups(receiver: HttpReceiver) -> Topics:
    """For each group of this test the topics of each of its events."""
    topics: Topics = {}
    for event in (posted.body for posted in receiver.posted):
        if "run" not in event and event["job"]["name"] in GROUPS:
            names = tuple(dataset["name"] for dataset in event["inputs"])
            topics.setdefault(event["job"]["name"], []).append(names)
    return topics


def events_of_run(receiver: HttpReceiver) -> list[dict[str, Any]]:
    return [posted.body for posted in receiver.posted if "run" in posted.body]


def test_a_catalogue_learns_who_reads_what(
    broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "streaming")
    monkeypatch.setenv(API_KEY, KEY)
    port, server = free_port(), broker.bootstrap_servers
    for topic in (ORDERS, REFUNDS):
        create_topic(broker, topic)
    consumer = Consumer(
        {"bootstrap.servers": server, "group.id": MEMBERS, "enable.auto.commit": False}
    )
    options = {"openlineage": f"http://127.0.0.1:{port}", "trigger": "200ms"}

    def failures() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if "OpenLineage at" in line]

    with (
        closing(consumer),
        admin_of(broker) as admin,
        socket.create_server(("127.0.0.1", port)) as silent,
        ExitStack() as catalogue,
    ):
        consumer.subscribe([ORDERS])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), 120)
        commit(broker, FIRST, ORDERS, 1)
        with running(broker, spark, tmp_path, eventually, **options) as tables:
            # The catalogue accepts connections and does not answer.
            eventually(lambda: committed(tables, FIRST) == [1], 120)
            eventually(lambda: any("cannot send events" in line for line in failures()), 120)
            both = [TopicPartition(topic, 0) for topic in (ORDERS, REFUNDS)]
            admin.alter_group_offsets(SECOND, dict.fromkeys(both, OffsetAndMetadata(1, "", -1)))
            eventually(lambda: committed(tables, SECOND) == [1, 1], 120)
            silent.close()
            receiver = catalogue.enter_context(http_receiver(port))
            receiver.answers = [500]
            first: Topics = {
                FIRST: [(ORDERS,)],
                SECOND: [(ORDERS, REFUNDS)],
                MEMBERS: [(ORDERS,)],
            }
            eventually(lambda: topics_of_groups(receiver) == first, 120)

            commit(broker, FIRST, REFUNDS, 1)
            admin.delete_groups([SECOND])
            changed: Topics = {
                FIRST: [*first[FIRST], (ORDERS, REFUNDS)],
                SECOND: [*first[SECOND], ()],
                MEMBERS: first[MEMBERS],
            }
            eventually(lambda: topics_of_groups(receiver) == changed, 120)
    assert topics_of_groups(receiver) == changed
    states = [event["eventType"] for event in events_of_run(receiver)]
    assert states == ["START", "RUNNING", "COMPLETE"]
    assert {posted.headers["Authorization"] for posted in receiver.posted} == {f"Bearer {KEY}"}
    namespaces = {event["inputs"][0]["namespace"] for event in events_of_run(receiver)}
    assert namespaces == {f"kafka://{server}"}
    # No answer, perhaps nobody there, 500, and the end of the outage.
    assert 3 <= len(failures()) <= 4
    assert "reachable again" in failures()[-1]
    assert KEY not in caplog.text
