"""The embedded broker: starts, keeps offsets over restarts and crashes, serves a replaced log."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.broker import embedded as broker_module
from streaming.local.broker.configuration import HOST, free_port
from streaming.local.broker.embedded import BrokerError, EmbeddedBroker
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.clients.admin_client import admin_of
from tests.support.eventually import Eventually
from tests.support.logs.logs import Event, offset_key, offset_value, segment

ABORT, COMMIT = 0, 1
REPLACED = "replaced"

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
def test_offsets_outlive_a_restart_and_a_crash(stoppable_broker: EmbeddedBroker) -> None:
    broker, group = stoppable_broker, f"shop-{uuid4()}"
    where = broker.bootstrap_servers
    create_topic(broker, "orders")
    commit(broker, group, "orders", 7)
    assert committed_offsets(broker, group) == {("orders", 0): 7}

    broker.restart()
    assert broker.bootstrap_servers == where
    assert committed_offsets(broker, group) == {("orders", 0): 7}
    summaries = {summary.log_partition: summary for summary in broker.load_summaries()}
    assert sorted(summaries) == list(range(50))
    loaded = summaries[partition_for(group)]
    assert loaded.records is not None
    assert loaded.records >= 1
    assert loaded.size_bytes is not None
    assert loaded.size_bytes > 60

    broker.kill()
    assert not broker.is_running
    assert not accepts_connections(where)
    broker.start()
    assert committed_offsets(broker, group) == {("orders", 0): 7}


def committing(topic: str, offset: int | None, *, producer_id: int = -1, gap: int = 0) -> Event:
    """A commit of the group `replaced`, or a tombstone where the offset is None."""
    # Far in the future, so that the broker does not expire it.
    fields = {"commitTimestamp": 4_000_000_000_000}
    return Event(
        key=offset_key(REPLACED, topic, 0),
        value=None if offset is None else offset_value(offset, **fields),
        producer_id=producer_id,
        is_transactional=producer_id != -1,
        gap=gap,
    )


@pytest.mark.long
def test_a_replaced_log_is_what_the_broker_serves(stoppable_broker: EmbeddedBroker) -> None:
    broker = stoppable_broker
    log_partition = partition_for(REPLACED)
    log, _ = segment(
        [
            *(committing("plain", offset) for offset in (1, 2)),
            *(committing("deleted", offset) for offset in (3, None)),
            committing("committed", 4, producer_id=1001),
            committing("aborted", 5, producer_id=1002),
            committing("hanging", 6),
            committing("hanging", 7, producer_id=1003),
            # As the log cleaner leaves it.
            Event(producer_id=1001, control_type=COMMIT, gap=100),
            Event(producer_id=1002, control_type=ABORT),
            committing("plain", 8),
        ]
    )

    with pytest.raises(BrokerError, match="stop it before"):
        broker.replace_log(log_partition, log)
    broker.stop()
    with pytest.raises(BrokerError, match="__consumer_offsets-50 does not exist"):
        broker.replace_log(50, log)
    broker.replace_log(log_partition, log)
    broker.start()
    # The broker shows an offset with a pending transactional one as it was before.
    assert committed_offsets(broker, REPLACED) == {
        ("plain", 0): 8,
        ("committed", 0): 4,
        ("hanging", 0): 6,
    }
    summaries = {summary.log_partition: summary for summary in broker.load_summaries()}
    assert summaries[log_partition].records == 11

    later, _ = segment([committing("later", 9, gap=5000)])
    broker.stop()
    broker.replace_log(log_partition, later, log_start_offset=5000)
    broker.start()
    assert committed_offsets(broker, REPLACED) == {("later", 0): 9}


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
    eventually(lambda: not accepts_connections(where), 120)


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
