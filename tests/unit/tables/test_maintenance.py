"""Upkeep: what goes, what stays, and that nobody notices, by the micro-batches of a query."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError
from streaming.run.maintenance import maintain, maintain_beside_query
from streaming.tables import clock, maintenance, writer, writer_epoch
from streaming.tables import folder as tables_folder
from streaming.tables.clock import SteadyClock, utc_now
from streaming.tables.maintenance import TableMaintenance, maintain_tables, tidy_up
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    DEFAULT_SNAPSHOT_RETENTION,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.clients.command_line import call, json_lines
from tests.support.eventually import wait_until
from tests.support.logs.log_rows import NOW_MS, commit, progress_row, table_of
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import (
    Crash,
    log_entries,
    rewrite_entry,
    start_apply,
    versions_of,
    write_rows,
)

NOW = datetime.fromtimestamp(NOW_MS / 1000, timezone.utc)
HOUR = timedelta(hours=1)
DAY_MS = 24 * 60 * 60 * 1000
KEYS = [OffsetKey("g", "t", partition) for partition in range(10)]
MOST_FILES = 2
"""Small files of a table, of which more than these are compacted."""


class Query:
    """Micro-batches, each of a commit for every key, into a folder."""

    def __init__(
        self, folder: Path, snapshot_retention: timedelta, *, change_data_feed: bool = False
    ) -> None:
        self.tables = str(folder)
        self.number = 0
        create(
            self.tables,
            snapshot_retention=snapshot_retention,
            change_data_feed=change_data_feed,
        )
        self.start()

    def start(self, **fault: Any) -> None:
        """A new process, with the arguments of `start_apply` for a fault."""
        self.apply = start_apply(self.tables, **fault)

    def micro_batch(self, at_ms: int = NOW_MS, group_id: str = "g") -> None:
        start = self.number * len(KEYS)
        rows = [
            {
                **commit(start + index, self.number, key=key._replace(group_id=group_id)),
                "record_timestamp_ms": at_ms,
            }
            for index, key in enumerate(KEYS)
        ]
        progress = progress_row(start, start + len(KEYS))
        self.apply.apply(table_of([*rows, progress]), self.number, "query")
        self.number += 1

    def micro_batches(self, count: int, at_ms: int = NOW_MS) -> None:
        for _ in range(count):
            self.micro_batch(at_ms)

    @property
    def epoch(self) -> WriterEpoch:
        return self.apply.writer.epoch

    def maintain(self) -> dict[str, TableMaintenance]:
        done = maintain_tables(self.epoch, timedelta(days=7), now=NOW)
        return {table.table: table for table in done}

    def committed(self) -> set[int]:
        rows = TableReader(self.tables).read(GROUP_OFFSETS.name, ["committed_offset"])
        assert rows.num_rows == len(KEYS)
        return set(rows["committed_offset"].to_pylist())

    def data_files(self, table: Table) -> list[Path]:
        files = Path(table.path(self.tables)).rglob("*.parquet")
        return [file for file in files if "_delta_log" not in file.parts]

    def committed_history(self) -> set[int]:
        """The committed offsets in the history, which has each once for every key."""
        committed = TableReader(self.tables).read(OFFSET_COMMITS.name)["committed_offset"]
        counts = Counter(committed.to_pylist())
        assert set(counts.values()) == {len(KEYS)}
        return set(counts)

    def is_compacted(self) -> bool:
        """Whether maintenance compacted the history after the last micro-batch."""
        newest, *_ = DeltaTable(OFFSET_COMMITS.path(self.tables)).history(1)
        return newest["operation"] == "OPTIMIZE"


def age(*files: Path, by: timedelta) -> None:
    at = (datetime.now(timezone.utc) - by).timestamp()
    for file in files:
        os.utime(file, (at, at))


@pytest.fixture(autouse=True)
def _few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MOST_SMALL_FILES", MOST_FILES)


def test_snapshots_are_kept_for_as_long_as_was_said(tmp_path: Path) -> None:
    query = Query(tmp_path / "tables", DEFAULT_SNAPSHOT_RETENTION)
    query.micro_batches(2)
    then = TableReader(query.tables).version
    query.micro_batches(4)
    assert query.maintain()[GROUP_OFFSETS.name].files_deleted == 0
    rows = TableReader(query.tables, as_of=then).read(GROUP_OFFSETS.name)
    assert set(rows["committed_offset"].to_pylist()) == {1}

    # From now on for no time: what is older goes at once.
    for done in maintain(
        query.tables, history_retention=timedelta(days=7), snapshot_retention=timedelta(0)
    ):
        assert done.table != GROUP_OFFSETS.name or done.files_deleted == 5
    assert query.committed() == {5}
    with pytest.raises(ConfigurationError, match=f"no snapshot as of {then} any more"):
        TableReader(query.tables, as_of=then)
    newest = TableReader(query.tables)
    assert newest.before(newest.begins_at - timedelta(microseconds=1)) is None
    # Nothing came since then, so much of the past is known.
    (_, written_at), *_ = newest.commits(1)
    assert newest.begins_at == written_at
    assert newest.before(datetime.now(timezone.utc)) is not None


@pytest.mark.long
@pytest.mark.parametrize("killed_behind", ["group_offsets", "offset_commits", "pending_offsets"])
def test_what_a_killed_query_goes_on_from_is_kept(tmp_path: Path, killed_behind: str) -> None:
    query = Query(tmp_path / "tables", timedelta(0))
    micro_batches = 12
    query.micro_batches(micro_batches)
    query.start(fault=killed_behind)
    with pytest.raises(Crash):
        query.micro_batch()
    for _ in range(2):
        query.maintain()
    assert query.committed() == {micro_batches - 1}

    query.start()
    query.micro_batch()
    assert query.committed() == {micro_batches}
    assert query.committed_history() == set(range(micro_batches + 1))


def test_days_that_are_over_are_deleted_and_others_put_together(tmp_path: Path) -> None:
    query = Query(tmp_path / "tables", timedelta(0))
    for days in (9, 8, 7, 0):
        query.micro_batches(MOST_FILES + 1, NOW_MS - days * DAY_MS)
    done = query.maintain()[OFFSET_COMMITS.name]
    assert done.days_deleted == 2
    assert done.files_compacted == 2 * (MOST_FILES + 1)
    opened = DeltaTable(OFFSET_COMMITS.path(query.tables))
    assert len(opened.file_uris()) == 2
    # It is in no snapshot before the next micro-batch; that has all of it.
    query.micro_batch()
    commits = TableReader(query.tables).read(
        OFFSET_COMMITS.name, ["committed_offset"], [("group_id", "==", "g")]
    )
    assert commits.num_rows == (2 * (MOST_FILES + 1) + 1) * len(KEYS)
    query.maintain()
    assert query.maintain()[OFFSET_COMMITS.name].is_nothing


def test_a_clock_that_is_ahead_deletes_nothing(tmp_path: Path) -> None:
    """Ten days ahead, as the machine of `run` may be for a minute."""
    query = Query(tmp_path / "tables", timedelta(0))
    for days in (6, 0):
        query.micro_batch(NOW_MS - days * DAY_MS)
    tables, ahead = query.tables, NOW + timedelta(days=10)
    samples = [
        {"topic": "t", "partition": 0, "sampled_at": at, "state": "known", "day": at.date()}
        for at in (NOW - timedelta(days=6), NOW, ahead)
    ]
    write_rows(tables, LOG_OFFSETS.name, samples)
    epoch = WriterEpoch.current(tables)
    week = timedelta(days=7)
    results = {result.table: result for result in maintain_tables(epoch, week, now=ahead)}
    assert [name for name, result in results.items() if result.days_deleted] == []
    # A week after the last record and sample it is over.
    query.micro_batch(NOW_MS + 9 * DAY_MS)
    results = {result.table: result for result in maintain_tables(epoch, week, now=ahead)}
    assert results[OFFSET_COMMITS.name].days_deleted == 2
    assert results[LOG_OFFSETS.name].days_deleted == 0


def test_files_that_the_change_data_feed_makes_many_are_put_together(tmp_path: Path) -> None:
    query = Query(tmp_path / "tables", timedelta(0), change_data_feed=True)
    groups = MOST_FILES + 1
    for number in range(groups):
        query.micro_batch(group_id=f"g{number}")
    opened = DeltaTable(GROUP_OFFSETS.path(query.tables))
    assert len(opened.file_uris()) == groups
    assert query.maintain()[GROUP_OFFSETS.name].files_compacted == groups
    opened.update_incremental()
    assert len(opened.file_uris()) == 1
    # The next micro-batch goes on from it.
    query.micro_batch(group_id="g0")
    query.maintain()
    rows = TableReader(query.tables).read(GROUP_OFFSETS.name)
    assert rows.num_rows == groups * len(KEYS)


def test_a_folder_that_nobody_writes_to_is_maintained_by_hand(tmp_path: Path) -> None:
    query = Query(tmp_path / "tables", DEFAULT_SNAPSHOT_RETENTION)
    query.micro_batch()
    folder = Path(GROUP_OFFSETS.path(query.tables))
    left_behind, being_written = folder / "left.parquet", folder / "being-written.parquet"
    for file in (left_behind, being_written):
        file.write_bytes(b"PAR1")
    age(left_behind, by=2 * HOUR)

    rows = json_lines(call("maintain", "--tables", query.tables, "--output", "json"))
    assert {row["table"]: row["files_deleted"] for row in rows}[GROUP_OFFSETS.name] == 1
    assert not left_behind.exists()
    assert being_written.exists()
    assert query.committed() == {0}

    with tables_folder.locked(query.tables):
        refused = call("maintain", "--tables", query.tables, exit_code=2)
    assert "another run is writing to" in refused.stderr
    assert "it maintains the tables itself" in refused.stderr
    refused = call("maintain", "--tables", str(tmp_path / "none"), exit_code=2)
    assert "there is no folder" in refused.stderr
    assert not (tmp_path / "none").exists()
    refused = call("maintain", "--tables", query.tables, "--history-retention", "long", exit_code=2)
    assert "--history-retention" in refused.stderr
    short = call("maintain", "--tables", query.tables, "--history-retention", "23h", exit_code=2)
    assert "'23h' is less than a day: history is deleted in whole days" in short.stderr


def test_what_cannot_be_done_keeps_nothing_else_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Maintenance compacts tables of keys only with the feed.
    query = Query(tmp_path / "tables", timedelta(0), change_data_feed=True)
    query.micro_batches(MOST_FILES + 1, time.time_ns() // 1_000_000)
    compact = maintenance._compact

    def conflict(epoch: WriterEpoch, opened: DeltaTable) -> int:
        if opened.table_uri.rstrip("/").endswith(GROUP_OFFSETS.name):
            raise DeltaError("a concurrent transaction deleted data")
        return compact(epoch, opened)

    monkeypatch.setattr(maintenance, "_compact", conflict)
    assert maintain_beside_query(query.epoch, timedelta(days=7)) is False
    assert "group_offsets failed: a concurrent transaction deleted data; retrying" in caplog.text
    files = query.data_files(GROUP_OFFSETS)
    assert len([file for file in files if file.parent.name != "_change_data"]) == 1
    assert query.is_compacted()
    refused = call("maintain", "--tables", query.tables, exit_code=2)
    assert "maintenance of" in refused.stderr


@pytest.mark.parametrize("retention_s", [0, 60])
def test_a_commit_under_way_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention_s: int
) -> None:
    """Upkeep runs between the moment a file is written and its commit, however long that takes."""
    query = Query(tmp_path / "tables", timedelta(seconds=retention_s))
    query.micro_batch()
    kept = []

    def slow(opened: DeltaTable, rows: pa.Table, **options: Any) -> None:
        """Write files and commit them; maintenance runs ten minutes later, before the commit."""
        folder = Path(opened.table_uri.removeprefix("file://"))
        before = {*folder.rglob("*.parquet")}
        write_deltalake(opened, rows, **options)
        written = {*folder.rglob("*.parquet")} - before
        age(*written, by=HOUR / 6)
        entry = folder / "_delta_log" / f"{opened.version():020}.json"
        held = entry.rename(entry.with_suffix(".held"))
        query.maintain()
        held.rename(entry)
        kept.append(written <= {*folder.rglob("*.parquet")})

    monkeypatch.setattr(writer, "write_deltalake", slow)
    query.micro_batch()
    monkeypatch.undo()
    assert kept == [True] * 3
    assert query.committed() == {1}
    assert TableReader(query.tables).read(OFFSET_COMMITS.name).num_rows == 2 * len(KEYS)


def test_a_micro_batch_that_takes_longer_than_the_retention_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance runs between an append and the commit of `load_progress`."""
    monkeypatch.setattr(maintenance, "UNREFERENCED_KEPT", timedelta(0))
    query = Query(tmp_path / "tables", timedelta(0))
    query.micro_batches(MOST_FILES)

    def maintain_twice() -> None:
        for _ in range(2):
            query.maintain()

    query.start(fault=OFFSET_COMMITS.name, happens=maintain_twice)
    query.micro_batch()
    assert query.is_compacted()
    assert query.committed_history() == set(range(MOST_FILES + 1))
    # The next snapshot needs only the compacted file and its own.
    query.micro_batch()
    query.maintain()
    assert len(query.data_files(OFFSET_COMMITS)) == 2


@pytest.mark.parametrize(
    ("written_ago", "is_deleted"),
    [(timedelta(minutes=59), False), (timedelta(minutes=61), True)],
)
def test_a_clock_that_jumps_deletes_no_file_that_is_about_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_ago: timedelta, is_deleted: bool
) -> None:
    """delta-rs goes by the machine's clock, for which the file is ten days older."""
    query = Query(tmp_path / "tables", timedelta(0))
    query.micro_batch()
    file = Path(OFFSET_COMMITS.path(query.tables), "about-to-be-named.parquet")
    file.write_bytes(b"")
    ten_days = timedelta(days=10)
    written_at = datetime.now(timezone.utc) - ten_days - written_ago
    os.utime(file, (written_at.timestamp(), written_at.timestamp()))
    steady = SteadyClock(lambda: datetime.now(timezone.utc) - ten_days)
    monkeypatch.setattr(clock, "_CLOCK", steady)
    query.maintain()
    assert file.exists() is not is_deleted


def test_a_file_that_a_later_checkpoint_removed_is_kept(tmp_path: Path) -> None:
    """A micro-batch appends, upkeep compacts, and both come after the table was opened."""
    query = Query(tmp_path / "tables", timedelta(0))
    query.micro_batches(MOST_FILES)
    path, versions = OFFSET_COMMITS.path(query.tables), {OFFSET_COMMITS.name: MOST_FILES + 1}
    now = datetime.now(timezone.utc)
    kept = maintenance._KeptVersions(query.tables, now, versions, versions)
    opened = DeltaTable(path)

    def go_on() -> None:
        assert maintenance._compact(query.epoch, DeltaTable(path)) == MOST_FILES + 1
        DeltaTable(path).create_checkpoint()
        expired = maintenance._expired(opened, kept.since)
        unneeded = maintenance._delete_unneeded(query.epoch, opened, OFFSET_COMMITS, kept, expired)
        assert unneeded == 0

    query.start(fault=OFFSET_COMMITS.name, happens=go_on)
    query.micro_batch()
    assert query.committed_history() == set(range(MOST_FILES + 1))


def test_the_retention_counts_from_the_end_of_a_snapshot(tmp_path: Path) -> None:
    """A table was compacted long before the next snapshot; a reader still reads the last one."""
    retention = timedelta(seconds=2)
    query = Query(tmp_path / "tables", retention)
    query.micro_batches(MOST_FILES + 1)
    assert maintenance._compact(query.epoch, DeltaTable(OFFSET_COMMITS.path(query.tables)))
    # The retention itself: delta-rs compares file times with the machine's clock.
    time.sleep(retention.total_seconds())
    before = TableReader(query.tables)
    query.micro_batch()
    query.maintain()
    assert before.read(OFFSET_COMMITS.name).num_rows == (MOST_FILES + 1) * len(KEYS)
    as_of = TableReader(query.tables, as_of=before.version)
    assert as_of.read(OFFSET_COMMITS.name).num_rows == (MOST_FILES + 1) * len(KEYS)

    def has_two_files() -> bool:
        query.maintain()
        return len(query.data_files(OFFSET_COMMITS)) == 2

    wait_until(has_two_files)


def in_another_time(query: Query, ahead: timedelta, work: Callable[[], object]) -> None:
    """Work while the clock is ahead: delta-rs puts the machine's time into each commit."""
    before = versions_of(query.tables)
    with pytest.MonkeyPatch.context() as patched:
        ahead_of = SteadyClock(lambda: datetime.now(timezone.utc) + ahead)
        patched.setattr(clock, "_CLOCK", ahead_of)
        work()

    def set_ahead(action: dict[str, Any]) -> None:
        for name, time_ms in (("commitInfo", "timestamp"), ("remove", "deletionTimestamp")):
            if name in action and time_ms in action[name]:
                action[name][time_ms] += ahead // timedelta(milliseconds=1)

    for table in ALL_TABLES:
        for entry in log_entries(query.tables, table):
            if int(entry.stem) > before[table.name]:
                rewrite_entry(entry, set_ahead)


def test_a_clock_that_was_ahead_takes_no_file_of_the_newest_snapshot(tmp_path: Path) -> None:
    """Times of commits go back then, so that they do not say which versions come later."""
    retention = timedelta(seconds=2)
    query = Query(tmp_path / "tables", retention)
    query.micro_batch()

    def start() -> None:
        query.start()
        query.micro_batch()

    in_another_time(query, timedelta(hours=6), start)
    query.start()
    query.micro_batches(MOST_FILES + 1)
    tidy_up(query.epoch)
    assert query.is_compacted()
    time.sleep(retention.total_seconds())
    query.maintain()
    assert query.committed_history() == set(range(MOST_FILES + 3))


def test_an_unfinished_micro_batch_beside_a_clock_that_was_ahead(tmp_path: Path) -> None:
    query = Query(tmp_path / "tables", timedelta(minutes=6))
    in_another_time(query, timedelta(minutes=10), query.micro_batch)
    query.start(fault=GROUP_OFFSETS.name)
    with pytest.raises(Crash):
        query.micro_batch()
    tidy_up(query.epoch)
    assert query.committed() == {0}
    query.start()
    assert query.committed() == {0}


def test_a_short_vacuum_does_not_stop_upkeep(tmp_path: Path) -> None:
    """It deletes the files of older snapshots, which the retention would keep."""
    query = Query(tmp_path / "tables", timedelta(days=7))
    query.micro_batches(3)
    DeltaTable(LOAD_PROGRESS.path(query.tables)).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False
    )
    tidy_up(query.epoch)
    assert {done.error for done in query.maintain().values()} == {""}


def test_files_go_without_a_commit(tmp_path: Path) -> None:
    """On a table that is written each second a commit of VACUUM fails more often than not."""
    query = Query(tmp_path / "tables", timedelta(0))
    query.micro_batches(3)
    before = DeltaTable(GROUP_OFFSETS.path(query.tables)).version()
    assert query.maintain()[GROUP_OFFSETS.name].files_deleted >= 2
    assert DeltaTable(GROUP_OFFSETS.path(query.tables)).version() == before


@pytest.mark.long
@pytest.mark.parametrize("change_data_feed", [False, True])
def test_the_query_goes_on_where_maintenance_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, change_data_feed: bool
) -> None:
    """Between the moment a table is opened and the commit, its files were put together or went."""
    query = Query(tmp_path / "tables", timedelta(0), change_data_feed=change_data_feed)
    for days in (9, 0):
        for number in range(MOST_FILES + 1):
            query.micro_batch(NOW_MS - days * DAY_MS, group_id=f"g{number}")
    open_again, met = DeltaTable, Counter[str]()

    def overtaken(path: str, *arguments: Any, **rest: Any) -> DeltaTable:
        opened = open_again(path, *arguments, **rest)
        name = Path(path).name
        if not arguments and not rest and not met[name]:
            met[name] += 1
            table = next(table for table in ALL_TABLES if table.name == name)
            versions = {name: opened.version()}
            kept = maintenance._KeptVersions(query.tables, utc_now(), versions, versions)
            maintenance._maintain_table(query.epoch, table, kept, NOW)
        return opened

    monkeypatch.setattr(writer_epoch, "DeltaTable", overtaken)
    query.micro_batch(group_id="g0")
    assert {GROUP_OFFSETS.name, OFFSET_COMMITS.name} <= set(met)
    monkeypatch.undo()
    rows = TableReader(query.tables).read(GROUP_OFFSETS.name)
    assert rows.num_rows == (MOST_FILES + 1) * len(KEYS)
    # The days that were over were deleted.
    assert query.committed_history() == {*range(MOST_FILES + 1, query.number)}


@pytest.mark.long
def test_nobody_notices(tmp_path: Path) -> None:
    query = Query(tmp_path / "tables", DEFAULT_SNAPSHOT_RETENTION)
    query.micro_batch()
    ended = threading.Event()

    def read() -> int:
        looks = 0
        while not ended.is_set():
            reader = TableReader(query.tables)
            offsets = reader.read(GROUP_OFFSETS.name, ["committed_offset"])
            (committed,) = set(offsets["committed_offset"].to_pylist())
            with duckdb.connect() as sql:
                sql.register("history", reader.dataset(OFFSET_COMMITS.name))
                count_and_newest = sql.execute(
                    "SELECT count(*), max(committed_offset) FROM history"
                ).fetchall()
            # Of one micro-batch all, whatever was put together meanwhile.
            assert count_and_newest == [((committed + 1) * len(KEYS), committed)]
            looks += 1
        return looks

    def tidy_up() -> int:
        compacted = 0
        while not ended.is_set():
            compacted += query.maintain()[OFFSET_COMMITS.name].files_compacted
        return compacted

    with ThreadPoolExecutor(2) as pool:
        reading, tidying = pool.submit(read), pool.submit(tidy_up)
        query.micro_batches(50)
        ended.set()
        assert reading.result() > 0
        assert tidying.result() > MOST_FILES
    assert query.committed() == {50}
