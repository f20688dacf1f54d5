"""Log partitions without a leader: the others go on, and these follow."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from confluent_kafka import KafkaException
from kafka.admin import NewTopic

from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.fetch import LogClient
from streaming.local.broker.configuration import free_port
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS
from tests.support.brokers import commits
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.brokers.running_query import run_to_end, running
from tests.support.clients.installed_command import run_command
from tests.support.eventually import Eventually, wait_until
from tests.support.tables.undisturbed import differences, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(900)]

LOG_PARTITIONS = 4
TOPIC = "orders"
GROUPS = [f"group-{number}" for number in range(12)]
RETRY_TIMEOUT_S = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Each log partition is on one of two brokers only."""
    properties = {
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": LOG_PARTITIONS,
    }
    with EmbeddedCluster(2, folder=tmp_path / "cluster", properties=properties) as cluster:
        cluster.create_offsets_topic()
        yield cluster


def leaders(cluster: EmbeddedCluster) -> dict[int, int]:
    with closing(LogClient(cluster.bootstrap_servers)) as client:
        return {p: node_id for p, (node_id, _) in client.describe().leaders.items()}


def commit(broker: EmbeddedBroker | EmbeddedCluster, groups: list[str], offset: int) -> None:
    """Commit as consumers that assign themselves, as soon as the coordinators have loaded."""

    def is_done(group: str) -> bool:
        with suppress(KafkaException):
            commits.commit(broker, group, TOPIC, offset)
            return True
        return False

    for group in groups:
        wait_until(partial(is_done, group))


def committed(tables: Path, groups: list[str]) -> set[int | None]:
    """The committed offsets of groups; None for a group without one."""
    rows = TableReader(str(tables)).read(GROUP_OFFSETS.name).to_pylist()
    offsets = {row["group_id"]: row["committed_offset"] for row in rows}
    return {offsets.get(group) for group in groups}


def are_at(tables: Path, groups: list[str], committed_offset: int) -> bool:
    return committed(tables, groups) == {committed_offset}


def states(tables: Path) -> dict[int, str]:
    return {p: load.state for p, load in TableReader(str(tables)).load_states.items()}


def ready(port: int) -> dict[str, Any]:
    answer = requests.get(f"http://127.0.0.1:{port}/ready", timeout=10)
    return {**answer.json(), "status": answer.status_code}


def test_the_others_go_on(
    cluster: EmbeddedCluster, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    with commits.admin_of(cluster) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 2)], wait_for_metadata=True)
    leading = leaders(cluster)
    lost = {p for p, node_id in leading.items() if node_id == 2}
    assert 0 < len(lost) < LOG_PARTITIONS
    led_groups = [g for g in GROUPS if partition_for(g, LOG_PARTITIONS) not in lost]
    lost_groups = [g for g in GROUPS if partition_for(g, LOG_PARTITIONS) in lost]
    commit(cluster, GROUPS, 1)
    port = free_port()
    fresh = tmp_path / "fresh"
    settings = {"retry_timeout": f"{RETRY_TIMEOUT_S} seconds", "history": "all"}
    with running(
        cluster, spark, tmp_path, eventually, http_port=port, trigger="0 seconds", **settings
    ) as tables:
        eventually(lambda: committed(tables, GROUPS) == {1}, 120)
        cluster.brokers[2].kill()
        left = cluster.brokers[1]
        commit(left, led_groups, 2)
        eventually(lambda: committed(tables, led_groups) == {2}, 120)
        eventually(lambda: {p for p, s in states(tables).items() if s == "waiting"} == lost, 120)
        # Past `retry_timeout`, too.
        later = time.monotonic() + 2 * RETRY_TIMEOUT_S
        for committed_offset in itertools.count(3):
            commit(left, led_groups, committed_offset)
            eventually(partial(are_at, tables, led_groups, committed_offset), 120)
            if time.monotonic() > later:
                break
        assert committed(tables, lost_groups) == {1}
        answer = ready(port)
        assert (answer["status"], set(answer["waiting"])) == (503, lost)
        assert answer["reason"].startswith("log partitions without a leader: ")

        # In a process of its own: a session has one query of a name.
        done = run_command(
            *("run", "--bootstrap-servers", left.bootstrap_servers, "--history", "all"),
            *("--available-now", "--retry-timeout", settings["retry_timeout"]),
            *("--lag-interval", "off"),
            *("--tables", str(fresh / "tables"), "--checkpoint", str(fresh / "checkpoint")),
        )
        assert done.returncode == 0, done.stderr
        assert committed(fresh / "tables", led_groups) == {committed_offset}
        assert {p for p, s in states(fresh / "tables").items() if s == "waiting"} == lost

        cluster.start()
        eventually(lambda: leaders(cluster) == leading, 120)
        commit(cluster, lost_groups, 2)
        eventually(lambda: committed(tables, lost_groups) == {2}, 120)
        eventually(lambda: ready(port)["status"] == 200, 120)
        assert set(states(tables).values()) == {"current"}
    undisturbed = run_to_end(cluster, spark, tmp_path / "undisturbed", history="all")
    for loaded in (tables, run_to_end(cluster, spark, fresh, history="all")):
        assert list(differences(table_rows(loaded), table_rows(undisturbed))) == []
