"""Live groups of every type on a real broker, made by clients that no one here wrote."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.jvm.jars import kafka_jars
from streaming.jvm.java import find_java
from streaming.kafka.group_admin import GroupAdmin
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.query import run_query
from streaming.run.settings import RunSettings
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.jar_sets import client_jars
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

IN, OUT = "orders", "orders-copy"
APPLICATION = Path(__file__).parent / "java" / "StreamsGroup.java"
# Without log4j 2, which looks for a configuration; the applications write nothing then.
_NO_LOG = "log4j-"


@contextmanager
def _java(log: Path, jars: Sequence[Path], *arguments: str) -> Iterator[None]:
    class_path = ":".join(str(jar) for jar in jars if _NO_LOG not in jar.name)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(find_java()), "-Xmx256m", "-cp", class_path, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _consumer(broker: EmbeddedBroker, group_id: str, **config: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )


def _materialise(broker: EmbeddedBroker, spark: SparkSession, tables: Path) -> TableReader:
    run_query(
        RunSettings(
            bootstrap_servers=broker.bootstrap_servers,
            tables=str(tables),
            checkpoint=str(tables.parent / "checkpoint"),
            available_now=True,
            lag_interval="off",
        ),
        session=spark,
    )
    return TableReader(tables)


def test_live_groups_of_every_type(
    fresh_broker: FreshBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 3, 1) for name in (IN, OUT)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(30):
        producer.produce(IN, b"order", partition=number % 3)
    producer.flush()
    jars = kafka_jars()
    tables = tmp_path / "tables"

    with ExitStack() as running:
        members = [
            *(_consumer(broker, "classic-group") for _ in range(2)),
            *(_consumer(broker, "consumer-group", group_protocol="consumer") for _ in range(2)),
        ]
        for consumer in members:
            running.callback(consumer.close)
            consumer.subscribe([IN])
        # librdkafka resolves the pattern itself.
        pattern = _consumer(broker, "pattern-group", group_protocol="consumer")
        running.callback(pattern.close)
        pattern.subscribe(["^orders.*"])
        running.enter_context(
            _java(
                tmp_path / "share.log",
                jars,
                "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
                *("--bootstrap-server", broker.bootstrap_servers),
                *("--topic", IN, "--group", "share-group"),
            )
        )
        for protocol in ("streams", "classic"):
            running.enter_context(
                _java(
                    tmp_path / f"{protocol}.log",
                    [*jars, *client_jars()],
                    str(APPLICATION),
                    *(broker.bootstrap_servers, f"{protocol}-application", IN, OUT),
                    *(str(tmp_path / protocol), protocol),
                )
            )
        admin_of_groups = running.enter_context(GroupAdmin(broker.bootstrap_servers))

        def settled() -> bool:
            for consumer in (*members, pattern):
                consumer.poll(0.02)
            groups = admin_of_groups.list_groups()
            return len(groups) == 6 and {group.state for group in groups.values()} == {"Stable"}

        eventually(settled, 90)
        reader = _materialise(broker, spark, tables)
        _assert_what_the_tables_say(reader)
        verified = verify_cluster(broker.bootstrap_servers, str(tables), timeout_s=0)
        for _ in range(5):
            if not verified.behind:
                break
            # Somebody has committed since the query ended.
            _materialise(broker, spark, tables)
            verified = verify_cluster(broker.bootstrap_servers, str(tables), timeout_s=0)
        assert verified.summary.startswith("equal: 6 groups"), verified.differences

    # Everybody has left; share and streams groups keep what is theirs.
    eventually(lambda: _states(broker) == {"Empty"}, 90)
    _materialise(broker, spark, tables)
    verified = verify_cluster(broker.bootstrap_servers, str(tables))
    assert verified.is_equal, verified.differences
    assert verified.counts["group"] == 6


def _states(broker: EmbeddedBroker) -> set[str]:
    with GroupAdmin(broker.bootstrap_servers) as admin:
        return {group.state for group in admin.list_groups().values()}


def _assert_what_the_tables_say(reader: TableReader) -> None:
    groups = {row["group_id"]: row for row in reader.read("groups").to_pylist()}
    assert {group_id: row["group_type"] for group_id, row in groups.items()} == {
        "classic-group": "classic",
        "consumer-group": "consumer",
        "pattern-group": "consumer",
        "share-group": "share",
        "streams-application": "streams",
        "classic-application": "classic",
    }
    assert {row["replay_warning"] for row in groups.values()} == {None}
    assert groups["pattern-group"]["subscribed_topics"] == [IN, OUT]

    members = reader.read("group_members").to_pylist()
    owned = [
        (assigned["topic"], assigned["partition"])
        for member in members
        for assigned in member["assignment"] or ()
        if member["group_id"] == "consumer-group"
    ]
    assert sorted(owned) == [(IN, 0), (IN, 1), (IN, 2)]
    tasks = [
        (task["task_type"], task["partition"])
        for member in members
        if member["group_id"] == "streams-application"
        for task in member["tasks"]
    ]
    assert sorted(tasks) == [("active", 0), ("active", 1), ("active", 2)]
    share = [m for m in members if m["group_id"] == "share-group"]
    assert {assigned["topic"] for member in share for assigned in member["assignment"]} == {IN}
    (classic,) = (m for m in members if m["group_id"] == "classic-application")
    assigned = json.loads(classic["assignment_json"])["userData"]
    assert {task["partition"] for task in assigned["activeTasks"]} == {0, 1, 2}
    joined = json.loads(classic["subscription_json"])["userData"]
    assert joined["version"] == joined["latestSupportedVersion"] == assigned["version"] == 11
