"""Two `run`s on one folder of an object store, as a rolling update starts them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.object_store import served_object_store
from tests.support.clients.installed_command import command_of, run_command
from tests.support.eventually import Eventually
from tests.support.tables.undisturbed import differences, load, table_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

TABLES = "s3a://bucket/tables"
_START_S = 300.0


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with served_object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.fixture
def busy_broker(fresh_broker: FreshBroker) -> EmbeddedBroker:
    broker = fresh_broker(properties=BROKER_PROPERTIES)
    broker.create_offsets_topic()
    create_topics(Clients(broker.bootstrap_servers))
    return broker


class Run:
    """A `run` in a process of its own, with a checkpoint of its own."""

    def __init__(self, servers: str, folder: Path, name: str) -> None:
        self.log = folder / f"{name}.log"
        command = command_of(
            *("run", "--bootstrap-servers", servers, "--tables", TABLES, "--silent"),
            *("--checkpoint", str(folder / name), "--history", "all"),
            *("--lag-interval", "1 second", "--upkeep-interval", "3 seconds"),
        )
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stderr=log, env=dict(os.environ))

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def micro_batches(self) -> int:
        return self.log.read_text().count("micro-batch ")

    def wait_for_micro_batch(self, eventually: Eventually) -> None:
        seen = self.micro_batches
        eventually(lambda: not self.is_alive or self.micro_batches > seen, _START_S)
        assert self.is_alive, self.log.read_text()

    def assert_fenced(self) -> None:
        assert self.process.wait(60) == 2
        lines = self.log.read_text().splitlines()
        assert "another writer has taken over s3a://bucket/tables (run on " in lines[-1]
        assert lines[-1].startswith("Error: ")
        assert sum("taken over" in line for line in lines) == 1
        assert not any("Traceback" in line or "again" in line for line in lines)


@contextmanager
def running(*runs: Run) -> Iterator[None]:
    try:
        yield
    finally:
        for run in runs:
            run.process.send_signal(signal.SIGINT)
        for run in runs:
            run.process.wait(60)


def next_offsets() -> int:
    try:
        states = TableReader(TABLES).load_states.values()
    except ConfigurationError:
        return 0
    return sum(state.next_offset for state in states)


def assert_undisturbed(broker: EmbeddedBroker, folder: Path, eventually: Eventually) -> None:
    undisturbed = folder / "undisturbed"
    load(broker.bootstrap_servers, undisturbed)
    ends = sum(s.next_offset for s in TableReader(undisturbed).load_states.values())
    eventually(lambda: next_offsets() >= ends, 60)
    found = table_rows(TABLES)
    assert list(differences(found, table_rows(undisturbed))) == []
    assert found["offset_commits"].total() > 100
    assert found["group_events"].total() > 10
    samples = TableReader(TABLES).read(LOG_OFFSETS.name, list(LOG_OFFSETS.key)).to_pylist()
    assert len({tuple(row.values()) for row in samples}) == len(samples) > 0


@pytest.mark.usefixtures("s3")
def test_the_older_run_ends_and_the_tables_are_those_of_one(
    busy_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers = busy_broker.bootstrap_servers
    with closing(Traffic(servers, step_interval_s=0.2)) as traffic:
        traffic.start()
        # Both find an empty folder, and the one that opens it last goes on.
        first, second = (Run(servers, tmp_path, name) for name in ("first", "second"))
        with running(first, second):
            eventually(lambda: not (first.is_alive and second.is_alive), _START_S)
            older, newer = (first, second) if second.is_alive else (second, first)
            older.assert_fenced()
            newer.wait_for_micro_batch(eventually)
            # The older one starts again on its checkpoint, as Kubernetes starts a container again.
            again = Run(servers, tmp_path, older.log.stem)
            with running(again):
                newer.assert_fenced()
                again.wait_for_micro_batch(eventually)
                maintained = run_command("maintain", "--tables", TABLES)
                assert maintained.returncode == 0, maintained.stderr
                again.wait_for_micro_batch(eventually)
                traffic.stop(60)
                assert_undisturbed(busy_broker, tmp_path, eventually)


@pytest.mark.usefixtures("s3")
def test_a_run_that_rests_ends_too(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    """Nothing is committed to Kafka, so that it writes nothing to the tables either."""
    older = Run(broker.bootstrap_servers, tmp_path, "older")
    with running(older):
        eventually(lambda: older.micro_batches, _START_S)
        redecoded = run_command("redecode", "--tables", TABLES)
        assert redecoded.returncode == 0, redecoded.stderr
        assert older.is_alive, "an empty quarantine needs no writer"
        newer = Run(broker.bootstrap_servers, tmp_path, "newer")
        with running(newer):
            older.assert_fenced()
