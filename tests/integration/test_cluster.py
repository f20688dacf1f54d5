"""The same command on a Spark cluster, where executors are other processes than the driver."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from streaming.kafka.fetch import LogClient
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.live_run import live_run
from tests.support.brokers.running_query import run_to_end
from tests.support.brokers.standalone_cluster import standalone_cluster
from tests.support.clients.command_line import call
from tests.support.clients.odd_traffic import OddTraffic
from tests.support.eventually import Eventually
from tests.support.tables import undisturbed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Seven JVMs start, on a machine that may have other things to do.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

RECORDS = 500
_MOST_TASKS = re.compile(r"starting the query with up to (\d+) tasks")


@pytest.mark.cluster
def test_a_cluster_loses_a_worker_in_a_load_and_in_a_reload(
    spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    """Of groups, transactions and odd records. A new worker comes in between."""
    tables = tmp_path / "tables"
    with (
        EmbeddedBroker(folder=tmp_path / "broker", properties=BROKER_PROPERTIES) as broker,
        standalone_cluster(tmp_path / "cluster") as cluster,
        OddTraffic(broker.bootstrap_servers) as odd,
    ):
        servers = broker.bootstrap_servers
        broker.create_offsets_topic()
        create_topics(Clients(servers))
        with (
            closing(Traffic(servers, step_interval_s=0.05)) as traffic,
            closing(LogClient(servers)) as client,
        ):
            traffic.start()
            eventually(lambda: sum(client.high_watermarks().values()) > RECORDS, 120)
            traffic.stop(60)
            odd.rest()
            records = sum(client.high_watermarks().values())
        options = (
            *("--bootstrap-servers", servers, "--history", "all", "--lag-interval", "off"),
            *("--max-records-per-trigger", str(records // 2 + 1), "--upkeep-interval", "off"),
            *("--master", cluster.master, "--engine", "spark", "--silent", "--verbose"),
        )

        def states() -> set[str]:
            return {state.state for state in TableReader(str(tables)).load_states.values()}

        def staged() -> int:
            return len(list((tables / "staged").glob("*/_delta_log")))

        with live_run(tmp_path, *options, env=cluster.environment) as run:

            def wait_for(look: Callable[[], object]) -> None:
                eventually(lambda: look() or not run.is_alive, 240)

            wait_for(lambda: "micro-batch " in run.log and staged())
            assert states() != {"current"}, "the load is over"
            cluster.kill_worker(0)
            wait_for(lambda: states() == {"current"})
            cluster.start_worker(1)
            call("reload", "--tables", str(tables), "--all")
            # The rows of a micro-batch of the reload are kept, and the next one is under way.
            wait_for(lambda: "loading" in states() and staged() > 1)
            cluster.kill_worker(1)
            wait_for(lambda: states() == {"current"})
            run.stop()
            assert _MOST_TASKS.findall(run.log)[0] == "2"
        # A new worker came between the two that were killed: each had the program.
        assert len(cluster.files_of_executors("coordinator_state_program.zip")) >= 2
        driver = run_to_end(broker, spark, tmp_path / "driver", engine="driver", history="all")
        of_driver = undisturbed.table_rows(driver)
        assert list(undisturbed.differences(undisturbed.table_rows(tables), of_driver)) == []
    assert of_driver["group_members"].total() > 0
    assert of_driver["group_events"].total() > 5


@pytest.mark.release
def test_cores_that_are_registered_later_get_tasks(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    create_topic(broker, "on-a-cluster")
    with standalone_cluster(tmp_path / "cluster", worker_cores=()) as cluster:
        options = ("--bootstrap-servers", broker.bootstrap_servers, "--master", cluster.master)
        with live_run(tmp_path, *options, "--verbose", env=cluster.environment) as run:

            def wait_for(look: Callable[[], object]) -> None:
                eventually(lambda: look() or not run.is_alive, 240)

            # The session is there, and nobody to run a task.
            wait_for((tmp_path / "tables").exists)
            cluster.start_worker(1)
            wait_for(lambda: _MOST_TASKS.findall(run.log) == ["1"])
            cluster.start_worker(3)
            wait_for(lambda: _MOST_TASKS.findall(run.log) == ["1", "4"])
            commit(broker, "on a cluster", "on-a-cluster", 1)
            wait_for(lambda: "micro-batch " in _after_restart(run.log))
            run.stop()


def _after_restart(log: str) -> str:
    return log.rpartition("at most 4")[2]
