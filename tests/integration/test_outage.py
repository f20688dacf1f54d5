"""History of a time in which `run` was stopped, of a real broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from streaming.lag.lag_history import lag_histories
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.base_maintenance import make_base
from streaming.tables.reader import TableReader
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.brokers.commits import create_topic, rows_of_group
from tests.support.brokers.running_query import run_to_end, running
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

_OUTAGE_S = 24
_RESOLUTION = timedelta(seconds=5)


@contextmanager
def _traffic(broker: EmbeddedBroker, topic: str, group: str) -> Iterator[None]:
    """Twice a second, 20 records are written, and all but the last 10 are committed."""
    stop = threading.Event()

    def write() -> None:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(servers)
        consumer = Consumer({**servers, "group.id": group, "enable.auto.commit": False})
        end = 0
        while not stop.wait(0.5):
            for _ in range(20):
                producer.produce(topic, b"v", partition=0)
            producer.flush()
            end += 20
            consumer.commit(offsets=[Place(topic, 0, end - 10)], asynchronous=False)
        consumer.close()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            yield
        finally:
            stop.set()
            writing.result()


def test_an_outage_leaves_the_history_of_a_run_without_one(
    broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    began = datetime.now(timezone.utc)
    topic, group = f"outage-{uuid4()}", f"g-{uuid4()}"
    create_topic(broker, topic, 1)

    def has_offset_since(since: datetime) -> bool:
        rows = rows_of_group(tables, "group_offsets", group)
        return any(row["commit_timestamp"] >= since for row in rows)

    def has_sample_since(since: datetime) -> bool:
        chosen = [("topic", "=", topic), ("sampled_at", ">=", since)]
        return bool(TableReader(tables).read("log_offsets", ["topic"], chosen).num_rows)

    with _traffic(broker, topic, group):
        with running(broker, spark, tmp_path, eventually) as tables:
            eventually(lambda: has_offset_since(began) and has_sample_since(began), 120)
        make_base(WriterEpoch.current(str(tables)), TableReader(tables))
        begin = datetime.now(timezone.utc)
        threading.Event().wait(_OUTAGE_S)
        end = datetime.now(timezone.utc)
        with running(broker, spark, tmp_path, eventually):
            eventually(lambda: has_offset_since(end) and has_sample_since(end), 120)
    whole = run_to_end(broker, spark, tmp_path / "whole", history="all")
    commits = rows_of_group(whole, "offset_commits", group)

    def committed_at(moment: datetime) -> int:
        return max(r["committed_offset"] for r in commits if r["record_timestamp"] <= moment)

    moments = [begin + timedelta(seconds=seconds) for seconds in range(3, _OUTAGE_S - 2, 3)]
    for moment in moments:
        reader = TableReader(tables, as_of=moment)
        (row,) = reader.own("group_offsets", ["committed_offset"], [group]).to_pylist()
        assert committed_at(moment - _RESOLUTION) <= row["committed_offset"] <= committed_at(moment)
        assert "up to 5 s earlier" in str(reader.rebuilt_from)
    # The log end of the last points is between two samples.
    history = lag_histories(TableReader(tables), [group], since=moments[0], until=end, points=9)[
        group
    ]
    # Forty records a second are written, and at most 30 of them wait for the next commit.
    for lag in history.lag[:-2]:
        assert lag is not None
        assert lag <= 30 + 40 * _RESOLUTION.total_seconds()
    for rate_per_s in history.produce_rate_per_s[1:-2]:
        assert rate_per_s is not None
        assert 20 <= rate_per_s <= 60
