"""One writer for a tables folder: whoever opens it last, on this machine or in an object store."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from streaming.engine.micro_batch import MicroBatchApply
from streaming.errors import ConfigurationError, TablesReplaced, WriterFenced
from streaming.run.maintenance import maintain
from streaming.tables import maintenance
from streaming.tables import writer as writer_module
from streaming.tables.creation import keep_snapshots
from streaming.tables.maintenance import maintain_tables
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    QUARANTINE,
)
from streaming.tables.writer_epoch import WriterEpoch, epoch_of
from tests.support.brokers.object_store import served_object_store
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import (
    RECORDS,
    apply_next,
    assert_undisturbed,
    copy_of_load,
    create,
    create_without_copy,
    load,
)
from tests.support.tables.tables_folder import Crash, start_apply, versions_of


@pytest.fixture(scope="module")
def object_store() -> Iterator[dict[str, str]]:
    with served_object_store() as environment:
        yield environment


HERE, STORE = "on this machine", "in an object store"
WRITES = ("", GROUP_OFFSETS.name, OFFSET_COMMITS.name, PENDING_OFFSETS.name, LOAD_PROGRESS.name)
"""No write yet, and a table of each kind of write; `test_every_table_is_fenced` has the others."""


@pytest.fixture(params=[HERE, pytest.param(STORE, marks=pytest.mark.long)])
def tables(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder that does not exist yet."""
    if request.param == HERE:
        return str(tmp_path / "tables")
    for name, value in request.getfixturevalue("object_store").items():
        monkeypatch.setenv(name, value)
    return f"s3a://bucket/{tmp_path.name}"


@pytest.mark.parametrize(
    ("tables", "is_loaded", "table"),
    [
        *((HERE, True, name) for name in WRITES),
        (HERE, False, ""),
        pytest.param(HERE, False, GROUP_OFFSETS.name, marks=pytest.mark.long),
        pytest.param(HERE, False, LOAD_PROGRESS.name, marks=pytest.mark.long),
        pytest.param(STORE, True, OFFSET_COMMITS.name, marks=pytest.mark.long),
    ],
    indirect=["tables"],
)
def test_an_older_run_ends_at_its_next_commit(
    tables: str, tmp_path: Path, is_loaded: bool, table: str
) -> None:
    """The newer one takes over after the older one wrote a table, or between two micro-batches."""
    if is_loaded and "://" not in tables:
        copy_of_load(tmp_path, 1)
    else:
        load(tables, int(is_loaded))
    newer: list[MicroBatchApply[pa.Table]] = []

    def take_over() -> None:
        newer.append(start_apply(tables))
        apply_next(newer[0])

    older = start_apply(tables, fault=table, happens=take_over)
    if not table:
        take_over()
    if table == LOAD_PROGRESS.name:
        # The older one finished its micro-batch just before.
        apply_next(older)
    with pytest.raises(WriterFenced, match=r"has taken over .*\(test on .*, process"):
        apply_next(older)
    assert older.writer.epoch.is_fenced.is_set()
    apply_next(newer[0])
    assert_undisturbed(tables)


@pytest.mark.parametrize("fault", ["", OFFSET_COMMITS.name])
def test_a_micro_batch_while_a_newer_run_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The newer run has opened the tables, and fences them after the older one wrote to them."""
    tables = copy_of_load(tmp_path, 1)
    older = start_apply(tables, fault=fault)
    take = WriterEpoch.take

    def take_later(*arguments: Any, **options: Any) -> WriterEpoch:
        monkeypatch.undo()
        with pytest.raises(Crash) if fault else nullcontext():
            apply_next(older)
        return take(*arguments, **options)

    monkeypatch.setattr(WriterEpoch, "take", take_later)
    newer = start_apply(tables)
    if fault:
        apply_next(newer)
    with pytest.raises(WriterFenced):
        apply_next(older)
    assert_undisturbed(tables)


@pytest.mark.release
@pytest.mark.long
def test_a_commit_under_way_is_fenced_too(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer run takes over between the check of the epoch and the commit, of each write."""
    create(tables)
    write = write_deltalake
    fenced = Counter[str]()

    def overtaken(opened: DeltaTable, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(writer_module, "write_deltalake", write)
        fenced[options["mode"]] += 1
        apply_next(start_apply(tables))
        write(opened, *arguments, **options)

    writes = range(9) if "://" not in tables else (0, 8)
    for skipped in writes:
        older = start_apply(tables)
        left = iter(range(skipped))

        def after_some(*arguments: Any, left: Iterator[int] = left, **options: Any) -> None:
            (write if next(left, None) is not None else overtaken)(*arguments, **options)

        monkeypatch.setattr(writer_module, "write_deltalake", after_some)
        with pytest.raises(WriterFenced):
            apply_next(older)
    assert sum(fenced.values()) == len(writes)
    assert len(fenced) == 2 or "://" in tables
    assert_undisturbed(tables)


@pytest.mark.release
def test_runs_that_start_at_the_same_time(tables: str) -> None:
    """Each creates the tables, takes an epoch and applies micro-batches until it is fenced."""
    runs = 3
    barrier = threading.Barrier(runs)

    def run() -> int | None:
        barrier.wait()
        create_without_copy(tables)
        try:
            apply = start_apply(tables)
            while apply.progress.batch_id < 3:
                apply_next(apply)
        except WriterFenced:
            return None
        return apply.writer.epoch.number

    with ThreadPoolExecutor(runs) as pool:
        ended = [future.result() for future in [pool.submit(run) for _ in range(runs)]]
    assert [number for number in ended if number is not None] == [runs]
    assert epoch_of(DeltaTable(LOAD_PROGRESS.path(tables))) == runs
    assert len(DeltaTable(LOAD_PROGRESS.path(tables)).history()) > runs
    assert_undisturbed(tables)


@pytest.mark.release
def test_the_epoch_outlives_checkpoints_of_the_delta_log(tables: str) -> None:
    create(tables)
    older, newer = (open_for_writing(tables, "test") for _ in range(2))
    keep_snapshots(newer.epoch, timedelta(0))
    for table in ALL_TABLES:
        opened = DeltaTable(table.path(tables))
        opened.create_checkpoint()
        opened.cleanup_metadata()
        assert epoch_of(DeltaTable(table.path(tables))) == newer.epoch.number == 2
    with pytest.raises(WriterFenced):
        older.overwrite(PENDING_OFFSETS, PENDING_OFFSETS.schema.empty_table())


def test_every_table_is_fenced(tmp_path: Path) -> None:
    tables = str(tmp_path)
    create(tables)
    older = open_for_writing(tables, "test")
    older.append(LOG_OFFSETS, LOG_OFFSETS.schema.empty_table())
    open_for_writing(tables, "test")
    versions = versions_of(tables)
    for table in ALL_TABLES:
        with pytest.raises(WriterFenced):
            older.append(table, table.schema.empty_table())
        with pytest.raises(WriterFenced):
            older.restore(table, 0)
    with pytest.raises(WriterFenced):
        keep_snapshots(older.epoch, timedelta(0))
    assert versions == versions_of(tables)


def test_maintenance_of_an_older_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MOST_SMALL_FILES", 1)
    tables = copy_of_load(tmp_path, 2)
    older, _ = start_apply(tables), start_apply(tables)
    before = DeltaTable(OFFSET_COMMITS.path(tables)).version()
    with pytest.raises(WriterFenced):
        list(maintain_tables(older.writer.epoch, timedelta(0), now=datetime.now(timezone.utc)))
    assert DeltaTable(OFFSET_COMMITS.path(tables)).version() == before


@pytest.mark.long
def test_maintenance_and_the_query_of_a_run_do_not_fence_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`maintain` beside a `run` in a store, and the maintenance of the `run` itself."""
    monkeypatch.setattr(maintenance, "MOST_SMALL_FILES", 1)
    tables = copy_of_load(tmp_path, 2)
    apply = start_apply(tables)
    begun = WriterEpoch.current(tables)
    apply_next(apply)
    done = maintain_tables(begun, timedelta(days=36_500), now=datetime.now(timezone.utc))
    compacted = {table.table: table.files_compacted for table in done if not table.error}
    assert compacted[OFFSET_COMMITS.name] > 1
    apply_next(apply)
    list(maintain(tables, history_retention=timedelta(days=36_500)))
    apply_next(apply)
    assert not apply.writer.epoch.is_fenced.is_set()


def test_an_unfinished_micro_batch_is_rolled_back_and_nothing_else(tmp_path: Path) -> None:
    tables = copy_of_load(tmp_path, 1)
    versions = TableReader(tables).table_versions
    with pytest.raises(Crash):
        apply_next(start_apply(tables, fault=OFFSET_COMMITS.name))
    start_apply(tables)
    operations = {
        table.name: [c["operation"] for c in DeltaTable(table.path(tables)).history()]
        for table in ALL_TABLES
    }
    assert operations[GROUP_OFFSETS.name][0] == "RESTORE"
    assert "RESTORE" not in operations[PENDING_OFFSETS.name]
    again = TableReader(tables).table_versions
    assert again[GROUP_OFFSETS.name] > versions[GROUP_OFFSETS.name]
    before = versions_of(tables)
    start_apply(tables)
    assert versions_of(tables) == {name: version + 1 for name, version in before.items()}


def replace(tables: str, copy: Path) -> None:
    shutil.rmtree(tables)
    copy.rename(tables)


@pytest.mark.parametrize("has_same_epoch", [True, False])
def test_a_run_ends_if_an_older_copy_replaces_its_folder(
    tmp_path: Path, has_same_epoch: bool
) -> None:
    tables, copy = copy_of_load(tmp_path, 1), tmp_path / "copy"
    if not has_same_epoch:
        shutil.copytree(tables, copy)
    run = start_apply(tables)
    apply_next(run)
    if has_same_epoch:
        shutil.copytree(tables, copy)
    apply_next(run)
    replace(tables, copy)
    epoch = run.writer.epoch
    with pytest.raises(TablesReplaced, match=r"load_progress is not as this process wrote it"):
        epoch.require_current()
    assert epoch.is_fenced.is_set()
    # A table may even be unreadable at the version that the run knows.
    with pytest.raises(ConfigurationError):
        apply_next(run)
    # The next run continues from the copy.
    later = start_apply(tables)
    while later.progress.rows[LOG_PARTITION].next_offset < 3 * RECORDS:
        apply_next(later)
    assert_undisturbed(tables)


def test_a_run_ends_if_a_newer_copy_with_its_epoch_replaces_its_folder(tmp_path: Path) -> None:
    tables, copy = copy_of_load(tmp_path, 1), tmp_path / "copy"
    shutil.copytree(tables, copy)
    run, other = start_apply(tables), start_apply(str(copy))
    assert run.writer.epoch.number == other.writer.epoch.number
    apply_next(run)
    apply_next(other)
    apply_next(other)
    replace(tables, copy)
    with pytest.raises(TablesReplaced):
        apply_next(run)
    # The reason stays known, whichever table is looked at.
    with pytest.raises(TablesReplaced):
        run.writer.epoch.require_current()


def test_a_deletion_of_no_row_is_no_write(tmp_path: Path) -> None:
    """delta-rs commits nothing then, so the table keeps its last write."""
    tables = copy_of_load(tmp_path, 1)
    run = start_apply(tables)
    apply_next(run)
    for _ in range(2):
        run.writer.delete_from(QUARANTINE, {LOG_PARTITION: 1_000_000})
    run.writer.append(QUARANTINE, QUARANTINE.schema.empty_table())
    run.writer.epoch.require_current(QUARANTINE)
