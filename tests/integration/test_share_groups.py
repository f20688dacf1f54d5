"""A share group beside what Kafka's own tools show: its lag, and the records of its state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coordinator_state.insight.lag import NO_START_OFFSET
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import create_topic, produce
from tests.support.brokers.decoded_log import decoded_as_kafka_prints
from tests.support.brokers.running_query import run_to_end
from tests.support.clients.admin_client import admin_of
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.share_group import (
    SHARE_GROUP,
    described_offsets,
    read_from_start,
    share,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

Row = dict[str, Any]

TOPIC = "share-orders"
PARTITIONS = 3
# The last one stays empty.
WRITTEN = PARTITIONS - 1


def _described(broker: EmbeddedBroker) -> list[tuple[str, ...]]:
    """Topic, partition, start offset and lag, as Kafka's command prints them."""
    names = ("TOPIC", "PARTITION", "START-OFFSET", "LAG")
    return sorted(tuple(row[name] for name in names) for row in described_offsets(broker))


def _shown(view: str, tables: Path) -> list[Row]:
    rows = json_lines(call("show", view, "--tables", str(tables), "--output", "json"))
    return [row for row in rows if row["group_id"] == SHARE_GROUP]


def _as_described(rows: list[Row]) -> list[tuple[str, ...]]:
    names = ("topic", "partition", "committed_offset", "lag")
    return sorted(
        tuple("-" if row[name] is None else str(row[name]) for name in names) for row in rows
    )


def test_lag_and_state_are_those_of_kafkas_tools(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path
) -> None:
    create_topic(broker, TOPIC, PARTITIONS)
    with admin_of(broker) as admin:
        read_from_start(admin)

    def lags() -> list[Row]:
        tables = run_to_end(broker, spark, tmp_path, lag_interval="1 second")
        rows = _shown("lag", tables)
        assert _as_described(rows) == _described(broker)
        return rows

    produce(broker, TOPIC, 40, WRITTEN)
    share(broker, TOPIC, 25)
    before = lags()
    unread = 40
    produce(broker, TOPIC, unread, WRITTEN)
    rows = lags()
    read = [row for row in rows if row["lag"] is not None]
    assert _sum(rows) == _sum(before) + unread // WRITTEN * len(read)
    delivered = [row["log_end_offset"] - row["committed_offset"] - row["lag"] for row in read]
    assert any(delivered), "records after the start offset are delivered"
    (unknown,) = (row for row in rows if row["lag"] is None)
    assert (unknown["partition"], unknown["committed_offset"]) == (PARTITIONS - 1, None)
    assert unknown["time_lag_unknown"] == NO_START_OFFSET
    (status,) = _shown("status", tmp_path / "tables")
    assert (status["status"], status["lag"]) == ("OK", _sum(rows))

    records = decoded_as_kafka_prints(
        broker, SHARE_STATE_TOPIC, "group.share.ShareGroupStateMessageFormatter"
    )
    assert {record["key"]["data"]["groupId"] for record in records} == {SHARE_GROUP}
    assert {record["key"]["type"] for record in records} == {0, 1}, "a snapshot, and updates"
    batches = [b for record in records for b in record["value"]["data"]["stateBatches"]]
    assert {batch["deliveryState"] for batch in batches} >= {0, 2, 4}


def _sum(rows: list[Row]) -> int:
    return sum(row["lag"] or 0 for row in rows)
