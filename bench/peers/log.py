"""Writes `__consumer_offsets` with real clients: about 2,000 committed offsets in classes.

A class says what happened to an offset last. The broker is asked for the truth; the class only
tells which kind of offset a tool gets wrong.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PlainPartition

from coordinator_state.replay.offsets import OffsetKey
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS, partition_for

logger = logging.getLogger(__name__)

PLAIN: Final = "plain"
CONSUMER_PROTOCOL: Final = "KIP-848 group"
COMMITTED: Final = "transaction committed"
ABORTED: Final = "transaction aborted"
OPEN: Final = "transaction open"
DELETED_OFFSET: Final = "offset deleted"
DELETED_TOPIC: Final = "topic deleted"
DELETED_GROUP: Final = "group deleted"
CLASSES: Final = (
    *(PLAIN, CONSUMER_PROTOCOL, COMMITTED, ABORTED, OPEN),
    *(DELETED_OFFSET, DELETED_TOPIC, DELETED_GROUP),
)

ORDERS: Final = "orders"
PARTITIONS: Final = 10
END: Final = 1_000
"""Records in each partition of the topics, so every committed offset is below the log end."""

_PAYMENTS, _RETIRED, _RESULTS = "payments", "retired", "results"
_OPEN_MS: Final = 4 * 3_600_000
BROKER_PROPERTIES: Final[Mapping[str, object]] = {"transaction.max.timeout.ms": _OPEN_MS}
"""Transactions stay open as long as the bench runs."""
_TIMEOUT_S: Final = 30


@dataclass(slots=True)
class WrittenLog:
    """The class of each offset, and the groups that go on committing (one per log partition)."""

    classes: dict[OffsetKey, str] = field(default_factory=dict)
    busy_groups: list[str] = field(default_factory=list)

    @property
    def groups(self) -> list[str]:
        """All groups, also those that are deleted."""
        return sorted({key.group_id for key in self.classes})

    def add(self, kind: str, group: str, topic: str = ORDERS) -> str:
        """Note the class of all offsets of a group in a topic."""
        for partition in range(PARTITIONS):
            self.classes[OffsetKey(group, topic, partition)] = kind
        return group


@contextmanager
def written_log(servers: str, rounds: int) -> Iterator[WrittenLog]:
    """Write the log; transactions of the class `OPEN` stay open in the block.

    Args:
        servers: the bootstrap servers of a broker with `BROKER_PROPERTIES`.
        rounds: commits of each offset.
    """
    writer = _Writer(servers, rounds)
    writer.fill_topics()
    log = WrittenLog()
    for step in (_plain, _subscribed, _transactions, _deletions):
        step(writer, log)
        logger.info("%s offsets written", len(log.classes))
    producers = list(_open_transactions(writer, log))
    try:
        yield log
    finally:
        for producer in producers:
            producer.abort_transaction(_TIMEOUT_S)


class _Writer:
    """The clients, and random offsets that are the same in each run."""

    def __init__(self, servers: str, rounds: int) -> None:
        self.servers = servers
        self.rounds = rounds
        self._random = random.Random(7)

    def fill_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        names = (ORDERS, _PAYMENTS, _RETIRED, _RESULTS)
        created = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        for done in created.values():
            done.result(_TIMEOUT_S)
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})
        for name in (ORDERS, _PAYMENTS, _RETIRED):
            for number in range(END * PARTITIONS):
                producer.produce(name, b"a record", partition=number % PARTITIONS)
                producer.poll(0)
        producer.flush(_TIMEOUT_S)

    def offsets(self, topic: str = ORDERS) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition, self._random.randrange(1, END))
            for partition in range(PARTITIONS)
        ]

    def consumer(self, group: str, **settings: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def commit_alone(self, group: str, *topics: str) -> None:
        """Commit without being a member, as consumers with `assign` do."""
        consumer = self.consumer(group)
        for _ in range(self.rounds):
            for topic in topics or (ORDERS,):
                consumer.commit(offsets=self.offsets(topic), asynchronous=False)
        consumer.close()

    def commit_as_member(self, group: str, **settings: str) -> None:
        """Join, commit and leave."""
        consumer = self.consumer(group, **settings)
        consumer.subscribe([ORDERS])
        while not consumer.assignment():
            consumer.poll(0.05)
        for _ in range(self.rounds):
            consumer.commit(offsets=self.offsets(), asynchronous=False)
        consumer.close()

    def producer(self, name: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "transactional.id": name,
                "transaction.timeout.ms": _OPEN_MS,
            }
        )
        producer.init_transactions(_TIMEOUT_S)
        return producer

    def begin(self, producer: Producer, group: str) -> None:
        """Begin a transaction with a record and all offsets of a group."""
        consumer = self.consumer(group)
        producer.begin_transaction()
        producer.produce(_RESULTS, b"a result")
        producer.send_offsets_to_transaction(
            self.offsets(), consumer.consumer_group_metadata(), _TIMEOUT_S
        )
        consumer.close()


def _names(prefix: str, number: int) -> Iterator[str]:
    return (f"{prefix}-{index}" for index in range(number))


def _plain(writer: _Writer, log: WrittenLog) -> None:
    by_log_partition: dict[int, str] = {}
    for name in map("busy-{}".format, count()):
        by_log_partition.setdefault(partition_for(name, DEFAULT_LOG_PARTITIONS), name)
        if len(by_log_partition) == DEFAULT_LOG_PARTITIONS:
            break
    log.busy_groups = sorted(by_log_partition.values())
    for group in log.busy_groups:
        writer.commit_alone(log.add(PLAIN, group))


def _subscribed(writer: _Writer, log: WrittenLog) -> None:
    for group in _names("members", 10):
        writer.commit_as_member(log.add(PLAIN, group))
    for group in _names("modern", 15):
        writer.commit_as_member(log.add(CONSUMER_PROTOCOL, group), group_protocol="consumer")


def _transactions(writer: _Writer, log: WrittenLog) -> None:
    producer = writer.producer("payer")
    for group in _names("paid", 20):
        log.add(COMMITTED, group)
        for _ in range(writer.rounds):
            writer.begin(producer, group)
            producer.commit_transaction(_TIMEOUT_S)
    # The commit outside the transaction is later in the log than the one inside, so it stands.
    for group in _names("overtaken", 5):
        writer.begin(producer, log.add(COMMITTED, group))
        writer.commit_alone(group)
        producer.commit_transaction(_TIMEOUT_S)
    for group in _names("failed", 15):
        writer.commit_alone(log.add(ABORTED, group))
        writer.begin(producer, group)
        producer.abort_transaction(_TIMEOUT_S)
    for group in _names("never-paid", 5):
        writer.begin(producer, log.add(ABORTED, group))
        producer.abort_transaction(_TIMEOUT_S)


def _deletions(writer: _Writer, log: WrittenLog) -> None:
    admin = KafkaAdminClient(bootstrap_servers=writer.servers)
    for group in _names("moved", 20):
        log.add(PLAIN, group, _PAYMENTS)
        writer.commit_alone(log.add(DELETED_OFFSET, group), ORDERS, _PAYMENTS)
        partitions = [PlainPartition(ORDERS, number) for number in range(PARTITIONS)]
        admin.delete_group_offsets(group, partitions)
    for group in _names("left", 10):
        writer.commit_as_member(log.add(DELETED_GROUP, group))
    for group in _names("one-off", 10):
        writer.commit_alone(log.add(DELETED_GROUP, group))
    admin.delete_groups([*_names("left", 10), *_names("one-off", 10)])
    for group in _names("retiring", 10):
        writer.commit_alone(log.add(DELETED_TOPIC, group, _RETIRED), _RETIRED)
    admin.delete_topics([_RETIRED])
    admin.close()


def _open_transactions(writer: _Writer, log: WrittenLog) -> Iterator[Producer]:
    for group in _names("waiting", 10):
        writer.commit_alone(log.add(OPEN, group))
        producer = writer.producer(group)
        writer.begin(producer, group)
        yield producer


class Commits:
    """Commits of the busy groups, by one client: of whole groups, or of single offsets."""

    def __init__(self, servers: str, log: WrittenLog) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=servers)
        self._random = random.Random(11)
        self._groups = log.busy_groups
        self._numbers = count()

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def commit_group(self) -> None:
        """Commit all offsets of the next group."""
        group = self._groups[next(self._numbers) % len(self._groups)]
        self._commit(group, {number: self._offset() for number in range(PARTITIONS)})

    def commit_one(self, number: int, standing: Mapping[OffsetKey, int]) -> tuple[OffsetKey, int]:
        """Commit another offset than the standing one; the key is another for each number."""
        group = self._groups[number % len(self._groups)]
        key = OffsetKey(group, ORDERS, number // len(self._groups) % PARTITIONS)
        offset = next(
            candidate for candidate in iter(self._offset, None) if candidate != standing.get(key)
        )
        self._commit(group, {key.partition: offset})
        return key, offset

    def _offset(self) -> int:
        return self._random.randrange(1, END)

    def _commit(self, group: str, offsets: Mapping[int, int]) -> None:
        self._admin.alter_group_offsets(
            group,
            {
                PlainPartition(ORDERS, number): OffsetAndMetadata(offset, "", -1)
                for number, offset in offsets.items()
            },
        )
