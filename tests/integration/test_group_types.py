"""Live groups of every type on a real broker, made by clients that no one here wrote."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.group_admin import GroupAdmin
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import create_topic, produce
from tests.support.brokers.running_query import run_to_end
from tests.support.clients.kafka_tools import running_kafka_client
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

IN, OUT = "typed-orders", "typed-orders-copy"
GROUP_TYPES = {
    "classic-group": "classic",
    "consumer-group": "consumer",
    "pattern-group": "consumer",
    "share-group": "share",
    "streams-application": "streams",
    "classic-application": "classic",
}
APPLICATION = Path(__file__).parent / "java" / "StreamsGroup.java"


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


def test_live_groups_of_every_type(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    for topic in (IN, OUT):
        create_topic(broker, topic, 3)
    produce(broker, IN, 30, 3)

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
        pattern.subscribe(["^typed-orders.*"])
        running.enter_context(
            running_kafka_client(
                tmp_path / "share.log",
                "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
                *("--bootstrap-server", broker.bootstrap_servers),
                *("--topic", IN, "--group", "share-group"),
            )
        )
        for protocol in ("streams", "classic"):
            running.enter_context(
                running_kafka_client(
                    tmp_path / f"{protocol}.log",
                    str(APPLICATION),
                    *(broker.bootstrap_servers, f"{protocol}-application", IN, OUT),
                    *(str(tmp_path / protocol), protocol),
                )
            )

        def settled() -> bool:
            for consumer in (*members, pattern):
                consumer.poll(0.02)
            states = _states(broker)
            return len(states) == len(GROUP_TYPES) and set(states.values()) == {"Stable"}

        eventually(settled, 120)
        tables = run_to_end(broker, spark, tmp_path)
        _assert_what_the_tables_say(TableReader(tables))

        def is_compared() -> bool:
            """Somebody may commit after the end of a query: then another one loads that."""
            run_to_end(broker, spark, tmp_path)
            return _is_equal(broker, tables)

        eventually(is_compared, 240)

    # Everybody has left; share and streams groups keep what is theirs.
    eventually(lambda: set(_states(broker).values()) == {"Empty"}, 120)
    run_to_end(broker, spark, tmp_path)
    events = TableReader(tables).read("group_events").to_pylist()
    for group_id in ("classic-group", "consumer-group"):
        counts = Counter(row["event"] for row in events if row["group_id"] == group_id)
        assert (counts["member_joined"], counts["member_left"]) == (2, 2), counts
        assert (counts["group_created"], counts["group_emptied"]) == (1, 1), counts
        assert counts["rebalance"] >= 2, counts
        assert counts["assignment_changed"] >= 2, counts


def _states(broker: EmbeddedBroker) -> dict[str, str]:
    with GroupAdmin(broker.bootstrap_servers) as admin:
        groups = admin.list_groups()
    return {name: group.state for name, group in groups.items() if name in GROUP_TYPES}


def _is_equal(broker: EmbeddedBroker, tables: Path) -> bool:
    """Whether the tables have all that the broker has of these groups; False if they are behind."""
    verification = verify_cluster(
        broker.bootstrap_servers,
        str(tables),
        timeout_s=0,
        log_partitions={partition_for(group) for group in GROUP_TYPES},
    )
    if verification.behind:
        return False
    assert verification.is_equal, verification.differences
    groups = {key.group_id for key in verification.equal if key.kind == "group"}
    assert groups >= GROUP_TYPES.keys()
    return True


def _assert_what_the_tables_say(reader: TableReader) -> None:
    rows = reader.read("groups").to_pylist()
    groups = {row["group_id"]: row for row in rows if row["group_id"] in GROUP_TYPES}
    assert {group_id: row["group_type"] for group_id, row in groups.items()} == GROUP_TYPES
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
    (assigned,) = json.loads(classic["assignment_json"])["assignedPartitions"]
    assert sorted(assigned["partitions"]) == [0, 1, 2]
