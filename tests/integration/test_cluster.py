"""The same command on a Spark cluster, where executors are other processes than the driver."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import commit, create_topic
from tests.support.brokers.live_run import live_run
from tests.support.brokers.standalone_cluster import standalone_cluster
from tests.support.clients.installed_command import run_command
from tests.support.eventually import Eventually
from tests.support.tables.equality import check_equality

# Seven JVMs start, on a machine that may have other things to do.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

GROUPS = 200
_MOST_TASKS = re.compile(r"starting the query with up to (\d+) tasks")


@pytest.mark.parametrize("engine", ["driver", "spark"])
def test_a_cluster_makes_the_same_tables(
    loaded_broker: tuple[EmbeddedBroker, PlainCommits], tmp_path: Path, engine: str
) -> None:
    broker, commits = loaded_broker
    tables = str(tmp_path / "tables")
    with standalone_cluster(tmp_path / "cluster") as cluster:
        done = run_command(
            *("run", "--bootstrap-servers", broker.bootstrap_servers, "--tables", tables),
            *("--checkpoint", str(tmp_path / "checkpoint"), "--available-now"),
            *("--master", cluster.master, "--engine", engine, "--verbose"),
            env=cluster.environment,
        )
        assert done.returncode == 0, done.stderr
        assert _MOST_TASKS.findall(done.stderr) == ["2"]
        assert len(cluster.files_of_executors("coordinator_state_program.zip")) == 2
    equality = check_equality(
        tables, commits.last, bootstrap_servers=broker.bootstrap_servers, groups_sampled=GROUPS
    )
    assert equality.is_equal, equality.summary
    assert equality.records_read == commits.count


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
