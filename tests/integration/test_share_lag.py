"""The lag of a share group, beside the LAG column of Kafka's own command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.admin import NewTopic

from coordinator_state.insight.lag import NO_START_OFFSET
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.clients.admin_client import admin_of
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.installed_command import run_command
from tests.support.clients.share_group import (
    SHARE_GROUP,
    described_offsets,
    read_from_start,
    share,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

Row = dict[str, Any]

TOPIC = "orders"
PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("share-lag")) as started:
        started.create_offsets_topic()
        with admin_of(started) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], wait_for_metadata=True)
            read_from_start(admin)
        yield started


def _produce(broker: EmbeddedBroker, records: int) -> None:
    """Write records to all partitions but the last."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(records):
        producer.produce(TOPIC, str(number).encode(), partition=number % (PARTITIONS - 1))
    producer.flush(30)


def _described(broker: EmbeddedBroker) -> list[tuple[str, ...]]:
    """Topic, partition, start offset and lag, as Kafka's command prints them."""
    names = ("TOPIC", "PARTITION", "START-OFFSET", "LAG")
    return sorted(tuple(row[name] for name in names) for row in described_offsets(broker))


def _follow(broker: EmbeddedBroker, tables: Path) -> None:
    done = run_command(
        *("run", "--bootstrap-servers", broker.bootstrap_servers, "--tables", str(tables)),
        "--available-now",
    )
    assert done.returncode == 0, done.stderr


def _lags(tables: Path) -> list[Row]:
    return json_lines(call("show", "lag", "--tables", str(tables), "--output", "json"))


def _as_described(rows: list[Row]) -> list[tuple[str, ...]]:
    names = ("topic", "partition", "committed_offset", "lag")
    return sorted(
        tuple("-" if row[name] is None else str(row[name]) for name in names) for row in rows
    )


def test_the_lag_is_that_of_kafkas_command(broker: EmbeddedBroker, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    for acknowledgements, unread in ((25, 8), (30, 40)):
        _produce(broker, 40)
        share(broker, TOPIC, acknowledgements)
        _follow(broker, tables)
        before = _lags(tables)
        assert _as_described(before) == _described(broker)
        _produce(broker, unread)
        _follow(broker, tables)
        rows = _lags(tables)
        assert _as_described(rows) == _described(broker)
        assert {row["group_id"] for row in rows} == {SHARE_GROUP}
        read = [row for row in rows if row["lag"] is not None]
        in_each = unread // (PARTITIONS - 1)
        assert _sum(read) == _sum(before) + in_each * len(read)
        delivered = [row["log_end_offset"] - row["committed_offset"] - row["lag"] for row in read]
        assert any(delivered), "records after the start offset are delivered"
    (unknown,) = (row for row in rows if row["lag"] is None)
    assert (unknown["partition"], unknown["committed_offset"]) == (PARTITIONS - 1, None)
    assert unknown["time_lag_unknown"] == NO_START_OFFSET
    (status,) = json_lines(call("show", "status", "--tables", str(tables), "--output", "json"))
    assert (status["status"], status["lag"]) == ("OK", _sum(rows))


def _sum(rows: list[Row]) -> int:
    return sum(row["lag"] or 0 for row in rows)
