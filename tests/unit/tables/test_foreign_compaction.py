"""A start after another program compacted tables and deleted the files that it replaced."""

from __future__ import annotations

import logging
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from streaming.engine import micro_batch
from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.folder import locked
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_EVENTS,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    OFFSET_COMMITS,
    QUARANTINE,
    TABLES,
    Table,
)
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.logs.log_rows import progress_row, table_of
from tests.support.tables.every_table import (
    RECORDS,
    apply_next,
    assert_undisturbed,
    copy_of_load,
    micro_batches,
)
from tests.support.tables.tables_folder import start_apply


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return copy_of_load(tmp_path, 3)


def compact(tables: str, table: Table) -> None:
    """OPTIMIZE, and then VACUUM without a retention."""
    opened = DeltaTable(table.path(tables))
    opened.optimize.compact()
    opened.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def goes_on(tables: str) -> None:
    """A start keeps all micro-batches, and readers can read before the next one."""
    with locked(tables):
        apply = start_apply(tables)
    assert micro_batches(tables) == 3
    assert_undisturbed(tables)
    apply_next(apply)
    assert_undisturbed(tables)


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
        goes_on(tables)
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
    goes_on(tables)


def test_an_unfinished_micro_batch_that_cannot_be_rolled_back_is_refused(tables: str) -> None:
    """A VACUUM after its writes deletes the files of the snapshot; one line says so."""
    writer = Writer.of(WriterEpoch.take(tables, "test", at_least=1))
    writer.overwrite(GROUP_OFFSETS, delta.read(tables, GROUP_OFFSETS).slice(1))
    compact(tables, GROUP_OFFSETS)
    hour_ago = time.time() - 3_600
    for entry in sorted(Path(LOAD_PROGRESS.path(tables), "_delta_log").glob("*.json"))[:-1]:
        os.utime(entry, (hour_ago, hour_ago))
    entries = sorted(Path(tables).rglob("_delta_log/*.json"))
    message = r"snapshots are missing or damaged \(group_offsets\).* VACUUM without a retention "
    with pytest.raises(TablesUnavailable, match=message), locked(tables):
        pass
    assert sorted(Path(tables).rglob("_delta_log/*.json")) == entries


def test_beside_damage(tables: str) -> None:
    """A power loss cuts a damaged table, and leaves the compacted one."""
    compact(tables, OFFSET_COMMITS)
    writer = Writer.of(WriterEpoch.take(tables, "test", at_least=1))
    writer.append(GROUP_EVENTS, delta.read(tables, GROUP_EVENTS))
    max(Path(GROUP_EVENTS.path(tables), "_delta_log").glob("*.json")).write_bytes(b"")
    goes_on(tables)


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
