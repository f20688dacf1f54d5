"""A start after a power loss, which left files empty, cut, zeroed or missing."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.lag.unwritten_samples import rows_of
from streaming.tables import delta, maintenance
from streaming.tables.creation import keep_snapshots
from streaming.tables.folder import locked
from streaming.tables.maintenance import maintain_tables
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    TABLES,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.clients.command_line import call
from tests.support.tables.every_table import (
    apply_next,
    assert_undisturbed,
    copy_of_load,
    create,
    micro_batches,
)
from tests.support.tables.tables_folder import NOW, start_apply, with_defaults

pytestmark = pytest.mark.long


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


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": empty,
    "cut": cut,
    "zeroed": zeroed,
    "missing": Path.unlink,
}
damages = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def each_with_a_damage(tables: Sequence[Table], *every: Table) -> list[Any]:
    """The damages take turns with the tables; some tables have all of them. CI tries a third."""
    return [
        pytest.param(
            table,
            damage,
            id=f"{table.name}-{name}",
            marks=[pytest.mark.release] if number % 3 and table not in every else [],
        )
        for index, table in enumerate(tables)
        for number, (name, damage) in enumerate(DAMAGES.items())
        if table in every or number == index % len(DAMAGES)
    ]


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """Three micro-batches; a test damages the last of them."""
    return copy_of_load(tmp_path, 3)


def log_of(tables: str, table: Table) -> Path:
    return Path(table.path(tables), "_delta_log")


def last_entry(tables: str, table: Table) -> Path:
    return max(log_of(tables, table).glob("*.json"))


def last_data_file(tables: str, table: Table) -> Path:
    entry = last_entry(tables, table)
    while True:
        actions = map(json.loads, entry.read_text().splitlines())
        added = [action["add"]["path"] for action in actions if "add" in action]
        if added:
            return Path(table.path(tables), added[0])
        entry = entry.with_name(f"{int(entry.stem) - 1:020}.json")


def goes_on(tables: str, least: int = 2) -> None:
    """A start rolls back by as little as possible, and ends in the tables of any other load."""
    with locked(tables):
        apply = start_apply(tables)
    assert micro_batches(tables) >= least
    for _ in range(2):
        apply_next(apply)
    assert_undisturbed(tables)


@pytest.mark.parametrize("file_of", [last_entry, last_data_file])
@pytest.mark.parametrize(
    ("table", "damage"), each_with_a_damage(TABLES, GROUP_OFFSETS, LOAD_PROGRESS)
)
def test_the_last_file_of_a_table(
    tables: str,
    file_of: Callable[[str, Table], Path],
    table: Table,
    damage: Callable[[Path], None],
) -> None:
    damage(file_of(tables, table))
    goes_on(tables)


def test_it_says_so(tables: str, caplog: pytest.LogCaptureFixture) -> None:
    entry = last_entry(tables, GROUP_OFFSETS)
    empty(entry)
    newest = last_entry(tables, LOAD_PROGRESS)
    with locked(tables):
        pass
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for deleted in (entry, newest):
        assert f"deleted {deleted}: a power loss damaged it or a file of its snapshot" in lines


def test_what_is_whole_stays(tables: str, caplog: pytest.LogCaptureFixture) -> None:
    before = {file: file.stat().st_mtime_ns for file in Path(tables).rglob("*") if file.is_file()}
    with locked(tables):
        pass
    after = {file: file.stat().st_mtime_ns for file in Path(tables).rglob("*") if file.is_file()}
    assert {**after, **before} == after
    assert caplog.records == []


@damages
def test_a_checkpoint_of_the_delta_log(tables: str, damage: Callable[[Path], None]) -> None:
    for table in TABLES:
        DeltaTable(table.path(tables)).create_checkpoint()
    apply_next(start_apply(tables))
    for table in TABLES:
        (checkpoint,) = log_of(tables, table).glob("*.checkpoint.parquet")
        damage(checkpoint)
        damage(log_of(tables, table) / "_last_checkpoint")
    goes_on(tables, least=4)


@damages
def test_files_that_maintenance_compacted(
    tables: str, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    """The snapshot is of the files before, which are there."""
    monkeypatch.setattr(maintenance, "MOST_SMALL_FILES", 2)
    list(maintain_tables(WriterEpoch.current(tables), timedelta(days=3650), now=NOW))
    assert DeltaTable(OFFSET_COMMITS.path(tables)).history()[0]["operation"] == "OPTIMIZE"
    damage(last_data_file(tables, OFFSET_COMMITS))
    goes_on(tables, least=3)


@damages
def test_samples(tables: str, damage: Callable[[Path], None]) -> None:
    """They belong to no snapshot: the last ones are lost, and the others stay."""
    writer = open_for_writing(tables, "test")
    nothing = rows_of([])
    for count in (1, 2):
        row = with_defaults(LOG_OFFSETS.name, {"topic": "t", "partition": count, "sampled_at": NOW})
        writer.append(LOG_OFFSETS, pa.Table.from_pylist([row], schema=nothing.schema))
    damage(last_data_file(tables, LOG_OFFSETS))
    goes_on(tables, least=3)
    assert TableReader(tables).read(LOG_OFFSETS.name)["partition"].to_pylist() == [1]


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
            choose.choice([*DAMAGES.values()])(file)
    goes_on(tables, least=4)


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
    entries = set(Path(tables).rglob("_delta_log/*.json"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        done = list(maintain_tables(epoch, timedelta(days=3650), now=NOW))
    assert all("Input/output error" in table.error for table in done)
    assert entries <= set(Path(tables).rglob("_delta_log/*.json"))
    done = list(maintain_tables(epoch, timedelta(days=3650), now=NOW))
    assert not any(table.error for table in done)
    assert not entries <= set(Path(tables).rglob("_delta_log/*.json"))


def age_all_but_the_last_entry(tables: str, table: Table) -> None:
    hour_ago = time.time() - 3_600
    for entry in sorted(log_of(tables, table).glob("*.json"))[:-1]:
        os.utime(entry, (hour_ago, hour_ago))


@pytest.mark.parametrize("table", [GROUP_OFFSETS, OFFSET_COMMITS, LOG_OFFSETS], ids=str)
def test_older_damage_is_refused(tables: str, table: Table) -> None:
    """Only the last minutes are given up; a disk that loses its data is for a person."""
    entry = sorted(log_of(tables, table).glob("*.json"))[-2]
    cut(entry)
    for aged in (table, LOAD_PROGRESS):
        age_all_but_the_last_entry(tables, aged)
    entries = sorted(Path(tables).rglob("_delta_log/*.json"))
    refused = call("redecode", "--tables", tables, exit_code=2)
    assert str(entry) in refused.stderr
    assert "restore the folder from a backup" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert sorted(Path(tables).rglob("_delta_log/*.json")) == entries


def test_a_data_file_that_was_damaged_before_is_refused(tables: str) -> None:
    empty(Path(DeltaTable(OFFSET_COMMITS.path(tables), version=2).file_uris()[0]))
    age_all_but_the_last_entry(tables, LOAD_PROGRESS)
    refused = call("redecode", "--tables", tables, exit_code=2)
    assert "snapshots are missing or damaged (offset_commits), and no power loss" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_table_that_somebody_deleted_is_refused(tables: str) -> None:
    shutil.rmtree(GROUP_OFFSETS.path(tables))
    entries = sorted(Path(tables).rglob("_delta_log/*.json"))
    with pytest.raises(TablesUnavailable, match="group_offsets is missing"), locked(tables):
        pass
    assert sorted(Path(tables).rglob("_delta_log/*.json")) == entries


def test_a_failure_to_read_is_no_damage(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = sorted(Path(tables).rglob("_delta_log/*.json"))

    def refused(tables: str, table: Table, version: int | None = None) -> DeltaTable:
        if table is GROUP_OFFSETS:
            raise TablesUnavailable("too many open files")
        return open_table(tables, table, version)

    open_table = delta.open_table
    with monkeypatch.context() as patched:
        patched.setattr(delta, "open_table", refused)
        with pytest.raises(TablesUnavailable, match="too many open files"), locked(tables):
            pass
    assert sorted(Path(tables).rglob("_delta_log/*.json")) == entries


@pytest.mark.parametrize("damage", [Path.unlink, zeroed_within])
def test_a_damaged_checkpoint_costs_nothing(tables: str, damage: Callable[[Path], None]) -> None:
    """Its hint is there still."""
    DeltaTable(GROUP_OFFSETS.path(tables)).create_checkpoint()
    log = log_of(tables, GROUP_OFFSETS)
    hint = (log / "_last_checkpoint").read_bytes()
    apply_next(start_apply(tables))
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    damage(checkpoint)
    (log / "_last_checkpoint").write_bytes(hint)
    goes_on(tables, least=4)


def test_a_load_progress_with_zeros_within_is_damaged(tables: str) -> None:
    zeroed_within(last_data_file(tables, LOAD_PROGRESS))
    goes_on(tables)


def test_tables_without_load_progress_are_refused(tables: str) -> None:
    """Loading them again from the beginning would double the history."""
    for entry in log_of(tables, LOAD_PROGRESS).glob("*.json"):
        empty(entry)
    with (
        pytest.raises(TablesUnavailable, match=r"has no load_progress, but .* has rows"),
        locked(tables),
    ):
        pass


@pytest.mark.parametrize(("table", "damage"), each_with_a_damage(ALL_TABLES, LOAD_PROGRESS))
def test_tables_that_were_being_created(
    tmp_path: Path, table: Table, damage: Callable[[Path], None]
) -> None:
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


def test_readers_name_the_damaged_table(tables: str) -> None:
    cut(last_entry(tables, LOAD_PROGRESS))
    refused = call("show", "groups", "--tables", tables, exit_code=2)
    assert "load_progress" in refused.stderr
    assert refused.stderr.count("\n") == 1
    with pytest.raises(ConfigurationError):
        TableReader(tables)
