"""`run --openlineage` on a real broker. Unit tests have a catalogue that is away."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from streaming.lineage.reporter import API_KEY
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import commit, create_topic
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
    server = broker.bootstrap_servers
    for topic in (ORDERS, REFUNDS):
        create_topic(broker, topic)
    consumer = Consumer(
        {"bootstrap.servers": server, "group.id": MEMBERS, "enable.auto.commit": False}
    )
    with closing(consumer), admin_of(broker) as admin, http_receiver() as receiver:
        consumer.subscribe([ORDERS])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), 120)
        commit(broker, FIRST, ORDERS, 1)
        both = [TopicPartition(topic, 0) for topic in (ORDERS, REFUNDS)]
        admin.alter_group_offsets(SECOND, dict.fromkeys(both, OffsetAndMetadata(1, "", -1)))
        options = {"openlineage": receiver.url, "trigger": "200ms"}
        with running(broker, spark, tmp_path, eventually, **options):
            before: Topics = {
                FIRST: [(ORDERS,)],
                SECOND: [(ORDERS, REFUNDS)],
                MEMBERS: [(ORDERS,)],
            }
            eventually(lambda: topics_of_groups(receiver) == before, 120)
            commit(broker, FIRST, REFUNDS, 1)
            admin.delete_groups([SECOND])
            after: Topics = {
                FIRST: [*before[FIRST], (ORDERS, REFUNDS)],
                SECOND: [*before[SECOND], ()],
                MEMBERS: before[MEMBERS],
            }
            eventually(lambda: topics_of_groups(receiver) == after, 120)
    assert topics_of_groups(receiver) == after
    events = [posted.body for posted in receiver.posted if "run" in posted.body]
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "COMPLETE"]
    assert {posted.headers["Authorization"] for posted in receiver.posted} == {f"Bearer {KEY}"}
    namespaces = {event["inputs"][0]["namespace"] for event in events}
    assert namespaces == {f"kafka://{server}"}
    assert KEY not in caplog.text
