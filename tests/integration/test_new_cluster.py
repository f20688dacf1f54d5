"""`run` on a cluster whose `__consumer_offsets` does not exist yet."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.tables.reader import TableReader
from streaming.tables.schemas import TABLES
from tests.support.brokers.commits import commit, committed, create_topic
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.live_run import START_S, live_run
from tests.support.brokers.running_query import run_to_end, started
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

MISSING = "there is no topic __consumer_offsets at "


def test_it_waits_for_the_first_group(
    fresh_broker: FreshBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = fresh_broker()
    with live_run(tmp_path, "--bootstrap-servers", broker.bootstrap_servers) as run:
        eventually(lambda: MISSING in run.log or not run.is_alive, START_S)
        run.stop(signal.SIGINT)

    def lines() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if MISSING in message]

    tables = run_to_end(broker, spark, tmp_path)
    (line,) = lines()
    assert line.endswith("; the tables stay empty")
    assert {TableReader(tables).read(table.name).num_rows for table in TABLES} == {0}

    caplog.clear()
    with started(broker, spark, tmp_path):
        eventually(lines, 120)
        create_topic(broker, "orders")
        broker.create_offsets_topic()
        commit(broker, "first", "orders", 7)
        eventually(lambda: committed(tables, "first") == [7], 120)
    (line,) = lines()
    assert line.endswith("; waiting for it")
    assert "reloading log partitions" not in caplog.text
    assert TableReader(tables).topic_id
