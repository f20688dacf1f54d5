"""The log client against real brokers: what it reads, what it waits out, what it refuses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import closing

import pytest

from coordinator_state.log.log_decoder import OffsetRange, decode_record_set
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError, LogTruncated
from streaming.kafka.fetch import LogClient
from streaming.local.broker.configuration import HOST
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import admin_of, commit, create_topic
from tests.support.eventually import Eventually
from tests.support.logs.logs import offset_key, offset_value


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[LogClient]:
    with closing(LogClient(broker.bootstrap_servers)) as client:
        yield client


def commit_to_log(broker: EmbeddedBroker, group_id: str, *offsets: int) -> int:
    """Commit offsets of a group one after the other; return its log partition."""
    create_topic(broker, "fetched")
    commit(broker, group_id, "fetched", *offsets)
    return partition_for(group_id)


def test_the_log_is_described(broker: EmbeddedBroker, client: LogClient) -> None:
    description = client.describe()
    assert {node_id for node_id, _ in description.leaders.values()} == {1}
    assert set(client.earliest_offsets()) == set(client.high_watermarks()) == set(range(50))
    epochs = {p: epoch for p, (_, epoch) in description.leaders.items()}
    assert {p: end.leader_epoch for p, end in client.log_ends().items()} == epochs
    with admin_of(broker) as admin:
        assert description.cluster_id == admin.describe_cluster()["cluster_id"]


def test_the_first_batch_comes_whole_whatever_the_limit(
    broker: EmbeddedBroker, client: LogClient
) -> None:
    log_partition = commit_to_log(broker, "fetch-limit", 1, 2, 3)
    position = client.high_watermarks()[log_partition] - 3
    (answer,) = client.fetch({log_partition: position}, max_bytes=1, max_partition_bytes=1).values()
    decoded = decode_record_set(
        answer.records,
        OffsetRange(log_partition=log_partition, from_offset=position, to_offset=position + 3),
    )
    assert decoded.next_offset == position + 1


def test_a_fetch_at_the_end_waits_for_the_next_record(
    broker: EmbeddedBroker, client: LogClient
) -> None:
    log_partition = commit_to_log(broker, "fetch-wait", 1)
    position = {log_partition: client.high_watermarks()[log_partition]}
    (answer,) = client.fetch(position, max_wait_ms=300).values()
    assert not answer.records
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(client.fetch, position, max_wait_ms=120_000)
        # A fetch that does not wait has its answer by now.
        with pytest.raises(StillWaiting):
            waiting.result(timeout=0.5)
        commit_to_log(broker, "fetch-wait", 2)
        (answer,) = waiting.result().values()
    assert answer.records


def test_a_position_behind_the_end_is_a_truncated_log(
    broker: EmbeddedBroker, client: LogClient
) -> None:
    log_partition = commit_to_log(broker, "fetch-truncated", 1)
    end = client.high_watermarks()[log_partition]
    with pytest.raises(LogTruncated, match=f"offsets {end} to {end + 6} are lost") as truncated:
        client.fetch({log_partition: end + 7})
    assert truncated.value.log_partition == log_partition


def test_a_topic_that_is_not_there_is_refused(broker: EmbeddedBroker) -> None:
    with (
        closing(LogClient(broker.bootstrap_servers, topic="nowhere")) as client,
        pytest.raises(ConfigurationError, match=f"no topic nowhere at {HOST}"),
    ):
        client.describe()


def test_a_partition_that_is_not_there_is_refused(client: LogClient) -> None:
    with pytest.raises(ConfigurationError, match="has no partition 99"):
        client.fetch({99: 0})


def test_a_topic_that_was_created_again_is_noticed(
    broker: EmbeddedBroker, eventually: Eventually
) -> None:
    with (
        admin_of(broker) as admin,
        closing(LogClient(broker.bootstrap_servers, topic="recreated")) as client,
    ):
        create_topic(broker, "recreated")
        assert client.high_watermarks() == {0: 0}
        admin.delete_topics(["recreated"])
        eventually(lambda: "recreated" not in admin.list_topics(), 120)
        create_topic(broker, "recreated")
        with pytest.raises(ConfigurationError, match="was deleted and created again"):
            client.fetch({0: 0}, max_wait_ms=0)


@pytest.mark.parametrize("address", ["nonsense", "host:port:9092", "localhost:http"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        LogClient(address, first_contact_timeout_ms=100).describe()


@pytest.mark.long
def test_what_passes_by_itself_is_waited_out(
    stoppable_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = stoppable_broker
    log_partition = commit_to_log(broker, "restarted", 1)
    with (
        closing(LogClient(broker.bootstrap_servers)) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        before = client.high_watermarks()
        seen = client.log_ends()
        first = client.fetch({log_partition: 0})[log_partition]
        client.expect(seen)
        with caplog.at_level(logging.WARNING):
            broker.kill()
            waiting = thread.submit(client.high_watermarks)
            broker.start()
            assert waiting.result() == before
        outages = [record for record in caplog.records if record.name == "streaming.kafka.outage"]
        assert outages
        assert all("\n" not in record.getMessage() for record in outages)
        assert client.fetch({log_partition: 0})[log_partition] == first
        assert client.describe().leaders[log_partition][1] > seen[log_partition].leader_epoch
        assert "reachable again after" in outages[-1].getMessage()
        client.expect({log_partition: seen[log_partition]._replace(offset=10**6)})
        with pytest.raises(LogTruncated, match=f"truncated to {before[log_partition]}"):
            client.high_watermarks()
        client.expect({})

        broker.stop()
        segment = write_record_batch(7, [(0, 0, offset_key("g", "t", 0), offset_value(1))])
        broker.replace_log(log_partition, segment, log_start_offset=7)
        broker.start()
        with pytest.raises(LogTruncated, match="offsets 0 to 6 are lost, the log starts at 7"):
            client.fetch({log_partition: 0})

    with closing(LogClient(broker.bootstrap_servers, retry_timeout_ms=1_000)) as client:
        client.high_watermarks()
        broker.kill()
        with pytest.raises(TimeoutError, match="cannot list the high watermarks, retried for 1 s"):
            client.high_watermarks()


def test_closing_ends_the_thread(broker: EmbeddedBroker) -> None:
    before = set(threading.enumerate())
    client = LogClient(broker.bootstrap_servers)
    client.describe()
    (own,) = set(threading.enumerate()) - before
    client.close()
    assert not own.is_alive()
