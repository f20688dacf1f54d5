"""The demo's consumer groups: real clients, each of which shows one behaviour of a group.

A member is a generator that does one small step (poll, commit) between two `yield`s. It yields
whether it has shown its behaviour; only then may its traffic stop. Its clients then stay connected,
so the group keeps its members. Closing the generator closes the clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

ORDERS = "orders"
INVOICES = "invoices"
ORDERS_PARTITIONS = (TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1))

TRANSACTION_TIMEOUT_MS = 7 * 24 * 3_600_000
"""Longer than any demo, because the broker aborts transactions after this timeout."""
BROKER_PROPERTIES: Mapping[str, object] = {
    # The default of 15 minutes is less than the timeout that the producers request.
    "transaction.max.timeout.ms": TRANSACTION_TIMEOUT_MS,
}

_POLL_MS = 2_000
_JOIN_MS = 10_000
"""Long, because kafka-python 3.0.12 loses a join if the poll times out first. It then joins again,
which makes all members rejoin, or wrongly assumes that it has joined and never reads."""
_CLOSE_MS = 5_000
_AUTO_COMMIT_MS = 500
_STEPS_BETWEEN_REBALANCES = 10
_INCIDENT_EVERY_S = 60.0
_STUCK_FOR_S = 100.0
"""Long enough for the status of a stuck group."""
_ORDERS_PER_STEP = (5, 3)
"""Orders per partition; they differ, so the offsets of the partitions differ."""

Steps: TypeAlias = Generator[bool, None, None]
Records: TypeAlias = Mapping[TopicPartition, list[Any]]


@dataclass(frozen=True, slots=True)
class Clients:
    """Creates clients of one cluster; the end of the `with` block closes them."""

    bootstrap_servers: str

    @contextmanager
    def consumer(self, group_id: str, **config: Any) -> Iterator[KafkaConsumer]:
        """A consumer that joins the group when it subscribes. Automatic commits are the default."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            client_id=f"{group_id}-consumer",
            group_id=group_id,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=_AUTO_COMMIT_MS,
            # Heartbeat responses tell a member about a rebalance, so they are frequent.
            heartbeat_interval_ms=500,
            metrics_enabled=False,
            **config,
        )
        try:
            yield consumer
        finally:
            consumer.close(timeout_ms=_CLOSE_MS)

    @contextmanager
    def producer(self, **config: Any) -> Iterator[KafkaProducer]:
        """A producer. Closing it leaves its transaction ongoing, neither committed nor aborted."""
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap_servers,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            metrics_enabled=False,
            **config,
        )
        try:
            yield producer
        finally:
            producer.close(timeout=_CLOSE_MS / 1000)

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """An admin client."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            yield admin
        finally:
            admin.close()


def create_topics(clients: Clients) -> None:
    """Create the topics. It must come first: commits for a missing topic fail."""
    with clients.admin() as admin:
        partitions = {ORDERS: len(ORDERS_PARTITIONS), INVOICES: 1}
        # -1 is the cluster's default replication factor.
        admin.create_topics(
            [NewTopic(name, count, -1) for name, count in partitions.items()],
            wait_for_metadata=True,
        )


def produce_orders(clients: Clients) -> Steps:
    """Produce the records that the groups consume."""
    with clients.producer(client_id="shop") as producer:
        for number in count():
            for partition, orders in zip(ORDERS_PARTITIONS, _ORDERS_PER_STEP, strict=True):
                for item in range(orders):
                    order = {"order": f"{number}-{partition.partition}-{item}"}
                    value = json.dumps(order).encode()
                    producer.send(partition.topic, value, partition=partition.partition)
            producer.flush()
            yield True


def _commit_automatically(clients: Clients, group_id: str) -> Steps:
    with clients.consumer(group_id) as consumer:
        consumer.subscribe([ORDERS])
        has_committed = False
        while True:
            _poll(consumer)
            has_committed = has_committed or _has_committed(consumer)
            yield has_committed


def _commit_with_metadata(clients: Clients, group_id: str) -> Steps:
    with clients.consumer(group_id, enable_auto_commit=False) as consumer:
        consumer.subscribe([ORDERS])
        has_committed = False
        while True:
            records = _poll(consumer)
            if records:
                consumer.commit(_consumed(records))
                has_committed = True
            yield has_committed


def _assign_partitions(clients: Clients, group_id: str) -> Steps:
    with clients.consumer(group_id, enable_auto_commit=False) as consumer:
        consumer.assign(ORDERS_PARTITIONS)
        while True:
            _commit_next_offsets(consumer)
            yield True


def _join_and_leave(clients: Clients, group_id: str) -> Steps:
    """The second member of a group: the group rebalances each time it joins or leaves."""
    for times_left in count():
        with clients.consumer(group_id) as consumer:
            consumer.subscribe([ORDERS])
            while not consumer.assignment():
                _poll(consumer)
                yield False
            for _ in range(_STEPS_BETWEEN_REBALANCES):
                _poll(consumer)
                yield times_left > 0
        for _ in range(_STEPS_BETWEEN_REBALANCES):
            yield False


def _have_incidents(clients: Clients, group_id: str) -> Steps:
    """Every minute alternately rewind to the beginning or get stuck."""
    # Few records per poll, so that users can watch the group catch up.
    with clients.consumer(group_id, enable_auto_commit=False, max_poll_records=20) as consumer:
        consumer.assign(ORDERS_PARTITIONS)
        for number in count():
            healthy_until = time.monotonic() + _INCIDENT_EVERY_S
            while time.monotonic() < healthy_until:
                _commit_next_offsets(consumer)
                yield True
            if number % 2 == 0:
                consumer.seek_to_beginning()
            else:
                stuck_until = time.monotonic() + _STUCK_FOR_S
                while time.monotonic() < stuck_until:
                    yield True


def _delete_offset(clients: Clients, group_id: str) -> Steps:
    with clients.consumer(group_id, enable_auto_commit=False) as consumer, clients.admin() as admin:
        consumer.assign(ORDERS_PARTITIONS)
        deleted = ORDERS_PARTITIONS[1]
        while True:
            _commit_next_offsets(consumer)
            error = admin.delete_group_offsets(group_id, [deleted])[deleted]
            if error is not NoError:
                raise error(f"the offset of {group_id} was not deleted")
            yield True


def _delete_group(clients: Clients, group_id: str) -> Steps:
    with clients.consumer(group_id, enable_auto_commit=False) as consumer, clients.admin() as admin:
        consumer.assign(ORDERS_PARTITIONS)
        while True:
            _commit_next_offsets(consumer)
            error = admin.delete_groups([group_id])[group_id]
            if error != "OK":
                raise RuntimeError(f"the group {group_id} was not deleted: {error}")
            yield True


def _commit_transactions(clients: Clients, group_id: str) -> Steps:
    with _transactional(clients, group_id) as (consumer, producer):
        has_committed = False
        while True:
            if _begin_transaction(consumer, producer):
                producer.commit_transaction()
                has_committed = True
            yield has_committed


def _abort_transactions(clients: Clients, group_id: str) -> Steps:
    """Commit once, then abort: the aborted offsets must not replace the committed ones."""
    with _transactional(clients, group_id) as (consumer, producer):
        yield from _commit_one_transaction(consumer, producer)
        has_aborted = False
        while True:
            records = _begin_transaction(consumer, producer)
            if records:
                producer.abort_transaction()
                for partition, of_partition in records.items():
                    consumer.seek(partition, of_partition[0].offset)
                has_aborted = True
            yield has_aborted


def _leave_transaction_open(clients: Clients, group_id: str) -> Steps:
    """Commit once, then leave a transaction ongoing beside that older offset."""
    with _transactional(clients, group_id) as (consumer, producer):
        yield from _commit_one_transaction(consumer, producer)
        while not _begin_transaction(consumer, producer):
            yield False
        while True:
            yield True


@contextmanager
def _transactional(
    clients: Clients, group_id: str
) -> Iterator[tuple[KafkaConsumer, KafkaProducer]]:
    """The consumer and the producer of a consume-transform-produce loop."""
    with (
        clients.consumer(group_id, enable_auto_commit=False) as consumer,
        clients.producer(transactional_id=group_id) as producer,
    ):
        consumer.subscribe([ORDERS])
        producer.init_transactions()
        yield consumer, producer


def _begin_transaction(consumer: KafkaConsumer, producer: KafkaProducer) -> Records:
    """Consume, produce, and send the offsets; without records, begin no transaction."""
    records = _poll(consumer)
    if records:
        producer.begin_transaction()
        for of_partition in records.values():
            producer.send(INVOICES, of_partition[-1].value)
        producer.send_offsets_to_transaction(_consumed(records), consumer.group_metadata())
        producer.flush()
    return records


def _commit_one_transaction(consumer: KafkaConsumer, producer: KafkaProducer) -> Steps:
    while not _begin_transaction(consumer, producer):
        yield False
    producer.commit_transaction()


def _consumed(records: Records) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        partition: OffsetAndMetadata(
            of_partition[-1].offset + 1,
            f"{len(of_partition)} orders at once",
            of_partition[-1].leader_epoch,
        )
        for partition, of_partition in records.items()
    }


def _poll(consumer: KafkaConsumer) -> Records:
    """Poll for records; without assigned partitions the poll is longer, as it includes a join."""
    records: Records = consumer.poll(_POLL_MS if consumer.assignment() else _JOIN_MS)
    return records


def _commit_next_offsets(consumer: KafkaConsumer) -> None:
    _poll(consumer)
    consumer.commit(
        {at: OffsetAndMetadata(consumer.position(at), "", -1) for at in consumer.assignment()}
    )


def _has_committed(consumer: KafkaConsumer) -> bool:
    return any(consumer.committed(partition) is not None for partition in consumer.assignment())


@dataclass(frozen=True, slots=True)
class DemoGroup:
    """A consumer group of the demo, a short description of its traffic, and its members."""

    group_id: str
    traffic: str
    members: tuple[Callable[[Clients, str], Steps], ...]


NEIGHBOUR = DemoGroup("billing", "commits automatically", (_commit_automatically,))
"""In the log partition of `HANGING`, whose ongoing transaction must not block it."""
HANGING = DemoGroup("fraud-check", "never ends its transaction", (_leave_transaction_open,))
DEMO_GROUPS = (
    NEIGHBOUR,
    DemoGroup("shipping", "commits with metadata", (_commit_with_metadata,)),
    DemoGroup("audit", "assigns its partitions itself", (_assign_partitions,)),
    DemoGroup("search", "rebalances repeatedly", (_commit_automatically, _join_and_leave)),
    DemoGroup("payments", "commits in transactions", (_commit_transactions,)),
    DemoGroup("refunds", "aborts its transactions", (_abort_transactions,)),
    HANGING,
    DemoGroup("returns", "has an offset deleted", (_delete_offset,)),
    DemoGroup("trial", "is deleted", (_delete_group,)),
    DemoGroup("reports", "has an incident each minute", (_have_incidents,)),
)
