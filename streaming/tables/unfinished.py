"""Rollback of an unfinished micro-batch, and the versions of compacted tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from deltalake import DeltaTable

from streaming.tables import delta
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, TABLES, Table
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import last_row_write, with_same_rows

logger = logging.getLogger(__name__)


def roll_back(writer: Writer, opened: Mapping[Table, DeltaTable] | None = None) -> bool:
    """Restore every table that was written after the newest snapshot.

    A micro-batch writes table by table, `load_progress` last. If its process stops in between, or
    is fenced, the first tables are one micro-batch ahead of the others. The rollback may also undo
    compaction and deletion of old days; maintenance repeats them.

    Args:
        writer: the writer of the folder.
        opened: tables that are open already, with their newest rows.

    Returns:
        Whether the newest version of a table has other files than the version that `load_progress`
        names: it was restored, or compacted after the snapshot. `pin` names the newest version.
        Another program that compacted the table may delete the older files.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    pinned = TableReader(writer.tables, any_format=True).table_versions
    restored, compacted = [], []
    for table in TABLES:
        # A table that no snapshot names is still at version 0, without rows.
        version = pinned.get(table.name, 0)
        if table is LOAD_PROGRESS:
            continue
        newest = (opened or {}).get(table) or delta.open_table(writer.tables, table)
        if newest.version() == version:
            continue
        snapshot = delta.open_table(writer.tables, table, version)
        if last_row_write(newest) != last_row_write(snapshot):
            with_rows = with_same_rows(writer.tables, table, version, newest.version())
            writer.restore(table, next(with_rows, version))
            restored.append(table.name)
        elif _has_other_files(newest, snapshot):
            compacted.append(table.name)
    if restored:
        logger.info(
            "rolled back an unfinished micro-batch in %(tables)s", {"tables": ", ".join(restored)}
        )
    if compacted:
        logger.info(
            "%(tables)s: files were compacted after the newest snapshot, which has the same rows",
            {"tables": ", ".join(compacted)},
        )
    return bool(restored or compacted)


def _has_other_files(newest: DeltaTable, snapshot: DeltaTable) -> bool:
    return set(newest.file_uris()) != set(snapshot.file_uris())


def compacted_versions(tables: str, pinned: Mapping[str, int]) -> dict[str, int]:
    """The newest version of each table that has the rows of a snapshot in other files.

    Maintenance or another program has compacted it. The other program may delete the files of the
    older version, so the next snapshot should name the newer one.

    Args:
        tables: the tables folder.
        pinned: the version of each table in the newest snapshot.

    Raises:
        TablesUnavailable: a table cannot be read.
    """
    versions = {}
    for table in TABLES:
        if table is LOAD_PROGRESS:
            continue
        newest, version = delta.open_table(tables, table), pinned.get(table.name, 0)
        if newest.version() == version:
            continue
        snapshot = delta.open_table(tables, table, version)
        has_same_rows = last_row_write(newest) == last_row_write(snapshot)
        if has_same_rows and _has_other_files(newest, snapshot):
            versions[table.name] = newest.version()
    return versions


def pin(writer: Writer) -> None:
    """Write the current version of each table to `load_progress`; the rows are unchanged.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    progress = LoadProgress.read(TableReader(writer.tables, any_format=True))
    if not progress.rows:
        return
    for table in TABLES:
        if table is not LOAD_PROGRESS:
            version = delta.current_version(writer.tables, table)
            progress.table_versions[table.name] = version
    # Nothing new was read from the log.
    progress.write(writer, now=progress.updated_at)
