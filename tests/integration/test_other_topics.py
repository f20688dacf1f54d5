"""`run` follows `__transaction_state` and `__share_group_state`, beside the answers of Kafka."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer
from kafka.admin import NewTopic
from kafka.structs import TopicPartition as Place

from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.jar_sets import SCALA_VERSION
from tests.support.brokers.secured_broker import READ_LOG, SecuredBroker
from tests.support.clients.admin_client import admin_of
from tests.support.clients.installed_command import command_of, run_command
from tests.support.clients.share_group import (
    described_offsets,
    read_from_start,
    share,
    share_group_command,
)
from tests.support.clients.transactional_producers import (
    COMMIT,
    EVENTS,
    JAVA,
    LIBRDKAFKA,
    OPEN_MS,
    TOPIC,
    begin,
    described_transactions,
    have_ended,
    producer_of,
    transactions_of_java,
    transactions_of_librdkafka,
)
from tests.support.eventually import Eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

Row = dict[str, Any]

SHARED = "shared"
READER = "reader"
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    # The share coordinator deletes the records before its newest snapshot.
    "share.coordinator.state.topic.prune.interval.ms": 500,
    "share.coordinator.snapshot.update.records.per.snapshot": 2,
}
ACCEPTED, REJECTED = 2, 4
"""Delivery states of records that a share group is done with; 0 is available."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    folder = tmp_path_factory.mktemp("other-topics")
    with EmbeddedBroker(folder=folder, properties=PROPERTIES) as started:
        started.create_offsets_topic()
        with admin_of(started) as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1), NewTopic(SHARED, 1, 1)])
            read_from_start(admin)
        yield started


@pytest.fixture(scope="module")
def followed(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, eventually: Eventually
) -> Path:
    """The folder of a run that has read the transactions and the share group of the broker."""
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(one, broker) for one in (_share, transactions_of_java)]
        transactions_of_librdkafka(broker)
        for other in others:
            other.result()
    eventually(partial(have_ended, broker))
    folder = tmp_path_factory.mktemp("followed")
    _follow(broker, folder)
    return folder


def _share(broker: EmbeddedBroker) -> None:
    """A share consumer reads 8 batches of records."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(8):
        for number in range(5):
            producer.produce(SHARED, str(number).encode())
        producer.flush(30)
    share(broker, SHARED, 40)


def _run(address: str, folder: Path, *options: str) -> list[str]:
    return [
        *("run", "--bootstrap-servers", address, "--tables", str(folder / "tables")),
        *options,
    ]


def _follow(broker: EmbeddedBroker, folder: Path) -> str:
    """Run to the ends of all topics; return what `run` logs."""
    done = run_command(*_run(broker.bootstrap_servers, folder, "--available-now"))
    assert done.returncode == 0, done.stderr
    assert "cannot sample" not in done.stderr
    return done.stderr


def _rows(folder: Path, table: str) -> list[Row]:
    """The rows of a table; none while the tables are being created."""
    try:
        return TableReader(folder / "tables").read(table).to_pylist()
    except ConfigurationError:
        return []


def _in_table(folder: Path) -> dict[str, Row]:
    """The table `transactions`, as `described_transactions` has it."""
    rows = _rows(folder, "transactions")
    found = {
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
    assert len(found) == len(rows), "a transactional id has one row"
    return found


def _ms(moment: Any) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


def _events(folder: Path) -> dict[str, list[str]]:
    """The events of each transactional id in the order of the log."""
    rows = _rows(folder, "transaction_events")
    places = [(row["log_partition"], row["record_offset"]) for row in rows]
    assert len(set(places)) == len(places), "no event is there twice"
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["log_partition"], row["record_offset"])):
        found[row["transactional_id"]].append(row["event"])
        if row["event"] == "begun":
            assert row["duration_ms"] is None
        else:
            least = row["timeout_ms"] if row["event"] == "timed_out" else 0
            assert least <= row["duration_ms"] < OPEN_MS
    return found


def test_transactions_are_as_kafka_describes_them(broker: EmbeddedBroker, followed: Path) -> None:
    _assert_transactions(broker, followed, JAVA, LIBRDKAFKA)
    versions = {
        row["transactional_id"]: row["client_transaction_version"]
        for row in _rows(followed, "transactions")
    }
    assert (versions[f"{LIBRDKAFKA}payer"], versions[f"{JAVA}payer"]) == (0, 2)


def test_transactions_of_kafka_3(
    fresh_broker: FreshBroker, tmp_path: Path, eventually: Eventually
) -> None:
    """Their topic is then deleted, and created again for other transactions."""
    broker = fresh_broker(version=SCALA_VERSION, properties=PROPERTIES)
    broker.create_offsets_topic()
    with admin_of(broker) as admin:
        admin.create_topics([NewTopic(TOPIC, 2, 1)])
    transactions_of_librdkafka(broker)
    eventually(partial(have_ended, broker))
    _follow(broker, tmp_path)
    _assert_transactions(broker, tmp_path, LIBRDKAFKA)

    with admin_of(broker) as admin:
        admin.delete_topics([TRANSACTION_STATE_TOPIC])
    # A coordinator that is not restarted keeps the deleted transactional ids in memory.
    broker.restart()
    second = producer_of(broker, "second")
    begin(second)
    second.commit_transaction(30)
    eventually(partial(have_ended, broker))
    logged = _follow(broker, tmp_path)
    (line,) = [line for line in logged.splitlines() if "reloading log partitions" in line]
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
    """The tables have the transactions of these clients, and no others."""
    described = described_transactions(broker)
    assert described.keys() == {f"{p}{name}" for p in prefixes for name in (*EVENTS[p], "idle")}
    assert _in_table(folder) == described
    assert _events(folder) == {
        f"{prefix}{name}": events for prefix in prefixes for name, events in EVENTS[prefix].items()
    }
    sleepers = {prefix: described[f"{prefix}sleeper"] for prefix in prefixes}
    assert {sleeper["state"] for sleeper in sleepers.values()} == {"Ongoing"}
    pending = {row["group_id"]: row["producer_id"] for row in _rows(folder, "pending_offsets")}
    assert pending == {f"{p}sleepers": sleeper["producer_id"] for p, sleeper in sleepers.items()}


def test_a_share_group_is_as_kafka_describes_it(
    broker: EmbeddedBroker, followed: Path, eventually: Eventually
) -> None:
    """Kafka then deletes records of its log that no run has read, and last the group's offsets."""
    _assert_shared(broker, followed)
    assert _rows(followed, "quarantine") == []

    (before,) = (row for row in _rows(followed, "topic_progress") if _is_of_group(row))
    _share(broker)
    log = Place(SHARE_STATE_TOPIC, before["log_partition"])
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    eventually(lambda: consumer.beginning_offsets([log])[log] > before["next_offset"])
    logged = _follow(broker, followed)
    (log_start,) = consumer.beginning_offsets([log]).values()
    consumer.close()
    (line,) = [line for line in logged.splitlines() if "reloading log partitions" in line]
    assert f"reloading log partitions [{log.partition}] of {SHARE_STATE_TOPIC}" in line
    expected = f"the log starts at {log_start}, after the next offset {before['next_offset']}"
    assert line.endswith(expected)
    _assert_shared(broker, followed)
    # The deleted records were redundant.
    assert _rows(followed, "quarantine") == []

    share_group_command(broker, "--delete-offsets", "--topic", SHARED)
    logged = _follow(broker, followed)
    assert "reloading log partitions" not in logged
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
    with admin_of(broker) as admin:
        (topic,) = admin.describe_topics([SHARED])
    assert base64.urlsafe_b64decode(f"{row['topic_id']}==") == UUID(topic["topic_id"]).bytes
    sizes: dict[int, int] = defaultdict(int)
    for batch in row["state_batches"]:
        assert batch["first_offset"] >= row["start_offset"]
        sizes[batch["delivery_state"]] += batch["last_offset"] - batch["first_offset"] + 1
    assert sizes.keys() == {0, ACCEPTED, REJECTED}
    assert row["delivery_complete_count"] == sizes[ACCEPTED] + sizes[REJECTED]
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    (log_end,) = consumer.end_offsets([Place(SHARED, 0)]).values()
    consumer.close()
    lag = log_end - row["start_offset"] - row["delivery_complete_count"]
    assert lag == int(described["LAG"])


def test_the_first_transaction_of_a_cluster_and_a_kill(
    fresh_broker: FreshBroker, tmp_path: Path, eventually: Eventually
) -> None:
    broker = fresh_broker(properties=PROPERTIES)
    broker.create_offsets_topic()
    with admin_of(broker) as admin:
        admin.create_topics([NewTopic(TOPIC, 2, 1)])
        assert TRANSACTION_STATE_TOPIC not in admin.list_topics()
    live = subprocess.Popen(
        command_of(*_run(broker.bootstrap_servers, tmp_path)),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: _rows(tmp_path, "load_progress"), 60)
        first = producer_of(broker, "first")
        begin(first)
        first.commit_transaction(30)
        eventually(lambda: _in_table(tmp_path) == described_transactions(broker), 60)
        with _transacting(broker) as committed:
            eventually(lambda: min(_committed(tmp_path, name) for name in committed) > 1, 60)
            os.killpg(live.pid, signal.SIGKILL)
    finally:
        if live.poll() is None:
            os.killpg(live.pid, signal.SIGKILL)
        live.wait()
    _follow(broker, tmp_path)
    described = described_transactions(broker)
    assert _in_table(tmp_path) == described
    assert {described[name]["state"] for name in committed} == {"Ongoing"}
    assert _events(tmp_path) == {
        f"{LIBRDKAFKA}first": COMMIT,
        **{name: [*COMMIT * count, "begun"] for name, count in committed.items()},
    }


def _committed(folder: Path, transactional_id: str) -> int:
    """How many transactions of a transactional id the events have as committed."""
    found = _rows(folder, "transaction_events")
    events = [(row["transactional_id"], row["event"]) for row in found]
    return events.count((transactional_id, "committed"))


@contextmanager
def _transacting(broker: EmbeddedBroker) -> Iterator[dict[str, int]]:
    """Two producers commit transactions while the block runs, and each leaves one open.

    Yields the numbers of committed transactions by transactional id.
    """
    committed = {f"{LIBRDKAFKA}busy-{number}": 0 for number in range(2)}
    stop = threading.Event()

    def transact(name: str) -> None:
        producer = producer_of(broker, name.removeprefix(LIBRDKAFKA))
        begin(producer)
        while not stop.is_set():
            producer.commit_transaction(30)
            committed[name] += 1
            begin(producer)

    with ThreadPoolExecutor() as pool:
        running = [pool.submit(transact, name) for name in committed]
        try:
            yield committed
        finally:
            stop.set()
        for producer in running:
            producer.result()


def test_topics_without_acls_are_left_out_or_refused(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    login = secured_broker.plain(READER)
    kafka = [text for name, value in login.items() for text in ("--kafka", f"{name}={value}")]
    command = _run(secured_broker.tls_address, tmp_path, "--available-now", *kafka)
    with secured_broker.allowing(READER, READ_LOG):
        left_out = run_command(*command)
        topics = f"{OFFSETS_TOPIC},{TRANSACTION_STATE_TOPIC}"
        refused = run_command(*command, "--topics", topics)
    (line,) = _lines_about(TRANSACTION_STATE_TOPIC, left_out.stderr)
    assert left_out.returncode == 0, left_out.stderr
    assert f"not following {TRANSACTION_STATE_TOPIC}: not authorised" in line
    assert f"needs the ACLs Read and Describe on topic {TRANSACTION_STATE_TOPIC}" in line

    (line,) = _lines_about(TRANSACTION_STATE_TOPIC, refused.stderr)
    assert refused.returncode == 2, refused.stderr
    assert line.startswith("Error: not authorised")
    assert f"needs the ACLs Read and Describe on topic {TRANSACTION_STATE_TOPIC}" in line
    assert "Traceback" not in refused.stderr


def _lines_about(topic: str, logged: str) -> list[str]:
    return [line for line in logged.splitlines() if topic in line]
