"""Two `run`s on one folder of an object store, as a rolling update starts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.live_run import START_S, LiveRun, live_run
from tests.support.brokers.running_query import run_to_end
from tests.support.clients.command_line import call
from tests.support.eventually import Eventually
from tests.support.tables.undisturbed import differences, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

TABLES = "s3a://bucket/tables"


@pytest.fixture
def busy_broker(fresh_broker: FreshBroker) -> EmbeddedBroker:
    broker = fresh_broker(properties=BROKER_PROPERTIES)
    broker.create_offsets_topic()
    create_topics(Clients(broker.bootstrap_servers))
    return broker


@dataclass(frozen=True)
class Run:
    """A `run` in a process of its own, with a checkpoint of its own."""

    live: LiveRun

    @property
    def micro_batches(self) -> int:
        return self.live.log.count("micro-batch ")

    def wait_for_micro_batch(self, eventually: Eventually) -> None:
        seen = self.micro_batches
        eventually(lambda: not self.live.is_alive or self.micro_batches > seen, START_S)
        assert self.live.is_alive, self.live.log

    def assert_fenced(self) -> None:
        assert self.live.process.wait(120) == 2
        lines = self.live.log.splitlines()
        assert "another writer has taken over s3a://bucket/tables (run on " in lines[-1]
        assert lines[-1].startswith("Error: ")
        assert sum("taken over" in line for line in lines) == 1
        assert not any("Traceback" in line or "again" in line for line in lines)


@contextmanager
def running(broker: EmbeddedBroker, folder: Path, name: str) -> Iterator[Run]:
    options = (
        *("--bootstrap-servers", broker.bootstrap_servers, "--tables", TABLES, "--silent"),
        *("--checkpoint", str(folder / name), "--history", "all"),
        *("--lag-interval", "1 second", "--upkeep-interval", "3 seconds"),
    )
    with live_run(folder, *options, name=name) as live:
        yield Run(live)


def next_offsets() -> int:
    try:
        states = TableReader(TABLES).load_states.values()
    except ConfigurationError:
        return 0
    return sum(state.next_offset for state in states)


def assert_undisturbed(
    broker: EmbeddedBroker, spark: SparkSession, folder: Path, eventually: Eventually
) -> None:
    undisturbed = run_to_end(broker, spark, folder / "undisturbed", history="all")
    ends = sum(s.next_offset for s in TableReader(undisturbed).load_states.values())
    eventually(lambda: next_offsets() >= ends, 120)
    rows = table_rows(TABLES)
    assert list(differences(rows, table_rows(undisturbed))) == []
    assert rows["offset_commits"].total() > 100
    assert rows["group_events"].total() > 10
    samples = TableReader(TABLES).read(LOG_OFFSETS.name, list(LOG_OFFSETS.key)).to_pylist()
    assert len({tuple(row.values()) for row in samples}) == len(samples) > 0


@pytest.mark.usefixtures("s3")
def test_the_older_run_ends_and_the_tables_are_those_of_one(
    busy_broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, eventually: Eventually
) -> None:
    servers = busy_broker.bootstrap_servers
    with closing(Traffic(servers, step_interval_s=0.2)) as traffic:
        traffic.start()
        # Both find an empty folder, and the one that opens it last goes on.
        with (
            running(busy_broker, tmp_path, "first") as first,
            running(busy_broker, tmp_path, "second") as second,
        ):
            eventually(lambda: not (first.live.is_alive and second.live.is_alive), START_S)
            names = ["first", "second"] if second.live.is_alive else ["second", "first"]
            older, newer = (first, second) if second.live.is_alive else (second, first)
            older.assert_fenced()
            newer.wait_for_micro_batch(eventually)
            # The older one starts again on its checkpoint, as Kubernetes starts a container again.
            with running(busy_broker, tmp_path, names[0]) as again:
                newer.assert_fenced()
                again.wait_for_micro_batch(eventually)
                call("maintain", "--tables", TABLES)
                again.wait_for_micro_batch(eventually)
                traffic.stop(60)
                assert_undisturbed(busy_broker, spark, tmp_path, eventually)


@pytest.mark.usefixtures("s3")
def test_a_run_that_rests_ends_too(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    """Nothing is committed to Kafka, so that it writes nothing to the tables either."""
    with running(broker, tmp_path, "older") as older:
        eventually(lambda: older.micro_batches, START_S)
        call("redecode", "--tables", TABLES)
        assert older.live.is_alive, "an empty quarantine needs no writer"
        with running(broker, tmp_path, "newer"):
            older.assert_fenced()
