"""The writes of a micro-batch, and the new versions of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from coordinator_state.apply.schemas import GUARD_OFFSET
from streaming.tables.columns import with_timestamps
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import COORDINATOR_RECORDS, GROUP_MEMBERS, GROUPS, QUARANTINE, Table
from streaming.tables.writer import Writer


@dataclass(frozen=True, slots=True)
class TableWrites:
    """Writes to the tables of a folder; `progress` keeps their versions.

    In tables of keys and the quarantine, the written rows replace all rows of the log partitions in
    `replaced`. `rows` has the number of written rows by table. `fault` is called with the name of
    each table right after its write; tests crash there.
    """

    writer: Writer
    progress: LoadProgress
    replaced: frozenset[int] = frozenset()
    fault: Callable[[str], None] = lambda _table: None
    rows: dict[str, int] = field(default_factory=dict)

    def merge(
        self, table: Table, rows: pa.Table, *, guard: str, deletes: str | None = None
    ) -> None:
        """MERGE rows with times in milliseconds; see `Writer.merge`."""
        if rows.num_rows or self.replaced:
            version = self.writer.merge(
                table, with_timestamps(rows), guard=guard, deletes=deletes, replaced=self.replaced
            )
            self._wrote(table, version, rows.num_rows)
        self.fault(table.name)

    def append(self, table: Table, rows: pa.Table) -> None:
        """Append rows with times in milliseconds."""
        if rows.num_rows:
            version = self.writer.append(table, with_timestamps(rows))
            self._wrote(table, version, rows.num_rows)
        self.fault(table.name)

    def quarantine(self, rows: pa.Table, from_offsets: Mapping[int, int]) -> None:
        """Append quarantined records; `from_offsets` has the first record offset of each log."""
        replaced_from = {p: from_offsets[p] for p in self.replaced}
        if replaced_from:
            version = self.writer.delete_from(QUARANTINE, replaced_from)
            self.progress.table_versions[QUARANTINE.name] = version
        self.append(QUARANTINE, rows)

    def overwrite(self, table: Table, rows: pa.Table) -> None:
        """Replace all rows of a small table."""
        version = self.writer.overwrite(table, with_timestamps(rows))
        self._wrote(table, version, rows.num_rows)

    def records(self, rows: pa.Table) -> None:
        """MERGE the last record of each key into `coordinator_records`."""
        self.merge(COORDINATOR_RECORDS, rows, guard="record_offset")

    def groups(self, groups: pa.Table, members: pa.Table) -> None:
        """MERGE the changes of groups into `groups` and `group_members`."""
        self.merge(GROUPS, groups, guard=GUARD_OFFSET, deletes="is_deleted")
        self.merge(GROUP_MEMBERS, members, guard="record_offset", deletes="is_deleted")

    def _wrote(self, table: Table, version: int, rows: int) -> None:
        self.progress.table_versions[table.name] = version
        self.rows[table.name] = rows
