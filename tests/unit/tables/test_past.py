"""Moments before the oldest snapshot, rebuilt from a base and the history: as the snapshot was."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import duckdb
import pytest

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.run.maintenance import maintain_beside_query
from streaming.tables import bases
from streaming.tables.base_maintenance import MOST_AGE, maintain_bases, make_base
from streaming.tables.bases import bases_of
from streaming.tables.creation import keep_snapshots
from streaming.tables.folder import keep_up_to_date
from streaming.tables.maintenance import tidy_up
from streaming.tables.past import Past
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    HISTORY_OFF,
    KEY_TABLES,
    LOAD_PROGRESS,
    PENDING_OFFSETS,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.brokers.object_store import served_object_store
from tests.support.clients.command_line import call, json_lines
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import apply_next, create
from tests.support.tables.tables_folder import start_apply

REBUILT = (GROUP_OFFSETS, PENDING_OFFSETS, GROUPS, GROUP_MEMBERS)
UNKNOWN: dict[Table, tuple[str, ...]] = {
    **dict.fromkeys(REBUILT, ()),
    # The history does not have the client of a pending offset.
    PENDING_OFFSETS: ("client_id", "client_host"),
}
WEEK = timedelta(days=7)
ONE = timedelta(microseconds=1)
Rows = dict[str, list[str]]


@dataclass(frozen=True)
class Moment:
    """A snapshot: its moment, and its rows."""

    at: datetime
    rows: Rows
    next_offset: int


class Live:
    """A query whose records have the time of now."""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        create(tables)
        self.apply = start_apply(tables)
        self.moments: list[Moment] = []

    def micro_batches(self, count: int) -> None:
        """Write micro-batches and keep their snapshots."""
        for _ in range(count):
            # Records have milliseconds, snapshots microseconds.
            time.sleep(0.003)
            apply_next(self.apply, time.time_ns() // 1_000_000)
            reader = TableReader(self.tables)
            next_offset = reader.load_states[LOG_PARTITION].next_offset
            self.moments.append(Moment(reader.written_at, rows_of(reader), next_offset))

    def make_base(self) -> None:
        """Make a base, and delete old ones."""
        maintain_bases(self.apply.writer.epoch, WEEK, now=datetime.now(timezone.utc))

    def forget_snapshots(self) -> None:
        """Delete the files of all snapshots but the newest."""
        keep_snapshots(self.apply.writer.epoch, timedelta(0))
        assert maintain_beside_query(self.apply.writer.epoch, WEEK)


def rows_of(reader: TableReader, group_ids: Sequence[str] | None = None) -> Rows:
    """The rows of the rebuilt tables, in a fixed order, without the columns that may be null."""
    return {
        table.name: sorted(
            repr({name: value for name, value in row.items() if name not in UNKNOWN[table]})
            for row in reader.read(table.name).to_pylist()
            if group_ids is None or row["group_id"] in group_ids
        )
        for table in REBUILT
    }


@pytest.fixture(name="live")
def _live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """A query with a base after its second micro-batch, and another after its fifth."""
    live = Live(str(tmp_path / "tables"))
    live.micro_batches(2)
    live.make_base()
    live.micro_batches(3)
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(0))
    live.make_base()
    monkeypatch.undo()
    live.micro_batches(3)
    return live


def test_each_snapshot_is_rebuilt_with_all_its_rows(live: Live) -> None:
    assert len(bases_of(live.tables)) == 2
    newest = TableReader(live.tables)
    rebuilding = newest.rebuilding(live.moments[1].at, newest.moment)
    for moment in live.moments[1:]:
        found = newest.rebuilt(moment.at, rebuilding)
        assert found is not None
        assert found.rebuilt_from is not None
        assert rows_of(found) == moment.rows
        assert found.load_states[LOG_PARTITION].next_offset == moment.next_offset
        assert found.moment == found.as_of == moment.at
    assert newest.rebuilt(live.moments[0].at, rebuilding) is None
    # A snapshot that no base reaches is still there.
    first = Past(newest, since=live.moments[0].at).at(live.moments[0].at)
    assert first.rebuilt_from is None
    assert rows_of(first) == live.moments[0].rows


def test_a_moment_whose_snapshot_is_deleted_is_rebuilt(live: Live) -> None:
    live.forget_snapshots()
    newest = TableReader(live.tables)
    assert newest.begins_at == live.moments[1].at
    for moment in live.moments[1:-1]:
        reader = TableReader(live.tables, as_of=moment.at)
        assert reader.rebuilt_from is not None
        assert rows_of(reader) == moment.rows
        before = newest.before(moment.at)
        assert before is not None
        assert rows_of(before) == moment.rows
    assert TableReader(live.tables, as_of=live.moments[-1].at).rebuilt_from is None
    with pytest.raises(ConfigurationError, match="the tables reach from"):
        TableReader(live.tables, as_of=live.moments[0].at)
    assert newest.before(live.moments[0].at) is None


def test_a_longer_retention_does_not_hide_the_bases(live: Live) -> None:
    live.forget_snapshots()
    keep_snapshots(live.apply.writer.epoch, timedelta(hours=1))
    moment = live.moments[3]
    reader = TableReader(live.tables, as_of=moment.at)
    assert reader.rebuilt_from is not None
    assert rows_of(reader) == moment.rows
    assert reader.version == TableReader(live.tables).version


def test_history_of_a_rebuilt_moment_ends_there(live: Live) -> None:
    live.forget_snapshots()
    at = live.moments[3].at
    reader = TableReader(live.tables, as_of=at)
    for name, column in (("offset_commits", "outcome_timestamp"), ("group_events", None)):
        newest = TableReader(live.tables).read(name)
        rows = reader.read(name, filters=[("log_partition", "=", LOG_PARTITION)])
        assert 0 < rows.num_rows < newest.num_rows
        assert max(rows[column or "record_timestamp"].to_pylist()) <= at
        with duckdb.connect() as sql:
            sql.register("history", reader.dataset(name))
            assert sql.execute("SELECT count(*) FROM history").fetchall() == [(rows.num_rows,)]


def test_a_table_without_history_is_empty_with_a_warning(live: Live) -> None:
    assert TableReader(live.tables).read("transactions").num_rows == 1
    live.forget_snapshots()
    at = live.moments[3].at.isoformat()
    shown = call("show", "transactions", "--tables", live.tables, "--as-of", at, "--output", "json")
    assert shown.stdout == ""
    assert (
        "transactions has no history: its rows of that moment are no longer available"
        in shown.stderr
    )


def test_rows_of_some_groups_only_are_read(live: Live) -> None:
    newest = TableReader(live.tables)
    moment = live.moments[-2]
    some, none = (
        newest.rebuilt(moment.at, newest.rebuilding(moment.at, moment.at, group_ids))
        for group_ids in (["g"], ["unknown"])
    )
    assert some is not None
    assert rows_of(some) == moment.rows
    assert none is not None
    assert rows_of(none) == {table.name: [] for table in REBUILT}


def test_a_base_is_a_tables_folder(live: Live) -> None:
    base, _ = bases_of(live.tables)
    reader = TableReader(base.path)
    assert rows_of(reader) == live.moments[1].rows
    assert reader.written_at == live.moments[1].at
    with duckdb.connect() as sql:
        files = f"{base.path}/group_offsets/*.parquet"
        count = sql.execute(f"SELECT count(*) FROM read_parquet('{files}')").fetchall()  # noqa: S608
    assert count == [(len(live.moments[1].rows["group_offsets"]),)]


def test_a_base_is_made_when_it_is_due(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bases_of(live.tables)
    live.make_base()
    assert bases_of(live.tables) == made
    # Many records follow the newest base.
    monkeypatch.setattr("streaming.tables.base_maintenance._MIN_RECORDS", 1)
    monkeypatch.setattr("streaming.tables.base_maintenance._RECORDS_PER_ROW", 0)
    live.make_base()
    assert len(bases_of(live.tables)) == 3
    # Nothing was written since.
    live.make_base()
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", -MOST_AGE)
    assert len(bases_of(live.tables)) == 3


def test_an_interrupted_base_is_ignored_and_deleted_later(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = bases._write

    def interrupted(base: bases.BasePlace, table: Any, *rest: Any) -> int:
        if table is KEY_TABLES[2]:
            raise OSError("killed")
        return write(base, table, *rest)

    monkeypatch.setattr(bases, "_write", interrupted)
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(0))
    with pytest.raises(OSError, match="killed"):
        live.make_base()
    monkeypatch.undo()
    *complete, half = bases_of(live.tables)
    assert [base.is_complete for base in complete] == [True, True]
    assert not half.is_complete

    newest = TableReader(live.tables)
    at = live.moments[-1].at
    found = newest.rebuilt(at, newest.rebuilding(at, at))
    assert found is not None
    assert rows_of(found) == live.moments[-1].rows
    live.make_base()
    assert half in bases_of(live.tables)
    monkeypatch.setattr(bases, "_WRITTEN_WITHIN", timedelta(0))
    live.make_base()
    assert bases_of(live.tables) == complete


@pytest.mark.parametrize("error", [OSError("killed"), TablesUnavailable("the disk is full")])
def test_a_base_that_is_written_again_has_each_row_once(
    live: Live, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    live.micro_batches(1)
    write, fails = bases._write, [True]

    def fails_once(base: bases.BasePlace, table: Any, *rest: Any) -> int:
        if table is LOAD_PROGRESS and fails and fails.pop():
            raise error
        return write(base, table, *rest)

    monkeypatch.setattr(bases, "_write", fails_once)
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(0))
    count = len(bases_of(live.tables))
    with pytest.raises(type(error), match=str(error)):
        make_base(live.apply.writer.epoch, TableReader(live.tables))
    # A killed process leaves its files, a full disk needs the space.
    assert len(bases_of(live.tables)) == count + isinstance(error, OSError)
    make_base(live.apply.writer.epoch, TableReader(live.tables))
    newest = bases_of(live.tables)[-1]
    assert newest.is_complete
    assert rows_of(TableReader(newest.path)) == live.moments[-1].rows
    assert newest.count(GROUP_OFFSETS) == newest.read(GROUP_OFFSETS).num_rows > 0


def test_two_jobs_at_once_make_one_base(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    live.micro_batches(1)
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(0))
    write, at_once = bases._write, Barrier(2)

    def slowly(base: bases.BasePlace, table: Any, *rest: Any) -> int:
        with suppress(BrokenBarrierError):
            at_once.wait(0.5)
        return write(base, table, *rest)

    monkeypatch.setattr(bases, "_write", slowly)
    readers = [TableReader(live.tables), TableReader(live.tables)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(make_base, live.apply.writer.epoch), readers))
    newest = bases_of(live.tables)[-1]
    assert newest.is_complete
    assert rows_of(TableReader(newest.path)) == live.moments[-1].rows


def test_commits_that_a_base_was_behind_are_in_the_past_of_a_group(tmp_path: Path) -> None:
    live = Live(str(tmp_path / "tables"))
    live.micro_batches(1)
    progress = live.apply.progress
    row = progress.rows[LOG_PARTITION]
    assert row.current_at is not None
    row.current_at -= timedelta(hours=1)
    row.high_watermark += 1
    progress.write(live.apply.writer, now=datetime.now(timezone.utc))
    live.make_base()
    half_an_hour_ago = time.time_ns() // 1_000_000 - 1_800_000
    apply_next(live.apply, half_an_hour_ago)
    live.micro_batches(1)
    last = live.moments[-1]
    found = Past(TableReader(live.tables), since=last.at, group_ids=["g"]).at(last.at)
    assert found.rebuilt_from is not None
    assert rows_of(found, ["g"]) == rows_of(TableReader(live.tables), ["g"])


def test_a_run_without_history_deletes_the_bases(live: Live) -> None:
    assert bases_of(live.tables)
    keep_up_to_date(
        live.apply.writer.epoch,
        log_partitions=50,
        offsets_retention_ms=604_800_000,
        snapshot_retention=timedelta(minutes=6),
        history=HISTORY_OFF,
    )
    assert bases_of(live.tables) == []


def test_a_full_disk_does_not_stop_the_deletion_of_files(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(_epoch: WriterEpoch, _reader: TableReader) -> None:
        raise TablesUnavailable("the disk is full")

    epoch = live.apply.writer.epoch
    keep_snapshots(epoch, timedelta(0))
    files = len(list(Path(live.tables, "group_offsets").glob("*.parquet")))
    monkeypatch.setattr("streaming.tables.maintenance.make_base", is_full)
    with pytest.raises(TablesUnavailable, match="the disk is full"):
        tidy_up(epoch)
    assert len(list(Path(live.tables, "group_offsets").glob("*.parquet"))) < files


def test_bases_without_their_history_are_deleted(live: Live) -> None:
    epoch = live.apply.writer.epoch
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    assert maintain_bases(epoch, timedelta(days=1), now=tomorrow) == 0
    assert maintain_bases(epoch, timedelta(days=1), now=tomorrow + timedelta(days=1)) == 2
    assert bases_of(live.tables) == []


def test_a_store_has_bases_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with served_object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        live = Live("s3://bucket/tables")
        live.micro_batches(1)
        live.make_base()
        live.micro_batches(2)
        live.forget_snapshots()

        reader = TableReader(live.tables, as_of=live.moments[1].at)
        assert rows_of(reader) == live.moments[1].rows
        later = datetime.now(timezone.utc) + 9 * timedelta(days=1)
        assert maintain_bases(live.apply.writer.epoch, WEEK, now=later) == 1
        assert bases_of(live.tables) == []


def test_the_command_line_shows_a_rebuilt_moment(live: Live) -> None:
    live.forget_snapshots()
    moment = live.moments[3]
    as_of = ["--tables", live.tables, "--as-of", moment.at.isoformat()]
    shown = call("show", "offsets", *as_of, "--output", "json")
    assert len(json_lines(shown)) == len(moment.rows["group_offsets"])
    assert "rebuilt from the base of" in shown.stderr
    (row,) = json_lines(
        call("sql", "SELECT count(*) AS n FROM group_offsets", *as_of, "--output", "json")
    )
    assert row["n"] == len(moment.rows["group_offsets"])
    unknown = call("explain", "none", *as_of, exit_code=1)
    assert "rebuilt from the base of" in unknown.stderr
