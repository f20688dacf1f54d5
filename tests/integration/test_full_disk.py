"""A `run` whose disks are full for many triggers: it stays, and goes on once there is room."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.small_disk import fill, make_room, small_disk
from tests.support.clients.installed_command import command_of
from tests.support.eventually import Eventually
from tests.support.tables.undisturbed import differences, load, table_rows

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

GROUP, TOPIC = "full", "orders"
FULL_S = 25
MOST_GROWTH_KIB = 200 * 1024


class Traffic:
    """Commits, one after the other."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin
        self.committed_offset = 0

    def commit(self) -> int:
        self.committed_offset += 1
        found = {TopicPartition(TOPIC, 0): OffsetAndMetadata(self.committed_offset, "", -1)}
        self._admin.alter_group_offsets(GROUP, found)
        return self.committed_offset

    def commit_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.commit()
            time.sleep(0.5)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    with small_disk(tmp_path / "tables", 32) as tables, small_disk(tmp_path / "check", 8) as check:
        yield tables, check


def newest(tables: Path) -> int:
    try:
        return max(TableReader(str(tables)).read("offset_commits")["committed_offset"].to_pylist())
    except (ConfigurationError, ValueError):  # not there yet
        return 0


def is_loaded(tables: Path, committed_offset: int) -> bool:
    return newest(tables) == committed_offset


def memory_kib(pid: int) -> int:
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    ]
    return int(line.split()[1])


def test_it_goes_on_when_there_is_room(
    fresh_broker: FreshBroker, disks: tuple[Path, Path], tmp_path: Path, eventually: Eventually
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    servers = broker.bootstrap_servers
    tables, checkpoint = disks
    log = tmp_path / "run.log"
    with (
        closing(KafkaAdminClient(bootstrap_servers=servers)) as admin,
        log.open("wb") as stderr,
        subprocess.Popen(
            command_of(
                *("run", "--bootstrap-servers", servers, "--history", "all", "--silent"),
                *("--tables", str(tables), "--checkpoint", str(checkpoint)),
                *("--lag-interval", "1 second", "--max-restarts", "1"),
            ),
            stderr=stderr,
        ) as run,
    ):
        try:
            admin.create_topics(
                {TOPIC: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
            )
            traffic = Traffic(admin)
            traffic.commit()
            eventually(lambda: newest(tables) == 1, 120)
            traffic.commit_for(5)
            before_kib = memory_kib(run.pid)
            for disk in (tables, checkpoint):
                fill(disk)
                traffic.commit_for(FULL_S)
                assert run.poll() is None, log.read_text()
                make_room(disk)
                last = traffic.commit()
                eventually(partial(is_loaded, tables, last), 120)
            assert memory_kib(run.pid) - before_kib < MOST_GROWTH_KIB
            sampled = DeltaTable(LOG_OFFSETS.path(str(tables))).to_pyarrow_table()
            columns = ["topic", "partition", "sampled_at"]
            places = [tuple(row.values()) for row in sampled.select(columns).to_pylist()]
            assert len(places) == len(set(places)) > FULL_S
        finally:
            run.terminate()
            run.wait(60)
    said = log.read_text()
    assert said.count("No space left on device") >= 2
    undisturbed = tmp_path / "undisturbed"
    load(servers, undisturbed)
    assert list(differences(table_rows(tables), table_rows(undisturbed))) == []
