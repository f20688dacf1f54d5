"""The opening of a tables folder for writing."""

from __future__ import annotations

from deltalake import DeltaTable

from streaming.tables import delta
from streaming.tables.creation import create_missing
from streaming.tables.format_version import require_migratable
from streaming.tables.locations import local_path
from streaming.tables.migration import add_columns, migrate
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    EXTERNAL_OFFSETS,
    FORMAT_VERSION,
    LOAD_PROGRESS,
    Table,
)
from streaming.tables.unfinished import pin, roll_back
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch, epoch_of


def open_for_writing(tables: str, holder: str) -> Writer:
    """Take over a folder: fence its older writer, roll back its unfinished micro-batch, migrate.

    Args:
        tables: the tables folder, which has tables.
        holder: the command that takes over; the fenced writer names it in its last message.

    Raises:
        ConfigurationError: there are no tables, or they cannot be migrated.
        WriterFenced: a newer writer has taken over meanwhile.
        TablesUnavailable: a table is missing, or cannot be read or written.
    """
    format_version = TableReader(tables, any_format=True).format_version
    require_migratable(tables, format_version)
    opened = _opened(tables)
    newest_epoch = max(map(epoch_of, opened.values()), default=0)
    epoch = WriterEpoch.take(tables, holder, at_least=newest_epoch)
    # Earlier releases of this format version lack `external_offsets`; no reader needs it.
    if format_version != FORMAT_VERSION or not _has(tables, EXTERNAL_OFFSETS):
        create_missing(tables)
    others = [table for table in ALL_TABLES if table is not LOAD_PROGRESS]
    fenced = epoch.fence(others, holder, opened)
    writer = Writer.of(epoch)
    is_other = roll_back(writer, fenced)
    if format_version != FORMAT_VERSION:
        migrate(writer, format_version)
    elif is_other:
        _pin_newest(writer)
    return writer


def recover(writer: Writer) -> None:
    """Roll back an unfinished micro-batch, so the next one begins at a snapshot.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    writer.epoch.require_current()
    if roll_back(writer):
        _pin_newest(writer)


def _pin_newest(writer: Writer) -> None:
    # A table without a write since its migration is restored to a version before it.
    add_columns(writer.epoch)
    pin(writer)


def _has(tables: str, table: Table) -> bool:
    with delta.reading(tables):
        return DeltaTable.is_deltatable(table.path(tables))


def _opened(tables: str) -> dict[Table, DeltaTable]:
    """The tables of a local folder: a power loss may have removed an epoch from `load_progress`."""
    if local_path(tables) is None:
        return {}
    return {
        table: DeltaTable(table.path(tables))
        for table in ALL_TABLES
        if DeltaTable.is_deltatable(table.path(tables))
    }
