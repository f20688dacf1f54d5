"""A `run` whose disks are full for many triggers: it stays, and goes on once there is room."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.schemas import LOG_OFFSETS
from tests.support.brokers.commits import commit, committed, create_topic
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.live_run import START_S, LiveRun, live_run
from tests.support.brokers.running_query import run_to_end
from tests.support.brokers.small_disk import fill, make_room, small_disk
from tests.support.eventually import Eventually
from tests.support.tables.undisturbed import differences, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(900)]

GROUP = TOPIC = "full-disk"
MET_TIMES = 4
"""How often `run` meets each full disk before there is room: its back-off starts it again."""
LEAST_SAMPLES = 12
MOST_GROWTH_KIB = 200 * 1024


class Traffic:
    """Commits, one after the other."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self.committed_offset = 0

    def commit(self) -> int:
        self.committed_offset += 1
        commit(self._broker, GROUP, TOPIC, self.committed_offset)
        return self.committed_offset


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    with small_disk(tmp_path / "tables", 32) as tables, small_disk(tmp_path / "check", 8) as check:
        yield tables, check


def is_loaded(tables: Path, committed_offset: int) -> bool:
    return committed(tables, GROUP) == [committed_offset]


def disk_failures(run: LiveRun) -> int:
    return run.log.count("No space left on device")


def is_refused(traffic: Traffic, run: LiveRun, failures_before: int) -> bool:
    """Commit; whether `run` has met the full disk."""
    traffic.commit()
    return disk_failures(run) > failures_before


def memory_kib(pid: int) -> int:
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    ]
    return int(line.split()[1])


def samples(tables: Path) -> list[tuple[object, ...]]:
    """The topic, partition and time of each sample."""
    sampled = DeltaTable(LOG_OFFSETS.path(str(tables))).to_pyarrow_table()
    columns = ["topic", "partition", "sampled_at"]
    return [tuple(row.values()) for row in sampled.select(columns).to_pylist()]


def test_it_goes_on_when_there_is_room(
    fresh_broker: FreshBroker,
    spark: SparkSession,
    disks: tuple[Path, Path],
    tmp_path: Path,
    eventually: Eventually,
) -> None:
    quiet_broker = fresh_broker()
    quiet_broker.create_offsets_topic()
    create_topic(quiet_broker, TOPIC)
    traffic = Traffic(quiet_broker)
    tables, checkpoint = disks
    options = (
        *("--bootstrap-servers", quiet_broker.bootstrap_servers, "--history", "all", "--silent"),
        *("--checkpoint", str(checkpoint), "--lag-interval", "1 second", "--max-restarts", "1"),
    )
    with live_run(tmp_path, *options) as run:
        traffic.commit()
        eventually(partial(is_loaded, tables, 1), START_S)
        for _ in range(5):
            eventually(partial(is_loaded, tables, traffic.commit()), 120)
        before_kib = memory_kib(run.process.pid)
        for disk in (tables, checkpoint):
            fill(disk)
            for _ in range(MET_TIMES):
                failures = disk_failures(run)
                eventually(partial(is_refused, traffic, run, failures), 120)
            assert run.is_alive, run.log
            make_room(disk)
            last = traffic.commit()
            eventually(partial(is_loaded, tables, last), 120)
        assert memory_kib(run.process.pid) - before_kib < MOST_GROWTH_KIB
        eventually(lambda: len(samples(tables)) > LEAST_SAMPLES, 120)
        run.stop()
    assert len(samples(tables)) == len(set(samples(tables)))
    undisturbed = run_to_end(quiet_broker, spark, tmp_path / "undisturbed", history="all")
    assert list(differences(table_rows(tables), table_rows(undisturbed))) == []
