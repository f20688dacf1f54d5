"""Commits of Delta Lake on Spark, each exactly once and by the current writer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.spark.upkeep import compact, needs_compaction
from streaming.errors import TablesUnavailable
from streaming.tables import delta
from streaming.tables.schemas import Table
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WRITER, committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRANSACTION = "spark.databricks.delta.write.txnAppId"
_TRANSACTION_VERSION = "spark.databricks.delta.write.txnVersion"


def commit_once(
    writer: Writer,
    tables: SparkTables,
    session: SparkSession,
    table: Table,
    action: Callable[[SparkSession], None],
    *,
    compacts: bool,
) -> int:
    """Commit a write exactly once; a conflict with maintenance is retried.

    The commit carries the number of its write as a Delta transaction, as those of `Writer` do. So a
    write that was committed is not repeated, and an older writer is fenced, with either engine.

    Args:
        writer: the writer of the folder.
        tables: its tables.
        session: a session that nothing else uses meanwhile: the number is a setting of it.
        table: the table.
        action: writes the table in the session, in one commit.
        compacts: whether to compact the table after the write, if it has too many files.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: the table cannot be written.
    """
    from delta import exceptions

    # delta-spark has no common class of them.
    conflicts = (
        exceptions.ConcurrentAppendException,
        exceptions.ConcurrentDeleteDeleteException,
        exceptions.ConcurrentDeleteReadException,
        exceptions.ConcurrentTransactionException,
        exceptions.ConcurrentWriteException,
        exceptions.DeltaConcurrentModificationException,
        exceptions.MetadataChangedException,
        exceptions.ProtocolChangedException,
    )
    folder, epoch, number = writer.tables, writer.epoch, writer.next_number()
    session.conf.set(_TRANSACTION, WRITER)
    session.conf.set(_TRANSACTION_VERSION, str(number))

    def write_once(opened: DeltaTable) -> None:
        if epoch.is_due(opened, table, number):
            try:
                action(session)
            except conflicts as error:
                raise CommitFailedError(str(error)) from error

    committed(folder, table, write_once)
    opened = delta.open_table(folder, table)
    if epoch.last_write(opened) < number:
        path = table.path(folder)
        raise TablesUnavailable(f"cannot write {path}: the commit of Spark is not in its log")
    epoch.note_commit(table, number)
    if compacts and needs_compaction(opened):
        with suppress(*conflicts):
            # After a conflict, the next write compacts the table.
            compact(session, tables.in_sql(table), opened)
        opened.update_incremental()
    return opened.version()
