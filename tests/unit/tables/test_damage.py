"""A start after a power loss left files empty, cut, zeroed or missing.

And a start after another program compacted tables and deleted the files that it replaced.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from streaming.engine import micro_batch
from streaming.errors import TablesUnavailable
from streaming.lag.unwritten_samples import rows_of
from streaming.tables import delta, maintenance
from streaming.tables.creation import keep_snapshots
from streaming.tables.folder import locked
from streaming.tables.maintenance import maintain_tables
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    GROUP_EVENTS,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    QUARANTINE,
    TABLES,
    Table,
)
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.clients.command_line import call
from tests.support.logs.log_rows import progress_row, table_of
from tests.support.tables.every_table import (
    RECORDS,
    apply_next,
    assert_undisturbed,
    copy_of_load,
    create,
    micro_batches,
)
from tests.support.tables.tables_folder import NOW, log_entries, start_apply, with_defaults


def empty(file: Path) -> None:
    os.truncate(file, 0)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size * 2 // 3)


def zeroed(file: Path) -> None:
    """With its size: the file system wrote that, and not the data."""
    file.write_bytes(bytes(file.stat().st_size))


def zeroed_within(file: Path) -> None:
    """Between the magic bytes and sizes of a Parquet file."""
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(len(content) - 12) + content[-8:])


Damage = Callable[[Path], None]
DAMAGES: tuple[Damage, ...] = (empty, cut, zeroed, Path.unlink)
damages = pytest.mark.parametrize("damage", DAMAGES)
long = pytest.mark.long
name = attrgetter("name")


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """Three micro-batches; a test damages the last of them."""
    return copy_of_load(tmp_path, 3)


def log_of(tables: str, table: Table) -> Path:
    return Path(table.path(tables), "_delta_log")


def last_entry(tables: str, table: Table) -> Path:
    return log_entries(tables, table)[-1]


def last_data_file(tables: str, table: Table) -> Path:
    entries = reversed(log_entries(tables, table))
    actions = (json.loads(line) for entry in entries for line in entry.read_text().splitlines())
    path = next(action["add"]["path"] for action in actions if "add" in action)
    return Path(table.path(tables), path)


def goes_on(tables: str, least: int = 2) -> None:
    """A start rolls back by as little as possible, and ends in the tables of any other load.

    Readers can read before the next micro-batch.
    """
    with locked(tables):
        apply = start_apply(tables)
    assert micro_batches(tables) >= least
    assert_undisturbed(tables)
    apply_next(apply)
    assert_undisturbed(tables)


def refuses(tables: str, message: str) -> None:
    """A start refuses the tables, and leaves them as they are."""
    entries = entries_of(tables)
    with pytest.raises(TablesUnavailable, match=message), locked(tables):
        pass
    assert entries_of(tables) == entries


def entries_of(tables: str) -> set[Path]:
    return set(Path(tables).rglob("_delta_log/*.json"))


# --- a power loss


@long
@pytest.mark.parametrize("file_of", [last_entry, last_data_file])
@pytest.mark.parametrize("table", [GROUP_OFFSETS, OFFSET_COMMITS, LOAD_PROGRESS], ids=name)
@damages
def test_the_last_file_of_a_table(
    tables: str, file_of: Callable[[str, Table], Path], table: Table, damage: Damage
) -> None:
    damage(file_of(tables, table))
    goes_on(tables)


@long
def test_it_says_so(tables: str, caplog: pytest.LogCaptureFixture) -> None:
    entry = last_entry(tables, GROUP_OFFSETS)
    empty(entry)
    newest = last_entry(tables, LOAD_PROGRESS)
    with locked(tables):
        pass
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for deleted in (entry, newest):
        assert f"deleted {deleted}: a power loss damaged it or a file of its snapshot" in lines


@long
def test_what_is_whole_stays(tables: str, caplog: pytest.LogCaptureFixture) -> None:
    before = {file: file.stat().st_mtime_ns for file in Path(tables).rglob("*") if file.is_file()}
    with locked(tables):
        pass
    after = {file: file.stat().st_mtime_ns for file in Path(tables).rglob("*") if file.is_file()}
    assert {**after, **before} == after
    assert caplog.records == []


@long
@pytest.mark.parametrize("damage", [*DAMAGES, zeroed_within])
@pytest.mark.parametrize("has_hint", [True, False])
def test_a_damaged_checkpoint_costs_nothing(tables: str, damage: Damage, has_hint: bool) -> None:
    for table in TABLES:
        DeltaTable(table.path(tables)).create_checkpoint()
    apply_next(start_apply(tables))
    for table in TABLES:
        (checkpoint,) = log_of(tables, table).glob("*.checkpoint.parquet")
        damage(checkpoint)
        if not has_hint:
            damage(log_of(tables, table) / "_last_checkpoint")
    goes_on(tables, least=4)


@long
def test_files_that_maintenance_compacted(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot is of the files before, which are there."""
    monkeypatch.setattr(maintenance, "MOST_SMALL_FILES", 2)
    list(maintain_tables(WriterEpoch.current(tables), timedelta(days=3650), now=NOW))
    assert DeltaTable(OFFSET_COMMITS.path(tables)).history()[0]["operation"] == "OPTIMIZE"
    cut(last_data_file(tables, OFFSET_COMMITS))
    goes_on(tables, least=3)


@long
def test_samples(tables: str) -> None:
    """They belong to no snapshot: the last ones are lost, and the others stay."""
    writer = open_for_writing(tables, "test")
    nothing = rows_of([])
    for count in (1, 2):
        row = with_defaults(LOG_OFFSETS.name, {"topic": "t", "partition": count, "sampled_at": NOW})
        writer.append(LOG_OFFSETS, pa.Table.from_pylist([row], schema=nothing.schema))
    cut(last_data_file(tables, LOG_OFFSETS))
    goes_on(tables, least=3)
    assert TableReader(tables).read(LOG_OFFSETS.name)["partition"].to_pylist() == [1]


@long
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.release) for n in range(3, 12))]
)
def test_any_files_of_the_last_seconds(tmp_path: Path, seed: int) -> None:
    """Every file that was written after some moment is as it was, damaged, or not there."""
    choose = random.Random(seed)
    tables = str(tmp_path / "tables")
    create(tables, change_data_feed=choose.random() < 0.2)
    apply = start_apply(tables)
    for number in range(6):
        if number == 4:
            unsynced_since = max(file.stat().st_mtime_ns for file in Path(tables).rglob("*"))
        if choose.random() < 0.3:
            apply = start_apply(tables)
        if choose.random() < 0.2:
            DeltaTable(choose.choice(TABLES).path(tables)).create_checkpoint()
        apply_next(apply)
    for file in sorted(Path(tables).rglob("*")):
        if file.is_file() and file.stat().st_mtime_ns > unsynced_since and choose.random() < 0.5:
            choose.choice(DAMAGES)(file)
    goes_on(tables, least=4)


@long
def test_a_log_that_maintenance_cleaned_is_whole(
    tables: str, caplog: pytest.LogCaptureFixture
) -> None:
    apply = start_apply(tables)
    for _ in range(4):
        for table in ALL_TABLES:
            DeltaTable(table.path(tables)).create_checkpoint()
        apply_next(apply)
    keep_snapshots(apply.writer.epoch, timedelta(0))
    list(maintain_tables(apply.writer.epoch, timedelta(days=3650), now=NOW))
    assert not (log_of(tables, LOAD_PROGRESS) / f"{0:020}.json").exists()
    caplog.clear()
    goes_on(tables, least=7)
    assert "power loss" not in caplog.text


@long
def test_entries_stay_until_their_checkpoint_is_on_the_disk(
    tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    apply = start_apply(tables)
    for table in ALL_TABLES:
        DeltaTable(table.path(tables)).create_checkpoint()
    apply_next(apply)
    epoch = apply.writer.epoch
    keep_snapshots(epoch, timedelta(0))
    entries = entries_of(tables)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        done = list(maintain_tables(epoch, timedelta(days=3650), now=NOW))
    assert all("Input/output error" in table.error for table in done)
    assert entries <= entries_of(tables)
    done = list(maintain_tables(epoch, timedelta(days=3650), now=NOW))
    assert not any(table.error for table in done)
    assert not entries <= entries_of(tables)


def age_all_but_the_last_entry(tables: str, *aged: Table) -> None:
    hour_ago = time.time() - 3_600
    for table in aged:
        for entry in log_entries(tables, table)[:-1]:
            os.utime(entry, (hour_ago, hour_ago))


@long
@pytest.mark.parametrize("table", [GROUP_OFFSETS, OFFSET_COMMITS, LOG_OFFSETS], ids=name)
def test_older_damage_is_refused(tables: str, table: Table) -> None:
    """Only the last minutes are given up; a disk that loses its data is for a person."""
    entry = log_entries(tables, table)[-2]
    cut(entry)
    age_all_but_the_last_entry(tables, table, LOAD_PROGRESS)
    refuses(tables, f"{entry}.* restore the folder from a backup")
    refused = call("maintain", "--tables", tables, exit_code=2)
    assert refused.stderr.count("\n") == 1


@long
def test_a_data_file_that_was_damaged_before_is_refused(tables: str) -> None:
    empty(Path(DeltaTable(OFFSET_COMMITS.path(tables), version=2).file_uris()[0]))
    age_all_but_the_last_entry(tables, LOAD_PROGRESS)
    refuses(tables, r"snapshots are missing or damaged \(offset_commits\), and no power loss")


@long
def test_a_table_that_somebody_deleted_is_refused(tables: str) -> None:
    shutil.rmtree(GROUP_OFFSETS.path(tables))
    refuses(tables, "group_offsets is missing")


@long
def test_a_failure_to_read_is_no_damage(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(tables: str, table: Table, version: int | None = None) -> DeltaTable:
        if table is GROUP_OFFSETS:
            raise TablesUnavailable("too many open files")
        return open_table(tables, table, version)

    open_table = delta.open_table
    monkeypatch.setattr(delta, "open_table", refused)
    refuses(tables, "too many open files")


@long
def test_a_load_progress_with_zeros_within_is_damaged(tables: str) -> None:
    zeroed_within(last_data_file(tables, LOAD_PROGRESS))
    goes_on(tables)


@long
def test_tables_without_load_progress_are_refused(tables: str) -> None:
    """Loading them again from the beginning would double the history."""
    for entry in log_of(tables, LOAD_PROGRESS).glob("*.json"):
        empty(entry)
    refuses(tables, r"has no load_progress, but .* has rows")


@long
@pytest.mark.parametrize("table", [GROUP_OFFSETS, LOG_OFFSETS, LOAD_PROGRESS], ids=name)
@damages
def test_tables_that_were_being_created(tmp_path: Path, table: Table, damage: Damage) -> None:
    tables = str(tmp_path / "new")
    create(tables)
    damage(last_entry(tables, table))
    with locked(tables):
        if not DeltaTable.is_deltatable(LOAD_PROGRESS.path(tables)):
            create(tables)
        apply = start_apply(tables)
        apply_next(apply)
        apply_next(apply)
    assert_undisturbed(tables)


@long
def test_readers_name_the_damaged_table(tables: str) -> None:
    cut(last_entry(tables, LOAD_PROGRESS))
    refused = call("show", "groups", "--tables", tables, exit_code=2)
    assert "load_progress" in refused.stderr
    assert refused.stderr.count("\n") == 1


# --- another program


def compact(tables: str, table: Table) -> None:
    """OPTIMIZE, and then VACUUM without a retention."""
    opened = DeltaTable(table.path(tables))
    opened.optimize.compact()
    opened.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


@pytest.mark.parametrize("compacted", [(OFFSET_COMMITS,), TABLES], ids=["a table", "every table"])
def test_nothing_committed_is_cut(
    tables: str, compacted: tuple[Table, ...], caplog: pytest.LogCaptureFixture
) -> None:
    for table in compacted:
        compact(tables, table)
    pinned = TableReader(tables).table_versions[OFFSET_COMMITS.name]
    files = DeltaTable(OFFSET_COMMITS.path(tables), version=pinned).file_uris()
    assert not any(Path(file).exists() for file in files)
    with caplog.at_level(logging.INFO):
        goes_on(tables, least=3)
    lines = [record.getMessage() for record in caplog.records]
    assert not [line for line in lines if "power loss" in line]
    after = [line for line in lines if "files were compacted after the newest snapshot" in line]
    assert len(after) == 1
    assert OFFSET_COMMITS.name in after[0]


def test_below_an_unfinished_micro_batch(tables: str) -> None:
    """The rollback ends at the compacted version, because the files of the snapshot are gone."""
    compact(tables, OFFSET_COMMITS)
    writer = Writer.of(WriterEpoch.take(tables, "test", at_least=1))
    rows = delta.read(tables, OFFSET_COMMITS)
    writer.append(OFFSET_COMMITS, rows)
    goes_on(tables, least=3)


def test_an_unfinished_micro_batch_that_cannot_be_rolled_back_is_refused(tables: str) -> None:
    """A VACUUM after its writes deletes the files of the snapshot; one line says so."""
    writer = Writer.of(WriterEpoch.take(tables, "test", at_least=1))
    writer.overwrite(GROUP_OFFSETS, delta.read(tables, GROUP_OFFSETS).slice(1))
    compact(tables, GROUP_OFFSETS)
    age_all_but_the_last_entry(tables, LOAD_PROGRESS)
    message = r"snapshots are missing or damaged \(group_offsets\).* VACUUM without a retention "
    refuses(tables, message)


def test_beside_damage(tables: str) -> None:
    """A power loss cuts a damaged table, and leaves the compacted one."""
    compact(tables, OFFSET_COMMITS)
    writer = Writer.of(WriterEpoch.take(tables, "test", at_least=1))
    writer.append(GROUP_EVENTS, delta.read(tables, GROUP_EVENTS))
    empty(last_entry(tables, GROUP_EVENTS))
    goes_on(tables, least=3)


def test_beside_a_run(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of the next minute names the new files, also of a table that gets no rows."""
    monkeypatch.setattr(micro_batch, "_WRITTEN_EVERY", timedelta(0))
    apply = start_apply(tables)
    apply_next(apply)
    compact(tables, QUARANTINE)
    with pytest.raises(TablesUnavailable, match="is missing"):
        TableReader(tables).read(QUARANTINE.name)
    apply.apply(table_of([progress_row(4 * RECORDS, 4 * RECORDS)]), 5, "query")
    assert_undisturbed(tables)


def test_a_snapshot_without_its_files_is_damaged(tables: str) -> None:
    """Files that a micro-batch replaced are not those of a compaction."""
    for file in DeltaTable(GROUP_OFFSETS.path(tables)).file_uris():
        Path(file).unlink()
    with locked(tables):
        apply = start_apply(tables)
    assert micro_batches(tables) < 3
    apply_next(apply)
    assert_undisturbed(tables)
