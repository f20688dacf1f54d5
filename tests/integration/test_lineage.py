"""`run --openlineage` on a real broker, with a catalogue that comes and goes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from streaming.errors import ConfigurationError
from streaming.lineage.catalogue import API_KEY
from streaming.local.broker.configuration import free_port
from streaming.tables.reader import TableReader
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.receivers import HttpReceiver, http_receiver
from tests.support.clients.admin_client import admin_of
from tests.support.clients.installed_command import command_of
from tests.support.eventually import Eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def commit(admin: KafkaAdminClient, group: str, *topics: str) -> None:
    offset = OffsetAndMetadata(1, "", -1)
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): offset for topic in topics})


def committed(tables: Path) -> Counter[str]:
    """How many offsets of each group the tables have."""
    with suppress(ConfigurationError):
        rows = TableReader(tables).read("group_offsets", ["group_id"])
        return Counter(rows["group_id"].to_pylist())
    return Counter()


Told = dict[str, list[tuple[str, ...]]]


def of_groups(receiver: HttpReceiver) -> Told:
    """For each group the topics of each of its events."""
    found: Told = {}
    for event in (posted.body for posted in receiver.posted):
        if "run" not in event:
            topics = tuple(one["name"] for one in event["inputs"])
            found.setdefault(event["job"]["name"], []).append(topics)
    return found


def of_run(receiver: HttpReceiver) -> list[dict[str, Any]]:
    return [posted.body for posted in receiver.posted if "run" in posted.body]


def test_a_catalogue_learns_who_reads_what(
    fresh_broker: FreshBroker, tmp_path: Path, eventually: Eventually
) -> None:
    broker, port, tables, log = fresh_broker(), free_port(), tmp_path / "tables", tmp_path / "log"
    server = broker.bootstrap_servers
    command = command_of(
        *("run", "--bootstrap-servers", server, "--tables", str(tables), "--trigger", "200ms"),
        *("--openlineage", f"http://127.0.0.1:{port}", "--log-format", "json"),
    )
    consumer = Consumer({"bootstrap.servers": server, "group.id": "c", "enable.auto.commit": False})
    with (
        admin_of(broker) as admin,
        closing(consumer),
        log.open("wb") as stderr,
        socket.create_server(("127.0.0.1", port)) as silent,
    ):
        topics = {"num_partitions": 1, "replication_factor": 1}
        admin.create_topics({"orders": topics, "refunds": topics}, wait_for_metadata=True)
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), 60)
        commit(admin, "a", "orders")
        environment = os.environ | {API_KEY: "key"}
        with subprocess.Popen(command, stderr=stderr, env=environment) as run:
            try:
                # The catalogue accepts connections and does not answer.
                eventually(lambda: committed(tables) == {"a": 1}, 60)
                eventually(lambda: "cannot send events" in log.read_text(), 20)
                commit(admin, "b", "orders", "refunds")
                eventually(lambda: committed(tables)["b"] == 2, 10)
                silent.close()
                with http_receiver(port) as receiver:
                    receiver.answers = [500]
                    first: Told = {
                        "a": [("orders",)],
                        "b": [("orders", "refunds")],
                        "c": [("orders",)],
                    }
                    eventually(lambda: of_groups(receiver) == first, 40)

                    commit(admin, "a", "refunds")
                    admin.delete_groups(["b"])
                    changed: Told = {
                        "a": [*first["a"], ("orders", "refunds")],
                        "b": [*first["b"], ()],
                        "c": first["c"],
                    }
                    eventually(lambda: of_groups(receiver) == changed, 40)
                    run.send_signal(signal.SIGTERM)
                    assert run.wait(30) == 0
                    assert of_groups(receiver) == changed
            finally:
                run.kill()
    states = [event["eventType"] for event in of_run(receiver)]
    assert states == ["START", "RUNNING", "COMPLETE"]
    assert {one.headers["Authorization"] for one in receiver.posted} == {"Bearer key"}
    assert {event["inputs"][0]["namespace"] for event in of_run(receiver)} == {f"kafka://{server}"}
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    said = [json.loads(line)["message"] for line in lines]
    failures = [line for line in said if "OpenLineage at" in line]
    # No answer, perhaps nobody there, 500, and the end of the outage.
    assert 3 <= len(failures) <= 4
    assert "reachable again" in failures[-1]
    assert "key" not in log.read_text().replace("key-file", "")
