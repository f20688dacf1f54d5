"""The writes of a micro-batch by Delta Lake on Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.engine.spark.spark_commits import commit_once
from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.written_tables import MERGED
from streaming.tables.schemas import PENDING_OFFSETS, QUARANTINE, Table
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWrites:
    """Writes planned rows to the tables of a folder, each table in one commit.

    Attributes:
        writer: the writer of the folder.
        tables: the tables of the folder.
        sessions: a session for each table, by its name. The id of a write is a setting of its
            session.
        log_partitions: the log partitions of the micro-batch.
        replaced: the first record offset that the tables of history lack, for each log partition
            whose reload is complete.
        replaced_from: the first record offset that the reload of each of them has read.
    """

    writer: Writer
    tables: SparkTables
    sessions: Mapping[str, SparkSession]
    log_partitions: Collection[int]
    replaced: Mapping[int, int]
    replaced_from: Mapping[int, int]

    def write(self, table: Table, planned: Callable[[SparkSession], DataFrame]) -> int:
        """Write the planned rows of a table; return its new version.

        Args:
            table: any table except `pending_offsets` and `load_progress`.
            planned: returns the rows (`planned_columns`) in a session.
        """
        if table in MERGED:
            return self._commit(table, lambda session: self._merge(session, table, planned))
        if table is QUARANTINE and self.replaced:
            self.writer.delete_from(QUARANTINE, self.replaced_from)
        return self._commit(table, lambda session: self._append(session, table, planned))

    def replace_pending(
        self, log_partitions: Collection[int], planned: Callable[[SparkSession], DataFrame]
    ) -> int:
        """Replace the pending offsets of log partitions."""
        is_theirs = _is_in("log_partition", log_partitions)

        def action(session: SparkSession) -> None:
            self.tables.replace(planned(session).where(is_theirs), PENDING_OFFSETS, is_theirs)

        return self._commit(PENDING_OFFSETS, action)

    def _merge(
        self, session: SparkSession, table: Table, planned: Callable[[SparkSession], DataFrame]
    ) -> None:
        guard, deletes = MERGED[table]
        values: dict[str, str | Column] = {name: f"s.{name}" for name in table.schema.names}
        deletes_row = "false" if deletes is None else f"coalesce(s.{deletes}, false)"
        is_replaced = _is_in("t.log_partition", self.replaced)
        is_newer = f"(s.{guard} >= t.record_offset OR {is_replaced})"
        # Delta skips files by the log partitions in the condition.
        is_same = [_is_in("t.log_partition", self.log_partitions)]
        is_same += [f"t.{name} = s.{name}" for name in table.key]
        merging = (
            self.tables.opened(session, table)
            .alias("t")
            .merge(planned(session).alias("s"), " AND ".join(is_same))
            .whenMatchedDelete(f"{deletes_row} AND {is_newer}")
            .whenMatchedUpdate(f"NOT {deletes_row} AND {is_newer}", values)
            .whenNotMatchedInsert(f"NOT {deletes_row}", values)
        )
        if self.replaced:
            merging = merging.whenNotMatchedBySourceDelete(is_replaced)
        merging.execute()

    def _append(
        self, session: SparkSession, table: Table, planned: Callable[[SparkSession], DataFrame]
    ) -> None:
        self.tables.append(planned(session).select(table.schema.names), table)

    def _commit(self, table: Table, action: Callable[[SparkSession], None]) -> int:
        """Commit a write exactly once; see `commit_once`."""
        session = self.sessions[table.name]
        return commit_once(
            self.writer, self.tables, session, table, action, compacts=table in MERGED
        )


def _is_in(column: str, log_partitions: Collection[int]) -> str:
    return f"{column} IN ({', '.join(map(str, sorted(log_partitions))) or 'NULL'})"
