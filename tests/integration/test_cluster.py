"""The same command on a Spark cluster, where executors are other processes than the driver."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.admin import NewTopic

from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.standalone_cluster import standalone_cluster
from tests.support.clients.admin_client import admin_of
from tests.support.clients.installed_command import command_of, run_command
from tests.support.eventually import Eventually
from tests.support.tables.equality import check_equality

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers.fresh_broker import FreshBroker

# Seven JVMs start, on a machine that may have other things to do.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# More than one task is worth.
COMMITS, KEYS, GROUPS = 50_000, 2_000, 200
_MOST_TASKS = re.compile(r"starting the query with up to (\d+) tasks")


@pytest.mark.parametrize("engine", ["driver", "spark"])
def test_a_cluster_makes_the_same_tables(
    fresh_broker: FreshBroker, tmp_path: Path, engine: str
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    commits = PlainCommits(
        count=COMMITS, key_count=KEYS, from_ms=time.time_ns() // 1_000_000 - COMMITS
    )
    broker.load_logs(commits.logs())
    broker.wait_until_loaded()
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
        tables,
        commits.last,
        bootstrap_servers=broker.bootstrap_servers,
        groups_sampled=GROUPS,
    )
    assert equality.is_equal, equality.summary
    assert equality.records_read == COMMITS


def test_cores_that_are_registered_later_get_tasks(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    log = tmp_path / "run.log"
    with admin_of(broker) as admin:
        admin.create_topics([NewTopic("on-a-cluster", 1, 1)], wait_for_metadata=True)

    def most_tasks() -> list[str]:
        return _MOST_TASKS.findall(log.read_text())

    with standalone_cluster(tmp_path / "cluster", worker_cores=()) as cluster:
        command = command_of(
            *("run", "--bootstrap-servers", broker.bootstrap_servers),
            *("--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint")),
            *("--master", cluster.master, "--verbose"),
        )
        with log.open("wb") as output:
            run = subprocess.Popen(command, stdout=output, stderr=output, env=cluster.environment)
        try:
            # The session is there, and nobody to run a task.
            eventually(lambda: (tmp_path / "tables").exists() or run.poll(), 120)
            cluster.start_worker(1)
            eventually(lambda: most_tasks() == ["1"] or run.poll(), 120)
            cluster.start_worker(3)
            eventually(lambda: most_tasks() == ["1", "4"] or run.poll(), 180)
            _commit(broker)
            eventually(lambda: "micro-batch " in _after_restart(log.read_text()) or run.poll(), 120)
            assert run.poll() is None, log.read_text()[-2_000:]
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0, log.read_text()[-2_000:]
        finally:
            if run.poll() is None:
                run.kill()
                run.wait()


def _after_restart(log: str) -> str:
    return log.rpartition("at most 4")[2]


def _commit(broker: EmbeddedBroker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "on a cluster"})
    consumer.commit(offsets=[TopicPartition("on-a-cluster", 0, 1)], asynchronous=False)
    consumer.close()
