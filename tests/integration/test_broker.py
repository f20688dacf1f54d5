"""The embedded broker: starts, keeps offsets over restarts and crashes, serves a replaced log."""

from __future__ import annotations

import socket
from pathlib import Path
from uuid import uuid4

import pytest

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.broker import embedded as broker_module
from streaming.local.broker.configuration import HOST, free_port
from streaming.local.broker.embedded import BrokerError, EmbeddedBroker
from tests.support.brokers.commits import admin_of, commit, create_topic
from tests.support.brokers.fresh_broker import FreshBroker


def committed_offsets(broker: EmbeddedBroker, group: str) -> dict[tuple[str, int], int]:
    """What the broker answers to OffsetFetch."""
    broker.wait_until_loaded()
    with admin_of(broker) as admin:
        offsets = admin.list_group_offsets(group)[group]
    return {(at.topic, at.partition): committed.offset for at, committed in offsets.items()}


@pytest.mark.long
def test_offsets_outlive_a_restart_and_a_crash(stoppable_broker: EmbeddedBroker) -> None:
    broker, group = stoppable_broker, f"shop-{uuid4()}"
    where = broker.bootstrap_servers
    create_topic(broker, "orders")
    commit(broker, group, "orders", 7)
    assert committed_offsets(broker, group) == {("orders", 0): 7}
    with pytest.raises(BrokerError, match="is already running"):
        broker.start()
    with pytest.raises(BrokerError, match="stop it before"):
        broker.replace_log(0, b"")

    broker.restart()
    assert broker.bootstrap_servers == where
    assert committed_offsets(broker, group) == {("orders", 0): 7}
    summaries = {summary.log_partition: summary for summary in broker.load_summaries()}
    assert sorted(summaries) == list(range(50))
    assert summaries[partition_for(group)].records

    broker.kill()
    assert not broker.is_running
    with pytest.raises(BrokerError, match="__consumer_offsets-50 does not exist"):
        broker.replace_log(50, b"")
    broker.start()
    assert committed_offsets(broker, group) == {("orders", 0): 7}


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server((HOST, free_port())) as taken:
        port = taken.getsockname()[1]
        broker = EmbeddedBroker(folder=tmp_path, port=port)
        with pytest.raises(ConfigurationError, match=f"port {port} on {HOST} is in use"):
            broker.start()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
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
    broker.close()
    assert not broker.folder.exists()


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    broker = EmbeddedBroker(folder=tmp_path, properties={"log.segment.bytes": "many"})
    with pytest.raises(BrokerError, match=r"Invalid value many for configuration log\.segment"):
        broker.start()
    assert not broker.is_running
