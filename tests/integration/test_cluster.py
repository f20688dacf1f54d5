"""The same command on a Spark cluster, where executors are other processes than the driver."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.admin import NewTopic

from coordinator_state.model.plain_commits import PlainCommits
from streaming.kafka.fetch import LogClient
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.clients.admin_client import admin_of
from tests.support.clients.installed_command import command_of, run_command
from tests.support.clients.odd_traffic import OddTraffic
from tests.support.eventually import Eventually
from tests.support.tables import undisturbed
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


@pytest.mark.cluster
def test_a_cluster_loses_a_worker_in_a_load_and_in_a_reload(
    tmp_path: Path, eventually: Eventually
) -> None:
    """Of groups, transactions and odd records. A new worker comes in between."""
    tables, log = tmp_path / "tables", tmp_path / "run.log"
    with (
        EmbeddedBroker(folder=tmp_path / "broker", properties=BROKER_PROPERTIES) as broker,
        standalone_cluster(tmp_path / "cluster") as cluster,
        OddTraffic(broker.bootstrap_servers) as odd,
    ):
        servers = broker.bootstrap_servers
        broker.create_offsets_topic()
        create_topics(Clients(servers))
        with closing(Traffic(servers, step_interval_s=0.05)) as traffic:
            traffic.start()
            eventually(lambda: not traffic.not_demonstrated, 120)
            traffic.stop(60)
        odd.rest()
        with closing(LogClient(servers)) as client:
            records = sum(client.high_watermarks().values())
        command = [
            *undisturbed.run_command(servers, tables, "--lag-interval", "off", "--verbose"),
            *("--max-records-per-trigger", str(records // 2 + 1), "--upkeep-interval", "off"),
            *("--master", cluster.master, "--engine", "spark"),
        ]

        def states() -> set[str]:
            return {state.state for state in TableReader(str(tables)).load_states.values()}

        def micro_batches() -> int:
            return log.read_text().count("micro-batch ")

        def staged() -> int:
            return len(list((tables / "staged").glob("*/_delta_log")))

        with _interrupted_at_the_end(command, log, cluster) as run:
            eventually(lambda: (micro_batches() and staged()) or run.poll(), 180)
            assert states() != {"current"}, "the load is over"
            cluster.kill_worker(0)
            eventually(lambda: states() == {"current"} or run.poll(), 180)
            cluster.start_worker(1)
            assert run_command("reload", "--tables", str(tables), "--all").returncode == 0
            # The rows of a micro-batch of the reload are kept, and the next one is under way.
            eventually(lambda: ("loading" in states() and staged() > 1) or run.poll(), 180)
            cluster.kill_worker(1)
            eventually(lambda: states() == {"current"} or run.poll(), 180)
        undisturbed.load(servers, tmp_path / "driver")
        of_driver = undisturbed.table_rows(tmp_path / "driver")
        found = undisturbed.table_rows(tables)
        assert list(undisturbed.differences(found, of_driver)) == []
        verified = verify_cluster(servers, str(tables), timeout_s=120)
        assert not verified.behind
        assert list(verified.differences) == []
    assert of_driver["group_members"].total() > 0
    assert of_driver["group_events"].total() > 5


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
        with _interrupted_at_the_end(command, log, cluster) as run:
            # The session is there, and nobody to run a task.
            eventually(lambda: (tmp_path / "tables").exists() or run.poll(), 120)
            cluster.start_worker(1)
            eventually(lambda: most_tasks() == ["1"] or run.poll(), 120)
            cluster.start_worker(3)
            eventually(lambda: most_tasks() == ["1", "4"] or run.poll(), 180)
            _commit(broker)
            eventually(lambda: "micro-batch " in _after_restart(log.read_text()) or run.poll(), 120)


@contextmanager
def _interrupted_at_the_end(
    command: list[str], log: Path, cluster: StandaloneCluster
) -> Iterator[subprocess.Popen[bytes]]:
    """A `run` that lasts as long as the block, and then ends after SIGINT."""
    with log.open("wb") as output:
        run = subprocess.Popen(command, stdout=output, stderr=output, env=cluster.environment)
    try:
        yield run
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
