"""`run` follows `__transaction_state` and `__share_group_state`, beside the answers of Kafka."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import TopicPartition as Place

from coordinator_state.records.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import admin_of, create_topic, produce
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.jar_sets import SCALA_VERSION
from tests.support.brokers.running_query import run_to_end, running
from tests.support.brokers.secured_broker import READ_LOG, SecuredBroker
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.kafka_tools import run_kafka_tool
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

Row = dict[str, Any]

READER = "reader"
SHARED = "shared"
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    # The share coordinator deletes the records before its newest snapshot.
    "share.coordinator.state.topic.prune.interval.ms": 500,
    "share.coordinator.snapshot.update.records.per.snapshot": 2,
}
ACCEPTED, REJECTED = 2, 4
"""Delivery states of records that a share group is done with; 0 is available."""

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
_PROGRAM: Final = Path(__file__).with_name("java") / "Transactions.java"
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


SHARE_GROUP: Final = "sharers"

_CLIENT: Final = Path(__file__).with_name("java") / "ShareConsumer.java"


def read_from_start(admin: KafkaAdminClient) -> None:
    """Let the group read records that were written before its first member came, too."""
    earliest = {"share.auto.offset.reset": "earliest"}
    admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, SHARE_GROUP, earliest)])


def share(broker: EmbeddedBroker, topic: str, acknowledgements: int) -> None:
    """A consumer reads records, and acknowledges each batch at once."""
    arguments = (broker.bootstrap_servers, SHARE_GROUP, topic, str(acknowledgements))
    run_kafka_tool(str(_CLIENT), *arguments)


def share_group_command(broker: EmbeddedBroker, *options: str) -> str:
    """What `kafka-share-groups.sh` prints about the group."""
    return run_kafka_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", broker.bootstrap_servers, "--group", SHARE_GROUP),
        *options,
    )


def described_offsets(broker: EmbeddedBroker) -> list[dict[str, str]]:
    """The share partitions of the group, as Kafka's command prints them."""
    printed = share_group_command(broker, "--describe", "--offsets")
    header, *lines = (line.split() for line in printed.splitlines() if line.strip())
    return [dict(zip(header, line, strict=True)) for line in lines]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("other-topics")
    with EmbeddedBroker(folder=folder, properties=PROPERTIES) as started:
        started.create_offsets_topic()
        create_topic(started, TOPIC, 2)
        create_topic(started, SHARED)
        with admin_of(started) as admin:
            read_from_start(admin)
        yield started


@pytest.fixture(scope="module")
def followed(
    broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Eventually,
) -> Path:
    """The folder of a run that has read the transactions and the share group of the broker.

    It begins before the first transaction and the first share group, which create their topics.
    """
    folder = tmp_path_factory.mktemp("followed")
    with running(broker, spark, folder, eventually), ThreadPoolExecutor() as pool:
        others = [pool.submit(traffic, broker) for traffic in (_share, transactions_of_java)]
        transactions_of_librdkafka(broker)
        for other in others:
            other.result()
        eventually(partial(have_ended, broker), 120)
        eventually(lambda: _in_table(folder) == described_transactions(broker), 120)
    run_to_end(broker, spark, folder)
    return folder


def _share(broker: EmbeddedBroker) -> None:
    """A share consumer reads 8 batches of records."""
    for _ in range(8):
        produce(broker, SHARED, 5)
    share(broker, SHARED, 40)


def _reloads(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What `run` has logged of reloads since the last call."""
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return [line for line in lines if "reloading log partitions" in line]


def _rows(folder: Path, table: str) -> list[Row]:
    """The rows of a table; none while the tables are being created."""
    try:
        return TableReader(folder / "tables").read(table).to_pylist()
    except ConfigurationError:
        return []


def _in_table(folder: Path) -> dict[str, Row]:
    """The table `transactions`, as `described_transactions` has it."""
    rows = _rows(folder, "transactions")
    transactions = {
        row["transactional_id"]: {
            "state": row["state"],
            "producer_id": row["producer_id"],
            "producer_epoch": row["producer_epoch"],
            "timeout_ms": row["timeout_ms"],
            "started_ms": _ms(row["start_timestamp"]),
            "topic_partitions": {(p["topic"], p["partition"]) for p in row["topic_partitions"]},
        }
        for row in rows
    }
    assert len(transactions) == len(rows), "a transactional id has one row"
    return transactions


def _ms(moment: Any) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


def _events(folder: Path) -> dict[str, list[str]]:
    """The events of each transactional id in the order of the log."""
    rows = _rows(folder, "transaction_events")
    events = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["record_offset"])):
        events[row["transactional_id"]].append(row["event"])
    return events


def test_transactions_are_as_kafka_describes_them(broker: EmbeddedBroker, followed: Path) -> None:
    _assert_transactions(broker, followed, JAVA, LIBRDKAFKA)
    versions = {
        row["transactional_id"]: row["client_transaction_version"]
        for row in _rows(followed, "transactions")
    }
    assert (versions[f"{LIBRDKAFKA}payer"], versions[f"{JAVA}payer"]) == (0, 2)
    topic = ("--topic", TRANSACTION_STATE_TOPIC, "--log-partition", "0")
    records = json_lines(call("decode", "--bootstrap-servers", broker.bootstrap_servers, *topic))
    assert {record["key"]["data"]["transactionalId"] for record in records if "key" in record}


@pytest.mark.release
def test_transactions_of_kafka_3(
    fresh_broker: FreshBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Their topic is then deleted, and created again for other transactions."""
    caplog.set_level(logging.INFO, "streaming")
    broker = fresh_broker(version=SCALA_VERSION, properties=PROPERTIES)
    broker.create_offsets_topic()
    create_topic(broker, TOPIC, 2)
    transactions_of_librdkafka(broker)
    eventually(partial(have_ended, broker), 120)
    run_to_end(broker, spark, tmp_path)
    _assert_transactions(broker, tmp_path, LIBRDKAFKA)

    with admin_of(broker) as admin:
        admin.delete_topics([TRANSACTION_STATE_TOPIC])
    # A coordinator that is not restarted keeps the deleted transactional ids in memory.
    broker.restart()
    second = producer_of(broker, "second")
    begin(second)
    second.commit_transaction(30)
    eventually(partial(have_ended, broker), 120)
    _reloads(caplog)
    run_to_end(broker, spark, tmp_path)
    (line,) = _reloads(caplog)
    assert f"topic {TRANSACTION_STATE_TOPIC} was deleted and created again" in line
    described = described_transactions(broker)
    assert described.keys() == {f"{LIBRDKAFKA}second"}
    assert _in_table(tmp_path) == described
    outcomes = {
        (row["transactional_id"] in described, row["outcome"])
        for row in _rows(tmp_path, "transaction_events")
    }
    assert outcomes == {(True, None), (False, "lost")}
    lost = _rows(tmp_path, "quarantine")
    assert {row["log_topic"] for row in lost} == {TRANSACTION_STATE_TOPIC}
    assert all("deleted and created again" in row["reason"] for row in lost)


def _assert_transactions(broker: EmbeddedBroker, folder: Path, *prefixes: str) -> None:
    """The tables have the transactions of these clients, as Kafka describes them."""
    described = described_transactions(broker)
    assert described.keys() >= {f"{p}{name}" for p in prefixes for name in (*EVENTS[p], "idle")}
    assert _in_table(folder) == described
    events = _events(folder)
    for prefix in prefixes:
        assert f"{prefix}idle" not in events
        assert {name: events[f"{prefix}{name}"] for name in EVENTS[prefix]} == EVENTS[prefix]
    sleepers = {prefix: described[f"{prefix}sleeper"] for prefix in prefixes}
    assert {sleeper["state"] for sleeper in sleepers.values()} == {"Ongoing"}
    pending = {row["group_id"]: row["producer_id"] for row in _rows(folder, "pending_offsets")}
    assert pending == {f"{p}sleepers": sleeper["producer_id"] for p, sleeper in sleepers.items()}


def test_a_share_group_is_as_kafka_describes_it(
    broker: EmbeddedBroker,
    spark: SparkSession,
    followed: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kafka then deletes records of its log that no run has read, and last the group's offsets."""
    caplog.set_level(logging.INFO, "streaming")
    _assert_shared(broker, followed)
    assert _rows(followed, "quarantine") == []

    (before,) = (row for row in _rows(followed, "topic_progress") if _is_of_group(row))
    _share(broker)
    log = Place(SHARE_STATE_TOPIC, before["log_partition"])
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
        eventually(lambda: consumer.beginning_offsets([log])[log] > before["next_offset"], 120)
        run_to_end(broker, spark, followed)
        (log_start,) = consumer.beginning_offsets([log]).values()
    (line,) = _reloads(caplog)
    assert f"reloading log partitions [{log.partition}] of {SHARE_STATE_TOPIC}" in line
    expected = f"the log starts at {log_start}, after the next offset {before['next_offset']}"
    assert line.endswith(expected)
    _assert_shared(broker, followed)
    # The deleted records were redundant.
    assert _rows(followed, "quarantine") == []

    share_group_command(broker, "--delete-offsets", "--topic", SHARED)
    run_to_end(broker, spark, followed)
    assert not _reloads(caplog)
    assert _rows(followed, "share_partitions") == []


def _is_of_group(progress: Row) -> bool:
    """Whether it is of the log partition of the only share partition."""
    return progress["log_topic"] == SHARE_STATE_TOPIC and progress["next_offset"] > 0


def _assert_shared(broker: EmbeddedBroker, folder: Path) -> None:
    """The table `share_partitions` has what Kafka's command prints."""
    (described,) = described_offsets(broker)
    (row,) = _rows(folder, "share_partitions")
    place = [row["group_id"], row["topic"], str(row["partition"])]
    assert place == [described["GROUP"], described["TOPIC"], described["PARTITION"]]
    assert row["start_offset"] == int(described["START-OFFSET"])
    sizes: dict[int, int] = defaultdict(int)
    for batch in row["state_batches"]:
        sizes[batch["delivery_state"]] += batch["last_offset"] - batch["first_offset"] + 1
    assert sizes.keys() == {0, ACCEPTED, REJECTED}
    assert row["delivery_complete_count"] == sizes[ACCEPTED] + sizes[REJECTED]
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    (log_end,) = consumer.end_offsets([Place(SHARED, 0)]).values()
    consumer.close()
    lag = log_end - row["start_offset"] - row["delivery_complete_count"]
    assert lag == int(described["LAG"])


def test_topics_without_acls_are_left_out_or_refused(
    secured_broker: SecuredBroker,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "streaming")
    login = {
        "bootstrap_servers": secured_broker.tls_address,
        "kafka": secured_broker.plain(READER),
    }
    needed = f"needs the ACLs Read and Describe on topic {TRANSACTION_STATE_TOPIC}"
    with secured_broker.allowing(READER, READ_LOG):
        run_to_end(secured_broker.broker, spark, tmp_path, **login)
        lines = [record.getMessage() for record in caplog.records]
        (line,) = [line for line in lines if TRANSACTION_STATE_TOPIC in line]
        assert f"not following {TRANSACTION_STATE_TOPIC}: not authorised" in line
        assert needed in line

        topics = f"{OFFSETS_TOPIC},{TRANSACTION_STATE_TOPIC}"
        with pytest.raises(ConfigurationError, match=r"^not authorised") as refused:
            run_to_end(secured_broker.broker, spark, tmp_path, topics=topics, **login)
    assert needed in str(refused.value)
