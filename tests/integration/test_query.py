"""The whole query on a real broker: outages, refusals, a new cluster, a JVM that is gone.

`test_kills.py` kills it, and `test_reload.py` takes its checkpoint and its tables away.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TABLES
from tests.support.brokers.commits import commit, committed, create_topic
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.live_run import START_S, live_run
from tests.support.brokers.running_query import run_to_end, running, started
from tests.support.eventually import Eventually
from tests.support.tables.tables_folder import create_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TOPIC = "query-orders"
_MISSING = "there is no topic __consumer_offsets at "


def test_brokers_that_are_away_for_longer_than_it_waits_are_waited_for_again(
    stoppable_broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "streaming.run.supervision")
    broker, group = stoppable_broker, "query-away"

    def restarts() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.name == "streaming.run.supervision"
        ]

    create_topic(broker, TOPIC)
    commit(broker, group, TOPIC, 1)
    with running(broker, spark, tmp_path, eventually, retry_timeout="2 seconds") as tables:
        eventually(lambda: committed(tables, group) == [1], 120)
        broker.kill()
        # The second time it fails without having had contact.
        eventually(lambda: len(restarts()) >= 2, 120)
        broker.start()
        # Until then it answers a commit with NOT_COORDINATOR.
        broker.wait_until_loaded()
        commit(broker, group, TOPIC, 2)
        eventually(lambda: committed(tables, group) == [2], 120)
    assert "\n" not in restarts()[0]
    assert f"the query failed (Kafka at {broker.bootstrap_servers}: cannot " in restarts()[0]
    assert " for 2 s: " in restarts()[0]


@pytest.mark.parametrize(
    ("properties", "settings", "complaint"),
    [
        ({"cluster_id": "another"}, {}, "cluster"),
        ({"format_version": "1"}, {}, "format version 1"),
        ({}, {"semantics": "scala"}, "--semantics coordinator"),
        ({}, {"log_partitions": (50,)}, "partitions, but no 50"),
    ],
)
def test_a_run_that_does_not_fit_its_tables_is_refused(
    broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    properties: dict[str, str],
    settings: dict[str, Any],
    complaint: str,
) -> None:
    if settings:
        run_to_end(broker, spark, tmp_path)
    else:
        create_tables(tmp_path / "tables", **properties)
    with pytest.raises(ConfigurationError, match=complaint):
        run_to_end(broker, spark, tmp_path, **settings)


def test_a_new_cluster_is_waited_for(
    fresh_broker: FreshBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = fresh_broker()
    with live_run(tmp_path, "--bootstrap-servers", broker.bootstrap_servers) as run:
        eventually(lambda: _MISSING in run.log or not run.is_alive, START_S)
        run.stop(signal.SIGINT)

    def lines() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if _MISSING in message]

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


@pytest.mark.skipif(
    sys.platform != "linux", reason="the JVM to kill is found in /proc, which only Linux has"
)
@pytest.mark.parametrize("least_version", [1, 2], ids=["before the query", "in the query"])
def test_a_query_without_its_jvm_says_so_and_ends(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually, least_version: int
) -> None:
    """Version 1 of `load_progress` is the fence; the first micro-batch writes the next one."""
    with live_run(tmp_path, "--bootstrap-servers", broker.bootstrap_servers) as run:
        eventually(lambda: _version(tmp_path / "tables") >= least_version, START_S)
        os.kill(_jvm_of(run.process.pid), signal.SIGKILL)
        assert run.process.wait(120) == 2, run.log
    assert run.log.splitlines()[-1].startswith("Error: Spark's JVM exited during the query")
    assert "SPARK_DRIVER_MEMORY" in run.log


def _version(tables: Path) -> int:
    try:
        return TableReader(str(tables)).version
    except ConfigurationError:  # they are being created
        return 0


def _jvm_of(session: int) -> int:
    """The process named java of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        if name == "java" and int(rest.split()[3]) == session:
            return int(stat.parent.name)
    raise AssertionError("no JVM")
