"""Transactions of librdkafka and of Kafka's Java client, and Kafka's own description of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.clients.admin_client import admin_of
from tests.support.clients.kafka_tools import run_kafka_tool

Row = dict[str, Any]

TOPIC: Final = "orders"
"""It needs two partitions."""
OPEN_MS: Final = 600_000
"""The timeout of transactions that stay open."""
JAVA: Final = "java-"
LIBRDKAFKA: Final = "librdkafka-"
"""Prefixes of transactional ids. Java uses transactions of version 2 (KIP-890) on Kafka 4."""

COMMIT: Final = ["begun", "prepared", "committed"]
_LATE_MS: Final = 1_000
"""The timeout of transactions that exceed it."""
_PROGRAM: Final = Path(__file__).parents[2] / "integration" / "java" / "Transactions.java"
_EVENTS: Final = {
    "payer": [*COMMIT, *COMMIT],
    "auditor": ["begun", "prepared", "aborted"],
    "sleeper": ["begun"],
    "late": ["begun", "timed_out", "aborted"],
    "victim": ["begun", "fenced", "aborted", *COMMIT],
}
EVENTS: Final = {
    LIBRDKAFKA: _EVENTS,
    # The log does not tell fencing from an abort by a producer of version 2.
    JAVA: _EVENTS | {"victim": ["begun", "prepared", "aborted", *COMMIT]},
}
"""The events of each transactional id after its prefix. The transactional id `idle` has none."""


def transactions_of_java(broker: EmbeddedBroker) -> None:
    """All transactions of `EVENTS`, by the Java client."""
    arguments = (broker.bootstrap_servers, TOPIC, JAVA, str(OPEN_MS), str(_LATE_MS))
    run_kafka_tool(str(_PROGRAM), *arguments)


def transactions_of_librdkafka(broker: EmbeddedBroker) -> None:
    """All transactions of `EVENTS`, by librdkafka: transactions of version 0."""
    payer = producer_of(broker, "payer")
    for _ in range(2):
        begin(payer)
        payer.commit_transaction(30)
    auditor = producer_of(broker, "auditor")
    begin(auditor)
    auditor.abort_transaction(30)

    sleeper = producer_of(broker, "sleeper")
    begin(sleeper)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{LIBRDKAFKA}sleepers"}
    )
    offsets = [TopicPartition(TOPIC, 0, 1)]
    sleeper.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
    consumer.close()

    begin(producer_of(broker, "late", _LATE_MS))
    producer_of(broker, "idle")

    begin(producer_of(broker, "victim"))
    successor = producer_of(broker, "victim")
    begin(successor)
    successor.commit_transaction(30)


def producer_of(broker: EmbeddedBroker, name: str, timeout_ms: int = OPEN_MS) -> Producer:
    """A producer of librdkafka; its transactional id has the prefix."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": f"{LIBRDKAFKA}{name}",
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    return producer


def begin(producer: Producer) -> None:
    """Begin a transaction with records in two partitions."""
    producer.begin_transaction()
    for number in range(4):
        producer.produce(TOPIC, b"value", partition=number % 2)
    producer.flush(30)


def have_ended(broker: EmbeddedBroker) -> bool:
    """Whether no transaction is ending, nor exceeds its timeout."""
    return all(
        row["state"] in ("Empty", "CompleteCommit", "CompleteAbort")
        or (row["state"] == "Ongoing" and row["timeout_ms"] == OPEN_MS)
        for row in described_transactions(broker).values()
    )


def described_transactions(broker: EmbeddedBroker) -> dict[str, Row]:
    """All transactional ids that Kafka lists, as it describes them."""
    with admin_of(broker) as admin:
        listed = admin.list_transactions()
        ids = [entry.transactional_id for entries in listed.values() for entry in entries]
        described = admin.describe_transactions(ids)
    return {
        transactional_id: {
            "state": entry.state.value,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "timeout_ms": entry.transaction_timeout_ms,
            "started_ms": entry.transaction_start_time_ms,
            "topic_partitions": {tuple(place) for place in entry.topic_partitions},
        }
        for transactional_id, entry in described.items()
    }
