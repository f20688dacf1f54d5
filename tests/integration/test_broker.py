"""The embedded broker: starts, keeps offsets over restarts and crashes, serves a replaced log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key, encode_value
from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.broker import embedded as broker_module
from streaming.local.broker.configuration import HOST, free_port
from streaming.local.broker.embedded import BrokerError, EmbeddedBroker

if TYPE_CHECKING:
    from tests.support.eventually import Eventually
from tests.support.brokers.fresh_broker import FreshBroker

ABORT, COMMIT = 0, 1
OFFSET_COMMIT = RECORD_TYPES[1]

# Starts a broker, says where, and stays until it is ended.
OWNER = """
import sys, threading
from streaming.local.broker.embedded import EmbeddedBroker
broker = EmbeddedBroker(folder=sys.argv[1])
broker.start()
sys.stdout.write(broker.bootstrap_servers + "\\n")
sys.stdout.flush()
threading.Event().wait()
"""


@contextmanager
def admin_of(broker: EmbeddedBroker) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        yield admin
    finally:
        admin.close()


def committed_offsets(broker: EmbeddedBroker, group: str) -> dict[tuple[str, int], int]:
    """What the broker answers to OffsetFetch."""
    broker.wait_until_loaded()
    with admin_of(broker) as admin:
        offsets = admin.list_group_offsets(group)[group]
    return {(at.topic, at.partition): committed.offset for at, committed in offsets.items()}


def accepts_connections(bootstrap_servers: str) -> bool:
    host, _, port = bootstrap_servers.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.long
def test_offsets_outlive_a_restart_and_a_crash(fresh_broker: FreshBroker) -> None:
    broker = fresh_broker()
    where = broker.bootstrap_servers
    broker.create_offsets_topic()
    with admin_of(broker) as admin:
        admin.create_topics([NewTopic("orders", 1, 1)], wait_for_metadata=True)
        admin.alter_group_offsets(
            "shop", {TopicPartition("orders", 0): OffsetAndMetadata(7, "seven", -1)}
        )
    assert committed_offsets(broker, "shop") == {("orders", 0): 7}

    broker.restart()
    assert broker.bootstrap_servers == where
    assert committed_offsets(broker, "shop") == {("orders", 0): 7}
    summaries = {summary.log_partition: summary for summary in broker.load_summaries()}
    assert sorted(summaries) == list(range(50))
    loaded = summaries[partition_for("shop")]
    assert loaded.records == 1
    assert loaded.size_bytes is not None
    assert loaded.size_bytes > 60

    broker.kill()
    assert not broker.is_running
    assert not accepts_connections(where)
    broker.start()
    assert committed_offsets(broker, "shop") == {("orders", 0): 7}


class OffsetsLog:
    """A log partition of `__consumer_offsets`, written batch by batch."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.segment = b""
        self.next_offset = 0

    def commit(self, topic: str, offset: int | None, *, producer_id: int = -1) -> None:
        """Append a commit, or a tombstone where the offset is None."""
        key = encode_key(OFFSET_COMMIT, {"group": self.group, "topic": topic, "partition": 0})
        fields = {
            "offset": offset,
            "leaderEpoch": -1,
            "metadata": "",
            # Far in the future, so that the broker does not expire it.
            "commitTimestamp": 4_000_000_000_000,
        }
        value = None if offset is None else encode_value(OFFSET_COMMIT, 3, fields)
        is_transactional = producer_id != -1
        self.segment += write_record_batch(
            self.next_offset,
            [(0, 4_000_000_000_000, key, value)],
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        self.next_offset += 1

    def end_transaction(self, producer_id: int, control_type: int) -> None:
        self.segment += write_control_batch(self.next_offset, producer_id, 0, control_type)
        self.next_offset += 1


@pytest.mark.long
def test_a_replaced_log_is_what_the_broker_serves(fresh_broker: FreshBroker) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    log = OffsetsLog("replaced")
    log_partition = partition_for(log.group)
    log.commit("plain", 1)
    log.commit("plain", 2)
    log.commit("deleted", 3)
    log.commit("deleted", None)
    log.commit("committed", 4, producer_id=1001)
    log.commit("aborted", 5, producer_id=1002)
    log.commit("hanging", 6)
    log.commit("hanging", 7, producer_id=1003)
    log.next_offset += 100  # as the log cleaner leaves it
    log.end_transaction(1001, COMMIT)
    log.end_transaction(1002, ABORT)
    log.commit("plain", 8)

    with pytest.raises(BrokerError, match="stop it before"):
        broker.replace_log(log_partition, log.segment)
    broker.stop()
    with pytest.raises(BrokerError, match="__consumer_offsets-50 does not exist"):
        broker.replace_log(50, log.segment)
    broker.replace_log(log_partition, log.segment)
    broker.start()
    # The broker shows an offset with a pending transactional one as it was before.
    assert committed_offsets(broker, log.group) == {
        ("plain", 0): 8,
        ("committed", 0): 4,
        ("hanging", 0): 6,
    }
    summaries = {summary.log_partition: summary for summary in broker.load_summaries()}
    assert summaries[log_partition].records == 11

    again = OffsetsLog(log.group)
    again.next_offset = 5000
    again.commit("later", 9)
    broker.stop()
    broker.replace_log(log_partition, again.segment, log_start_offset=5000)
    broker.start()
    assert committed_offsets(broker, log.group) == {("later", 0): 9}


@pytest.mark.long
def test_the_broker_ends_when_its_owner_is_killed(
    tmp_path: Path, repository: Path, eventually: Eventually
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    ) as owner:
        assert owner.stdout is not None
        where = owner.stdout.readline().strip()
        assert accepts_connections(where)
        owner.kill()
    eventually(lambda: not accepts_connections(where))


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server((HOST, free_port())) as taken:
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(folder=tmp_path, port=port)
        with pytest.raises(ConfigurationError, match=f"port {port} on {HOST} is in use"):
            broker.start()
    assert list(tmp_path.iterdir()) == []


def test_a_port_lost_to_a_race_is_given_up(
    fresh_broker: FreshBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first choice was free when it was looked at, and is not when the JVM binds it."""
    with socket.create_server((HOST, free_port())) as taken:
        lost = taken.getsockname()[1]
        choices = iter([lost])
        monkeypatch.setattr(
            broker_module,
            "free_port",
            lambda exclude=(): free_port(exclude) if exclude else next(choices, free_port()),
        )
        broker = fresh_broker(folder=None)
        assert broker.bootstrap_servers != f"{HOST}:{lost}"
        assert accepts_connections(broker.bootstrap_servers)
    broker.close()
    assert not broker.folder.exists()
    assert not accepts_connections(broker.bootstrap_servers)


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    broker = EmbeddedBroker(folder=tmp_path, properties={"log.segment.bytes": "many"})
    with pytest.raises(BrokerError, match=r"Invalid value many for configuration log\.segment"):
        broker.start()
    assert not broker.is_running


def test_the_shared_broker_is_ready(broker: EmbeddedBroker) -> None:
    assert broker.is_running
    assert committed_offsets(broker, "nobody") == {}
    with pytest.raises(BrokerError, match="is already running"):
        broker.start()
