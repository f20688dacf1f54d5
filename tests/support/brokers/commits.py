"""Topics and commits of simple groups on a broker, and what tables know of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS
from tests.support.brokers.embedded_cluster import EmbeddedCluster


@contextmanager
def admin_of(broker: EmbeddedBroker | EmbeddedCluster) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        yield admin


def create_topic(broker: EmbeddedBroker, topic: str, partitions: int = 1) -> None:
    """Create a topic, unless the broker has it."""
    with admin_of(broker) as admin:
        if topic not in admin.list_topics():
            admin.create_topics([NewTopic(topic, partitions, 1)], wait_for_metadata=True)


def commit(
    broker: EmbeddedBroker | EmbeddedCluster, group_id: str, topic: str, *offsets: int
) -> None:
    """Commit offsets one after the other, as a consumer that assigns itself partition 0."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id}
    with closing(Consumer({**config, "enable.auto.commit": False})) as consumer:
        for offset in offsets:
            place = TopicPartition(topic, 0, offset)
            consumer.commit(offsets=[place], asynchronous=False)


def produce(broker: EmbeddedBroker, topic: str, records: int, partitions: int = 1) -> None:
    """Append records to the first partitions of a topic in turn."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, b"record", partition=number % partitions)
    assert producer.flush(30) == 0


def rows_of_group(tables: Path, table: str, group_id: str) -> list[dict[str, Any]]:
    """A group's rows of a table; none while the tables are being created."""
    try:
        rows = TableReader(tables).read(table, filters=[("group_id", "==", group_id)])
    except ConfigurationError:
        return []
    return rows.to_pylist()


def committed(tables: Path, group_id: str) -> list[int]:
    """The committed offsets of a group in the tables, in ascending order."""
    rows = rows_of_group(tables, GROUP_OFFSETS.name, group_id)
    return sorted(row["committed_offset"] for row in rows)
