"""Readers of every kind beside a run that writes: no error, and no snapshot that is torn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.tables import delta
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    Table,
)
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.live_run import START_S, live_run
from tests.support.eventually import Eventually
from tests.support.tables.loader_tables import Row, differences, rows_of
from tests.support.tables.status_changes import contradictions

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SNAPSHOTS = 8
WITH_CHANGE_DATA_FEED = (GROUP_OFFSETS, GROUP_MEMBERS)
TORN = """
    SELECT (SELECT count(*) FROM group_offsets JOIN load_progress USING (log_partition)
            WHERE record_offset >= next_offset)
         + (SELECT count(*) FROM pending_offsets JOIN load_progress USING (log_partition)
            WHERE record_offset >= next_offset)
         + (SELECT count(*) FROM groups g JOIN load_progress USING (log_partition)
            WHERE record_offset >= next_offset OR member_count <>
                  (SELECT count(*) FROM group_members m
                   WHERE m.log_partition = g.log_partition AND m.group_id = g.group_id))
"""
"""How many rows of state are ahead of load_progress, or do not fit one another."""


@dataclass
class Readers:
    """Threads that read again and again until they are told to stop; each keeps what it saw."""

    tables: str
    stop: threading.Event = field(default_factory=threading.Event)
    snapshots: dict[int, dict[str, list[Row]]] = field(default_factory=dict)
    torn: list[int] = field(default_factory=list)
    rounds: dict[str, int] = field(default_factory=dict)

    def again(self, read: Callable[[], None]) -> None:
        while not self.stop.is_set():
            read()
            self.rounds[read.__name__] = self.rounds.get(read.__name__, 0) + 1

    def ours(self) -> None:
        reader = TableReader(self.tables)
        rows = rows_of(reader)
        # Whenever a snapshot is looked at, it is the same.
        if self.snapshots.setdefault(reader.version, rows) != rows:
            self.torn.append(1)

    def sql(self) -> None:
        (row,) = CoordinatorTables(self.tables).sql(TORN)
        self.torn += row.values()

    def delta_rs(self) -> None:
        for table in ALL_TABLES:
            rows = DeltaTable(table.path(self.tables)).to_pyarrow_table()
            assert_keys_are_unique(table, rows.select(list(table.key)).to_pylist())

    @contextmanager
    def reading(self) -> Iterator[None]:
        kinds = (self.ours, self.sql, self.delta_rs)
        with ThreadPoolExecutor(len(kinds)) as threads:
            started = [threads.submit(self.again, kind) for kind in kinds]
            try:
                yield
            finally:
                self.stop.set()
            for thread in started:
                thread.result(120)


def assert_keys_are_unique(table: Table, keys: list[Row]) -> None:
    """What is half replaced has rows twice, or none of what it had."""
    # Samples are written by the clock of the machine, and equal ones at their ends only.
    if table is not LOG_OFFSETS:
        assert len({tuple(key.values()) for key in keys}) == len(keys), table.name


def test_every_reader_beside_a_run(
    fresh_broker: FreshBroker, tmp_path: Path, eventually: Eventually
) -> None:
    broker = fresh_broker(properties=BROKER_PROPERTIES)
    servers = broker.bootstrap_servers
    broker.create_offsets_topic()
    create_topics(Clients(servers))
    tables = str(tmp_path / "tables")
    for table in WITH_CHANGE_DATA_FEED:
        feed = {delta.CHANGE_DATA_FEED: "true"}
        DeltaTable.create(table.path(tables), schema=table.schema, configuration=feed)
    readers = Readers(tables)
    is_table = DeltaTable.is_deltatable
    options = (
        *("--bootstrap-servers", servers, "--history", "all", "--trigger", "200 milliseconds"),
        *("--upkeep-interval", "2 seconds", "--lag-interval", "1 second", "--silent"),
        *("--evaluation-interval", "1 second"),
    )
    with closing(Traffic(servers)) as traffic, live_run(tmp_path, *options) as run:
        traffic.start()
        eventually(lambda: is_table(LOAD_PROGRESS.path(tables)), START_S)
        with readers.reading():
            eventually(lambda: not run.is_alive or is_seen(readers), 240)
        run.stop(signal.SIGTERM)

    assert readers.torn
    assert set(readers.torn) == {0}
    assert list(contradictions(TableReader(tables))) == []
    _assert_snapshots_equal_the_log(readers, broker)


def is_seen(readers: Readers) -> bool:
    """Enough snapshots, with transactions, members and history among them, and all have read."""
    seen = list(readers.snapshots.values())
    wanted = ("pending_offsets", "group_members", "offset_commits", "group_events")
    return (
        len(seen) >= SNAPSHOTS
        and all(any(snapshot[name] for snapshot in seen) for name in wanted)
        and len(readers.rounds) == 3
        and min(readers.rounds.values()) > 1
    )


def _assert_snapshots_equal_the_log(readers: Readers, broker: EmbeddedBroker) -> None:
    """Each snapshot is what a loader makes of the log up to where its load_progress says."""
    broker.stop()
    logs = {p: list(read_record_batches(broker.read_log(p))) for p in range(50)}
    for version, snapshot in sorted(readers.snapshots.items()):
        loaders: dict[int, Any] = {}
        for row in snapshot["load_progress"]:
            log_partition, next_offset = row["log_partition"], row["next_offset"]
            loaders[log_partition] = ReferenceLoader(Semantics.COORDINATOR)
            loaders[log_partition].load(
                batch for batch in logs[log_partition] if batch.base_offset < next_offset
            )
        assert differences(snapshot, loaders) == [], version
