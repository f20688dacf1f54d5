"""What happens to groups of a real broker, by clients and the admin, is told in `group_events`."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import create_topic, produce
from tests.support.brokers.running_query import run_to_end
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PROTOCOLS = ("classic", "consumer")


class Group:
    """A group's members and its admin."""

    def __init__(self, broker: EmbeddedBroker, eventually: Eventually, protocol: str) -> None:
        self.name = f"{protocol}-{uuid.uuid4()}"
        self._servers = broker.bootstrap_servers
        self._eventually = eventually
        self._protocol = protocol
        self.admin = AdminClient({"bootstrap.servers": self._servers})
        create_topic(broker, self.name, 2)
        produce(broker, self.name, 20, 2)

    def member(self, client_id: str, count: int, *others: Consumer) -> Consumer:
        """One more member, once it has `count` partitions."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": self.name,
                "client.id": client_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "group.protocol": self._protocol,
            }
        )
        consumer.subscribe([self.name])
        self.settle(consumer, count, *others)
        return consumer

    def settle(self, consumer: Consumer, count: int, *others: Consumer) -> None:
        def has_settled() -> bool:
            for member in (consumer, *others):
                member.poll(0.05)
            return len(consumer.assignment()) == count

        self._eventually(has_settled, 120)

    def commit(self, consumer: Consumer, offset: int) -> None:
        consumer.commit(offsets=[Place(self.name, 0, offset)], asynchronous=False)

    def reset(self, offset: int) -> None:
        request = ConsumerGroupTopicPartitions(self.name, [Place(self.name, 0, offset)])
        (reset,) = self.admin.alter_consumer_group_offsets([request]).values()
        reset.result()

    def delete_offset(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._servers)
        admin.delete_group_offsets(self.name, [TopicPartition(self.name, 1)])
        admin.close()

    def delete(self) -> None:
        (deleted,) = self.admin.delete_consumer_groups([self.name]).values()
        deleted.result()


def _live(group: Group) -> None:
    first = group.member("first", 2)
    for offset in (3, 7, 5):
        group.commit(first, offset)
    second = group.member("second", 1, first)
    group.settle(first, 1, second)
    second.close()
    group.settle(first, 2)
    first.commit(offsets=[Place(group.name, 1, 4)], asynchronous=False)
    first.close()
    group.reset(9)
    group.reset(0)
    group.delete_offset()
    group.delete()


def test_what_happened_to_groups(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    groups = {protocol: Group(broker, eventually, protocol) for protocol in PROTOCOLS}
    with ThreadPoolExecutor() as lives:
        list(lives.map(_live, groups.values()))
    tables = run_to_end(broker, spark, tmp_path, history="all")
    rows = TableReader(tables).read("group_events").to_pylist()
    rows.sort(key=lambda row: (row["record_offset"], row["event_number"]))
    for protocol, group in groups.items():
        events = [row for row in rows if row["group_id"] == group.name]
        assert {row["group_type"] for row in events} == {protocol}
        _assert_told(events)


def _assert_told(events: list[dict[str, Any]]) -> None:
    of = [
        (row["event"], row["partition"], row["offset_before"], row["offset_after"])
        for row in events
        if row["event"].startswith("offset_")
    ]
    assert of == [
        ("offset_rewind", 0, 7, 5),
        ("offset_reset", 0, 5, 9),
        ("offset_reset", 0, 9, 0),
        ("offset_deleted", 1, 4, None),
        ("offset_deleted", 0, 0, None),
    ]
    (rewind,) = (row for row in events if row["event"] == "offset_rewind")
    assert (rewind["client_id"], rewind["client_host"]) == ("first", "/127.0.0.1")

    members = [
        (row["event"], row["client_id"])
        for row in events
        if row["event"] in ("member_joined", "member_left")
    ]
    assert members == [
        *(("member_joined", "first"), ("member_joined", "second")),
        *(("member_left", "second"), ("member_left", "first")),
    ]
    epochs = [row["epoch_after"] for row in events if row["event"] == "rebalance"]
    assert epochs == sorted(epochs)
    assert len(epochs) >= 3
    had = {
        row["client_id"]: len(row["assignment_after"] or ())
        for row in reversed(events)
        if row["event"] == "assignment_changed" and row["member_count"] == 2
    }
    assert had == {"first": 1, "second": 1}
    assert [row["event"] for row in events if row["event"].startswith("group_")] == [
        *("group_created", "group_emptied", "group_deleted"),
    ]
