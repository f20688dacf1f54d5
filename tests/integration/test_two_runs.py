"""Two `run`s on one folder of an object store, as a rolling update starts them."""

from __future__ import annotations

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
from tests.support.brokers.live_run import START_S, LiveRun, live_run
from tests.support.clients.installed_command import run_command
from tests.support.eventually import Eventually
from tests.support.tables.undisturbed import differences, load, table_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

TABLES = "s3a://bucket/tables"


@pytest.fixture
def busy_broker(fresh_broker: FreshBroker) -> EmbeddedBroker:
    broker = fresh_broker(properties=BROKER_PROPERTIES)
    broker.create_offsets_topic()
    create_topics(Clients(broker.bootstrap_servers))
    return broker


@contextmanager
def running(servers: str, folder: Path, name: str) -> Iterator[LiveRun]:
    """A `run` into the same tables, with a log and a checkpoint of its own."""
    options = (
        *("--bootstrap-servers", servers, "--tables", TABLES, "--silent", "--history", "all"),
        *("--checkpoint", str(folder / name), "--lag-interval", "1 second"),
        *("--upkeep-interval", "3 seconds"),
    )
    with live_run(folder, *options, name=name) as run:
        yield run


def micro_batches(run: LiveRun) -> int:
    return run.log.count("micro-batch ")


def wait_for_micro_batch(run: LiveRun, eventually: Eventually) -> None:
    seen = micro_batches(run)
    eventually(lambda: not run.is_alive or micro_batches(run) > seen, START_S)
    assert run.is_alive, run.log


def assert_fenced(run: LiveRun) -> None:
    # The other one may still have to start.
    assert run.process.wait(START_S) == 2
    lines = run.log.splitlines()
    assert "another writer has taken over s3a://bucket/tables (run on " in lines[-1]
    assert lines[-1].startswith("Error: ")
    assert sum("taken over" in line for line in lines) == 1
    assert not any("Traceback" in line or "again" in line for line in lines)


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
    eventually(lambda: next_offsets() >= ends, 120)
    rows = table_rows(TABLES)
    assert list(differences(rows, table_rows(undisturbed))) == []
    assert rows["offset_commits"].total() > 100
    assert rows["group_events"].total() > 10
    samples = TableReader(TABLES).read(LOG_OFFSETS.name, list(LOG_OFFSETS.key)).to_pylist()
    assert len({tuple(row.values()) for row in samples}) == len(samples) > 0


@pytest.mark.release
@pytest.mark.usefixtures("s3")
def test_the_older_run_ends_and_the_tables_are_those_of_one(
    busy_broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    servers = busy_broker.bootstrap_servers
    with closing(Traffic(servers, step_interval_s=0.2)) as traffic:
        traffic.start()
        # Both find an empty folder, and the one that opens it last goes on.
        with (
            running(servers, tmp_path, "first") as first,
            running(servers, tmp_path, "second") as second,
        ):
            eventually(lambda: not (first.is_alive and second.is_alive), START_S)
            older, newer = (first, second) if second.is_alive else (second, first)
            assert_fenced(older)
            wait_for_micro_batch(newer, eventually)
            # The older one starts again on its checkpoint, as Kubernetes starts a container again.
            with running(servers, tmp_path, older.log_file.stem) as again:
                assert_fenced(newer)
                wait_for_micro_batch(again, eventually)
                maintained = run_command("maintain", "--tables", TABLES)
                assert maintained.returncode == 0, maintained.stderr
                wait_for_micro_batch(again, eventually)
                traffic.stop(60)
                assert_undisturbed(busy_broker, tmp_path, eventually)


@pytest.mark.usefixtures("s3")
def test_a_run_that_rests_ends_too(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually
) -> None:
    """Nothing is committed to Kafka, so that it writes nothing to the tables either."""
    servers = broker.bootstrap_servers
    with running(servers, tmp_path, "older") as older:
        eventually(lambda: micro_batches(older), START_S)
        redecoded = run_command("redecode", "--tables", TABLES)
        assert redecoded.returncode == 0, redecoded.stderr
        assert older.is_alive, "an empty quarantine needs no writer"
        with running(servers, tmp_path, "newer"):
            assert_fenced(older)
