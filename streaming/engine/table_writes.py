"""The writes of a micro-batch, and the new versions of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import is_below
from coordinator_state.apply.log_partitions import Applied
from streaming.engine.written_tables import HISTORY, MERGED, Merge
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import PENDING_OFFSETS, QUARANTINE, Table
from streaming.tables.writer import Writer


@dataclass(frozen=True, slots=True)
class TableWrites:
    """Writes to the tables of a folder; `progress` keeps their versions.

    `replaced` maps each log partition whose reload is complete to the first record offset that the
    tables of history lack: they get only rows from there on. In tables of keys and the quarantine,
    the written rows replace all rows of these log partitions, except quarantined rows about lost
    records. `rows` has the number of written rows by table.
    """

    writer: Writer
    progress: LoadProgress
    replaced: Mapping[int, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def write(
        self, applied: Applied, from_offsets: Mapping[int, int], *, is_pending_changed: bool
    ) -> None:
        """Write the changes of a micro-batch, table by table.

        `from_offsets` has the first record offset that was read of each log partition.
        """
        for table in MERGED:
            self.merge(table, getattr(applied, table.name))
        for table, column in HISTORY.items():
            self._history(table, getattr(applied, table.name), column)
        self._quarantine(applied.quarantine, from_offsets)
        if is_pending_changed or self.replaced:
            version = self.writer.overwrite(PENDING_OFFSETS, applied.pending_offsets)
            self._wrote(PENDING_OFFSETS, version, applied.pending_offsets.num_rows)
        self.writer.on_table(PENDING_OFFSETS.name)

    def merge(self, table: Table, rows: pa.Table, columns: Merge | None = None) -> None:
        """MERGE rows with times in milliseconds, by default as `MERGED` says."""
        guard, deletes = columns or MERGED[table]
        if rows.num_rows or self.replaced:
            version = self.writer.merge(
                table, rows, guard=guard, deletes=deletes, replaced=self.replaced
            )
            self._wrote(table, version, rows.num_rows)
        self.writer.on_table(table.name)

    def _history(self, table: Table, rows: pa.Table, column: str) -> None:
        """Append rows that the table does not have yet, by their record offset in the column."""
        if self.replaced:
            rows = rows.filter(pc.invert(is_below(rows, column, self.replaced)))
        self.append(table, rows)

    def _quarantine(self, rows: pa.Table, from_offsets: Mapping[int, int]) -> None:
        if self.replaced:
            replaced_from = {p: from_offsets[p] for p in self.replaced}
            version = self.writer.delete_from(QUARANTINE, replaced_from)
            self.progress.table_versions[QUARANTINE.name] = version
        self.append(QUARANTINE, rows)

    def append(self, table: Table, rows: pa.Table) -> None:
        """Append rows with times in milliseconds."""
        if rows.num_rows:
            version = self.writer.append(table, rows)
            self._wrote(table, version, rows.num_rows)
        self.writer.on_table(table.name)

    def _wrote(self, table: Table, version: int, rows: int) -> None:
        self.progress.table_versions[table.name] = version
        self.rows[table.name] = rows
