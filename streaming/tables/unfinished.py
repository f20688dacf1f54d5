"""Rollback of an unfinished micro-batch."""

from __future__ import annotations

import logging

from streaming.tables import delta
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, TABLES, Table
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import last_row_write

logger = logging.getLogger(__name__)


def roll_back(writer: Writer) -> bool:
    """Restore every table that was written after the newest snapshot.

    A micro-batch writes table by table, `load_progress` last. If its process stops in between, or
    is fenced, the first tables are one micro-batch ahead of the others. The rollback may also undo
    compaction and deletion of old days; maintenance repeats them.

    Returns:
        Whether a table was restored. `load_progress` still names the version before the unfinished
        micro-batch, which has the same rows; `pin` names the restored version.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    pinned = TableReader(writer.tables, any_format=True).table_versions
    restored = []
    for table in TABLES:
        # A table that no snapshot names is still at version 0, without rows.
        version = pinned.get(table.name, 0)
        if table is not LOAD_PROGRESS and _is_changed_since(writer.tables, table, version):
            writer.restore(table, version)
            restored.append(table.name)
    if restored:
        logger.info(
            "rolled back an unfinished micro-batch in %(tables)s", {"tables": ", ".join(restored)}
        )
    return bool(restored)


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


def _is_changed_since(tables: str, table: Table, version: int) -> bool:
    """Whether rows of a table were written after a version."""
    newest = delta.open_table(tables, table)
    if newest.version() == version:
        return False
    return last_row_write(newest) != last_row_write(delta.open_table(tables, table, version))
