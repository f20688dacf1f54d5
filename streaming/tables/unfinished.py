"""Rollback of an unfinished micro-batch."""

from __future__ import annotations

import logging

from deltalake import DeltaTable

from streaming.tables import delta
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, TABLES
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import with_same_rows

logger = logging.getLogger(__name__)


def roll_back(writer: Writer) -> bool:
    """Restore every table that was written after the newest snapshot.

    A micro-batch writes table by table, `load_progress` last. If its process stops in between, or
    is fenced, the first tables are one micro-batch ahead of the others. The rollback may also undo
    compaction and deletion of old days; maintenance repeats them.

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
        newest = delta.open_table(writer.tables, table)
        if table is LOAD_PROGRESS or newest.version() == version:
            continue
        later = with_same_rows(writer.tables, table, version, newest.version())
        last = next(later, version)
        if last != newest.version():
            writer.restore(table, last)
            restored.append(table.name)
        elif _files(newest) != _files(delta.open_table(writer.tables, table, version)):
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


def _files(opened: DeltaTable) -> set[str]:
    return set(opened.file_uris())
