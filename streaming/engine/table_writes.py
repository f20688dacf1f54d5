"""What a micro-batch writes, and the versions of the tables that it leaves behind."""

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

    Rows of the log partitions `replaced` take the place of all that a table of keys, or the
    quarantine, has of them. `rows` counts by table what was written. `fault` is called with the
    name of each table right after it is written; tests crash there.
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
        """Records that could not be decoded; `from_offsets` is where each log begins."""
        again = {p: from_offsets[p] for p in self.replaced}
        if again:
            version = self.writer.delete_from(QUARANTINE, again)
            self.progress.table_versions[QUARANTINE.name] = version
        self.append(QUARANTINE, rows)

    def overwrite(self, table: Table, rows: pa.Table) -> None:
        """Replace all rows of a small table."""
        version = self.writer.overwrite(table, with_timestamps(rows))
        self._wrote(table, version, rows.num_rows)

    def records(self, rows: pa.Table) -> None:
        """The last record of each key into `coordinator_records`."""
        self.merge(COORDINATOR_RECORDS, rows, guard="record_offset")

    def groups(self, groups: pa.Table, members: pa.Table) -> None:
        """Changes of groups into `groups` and `group_members`."""
        self.merge(GROUPS, groups, guard=GUARD_OFFSET, deletes="is_deleted")
        self.merge(GROUP_MEMBERS, members, guard="record_offset", deletes="is_deleted")

    def _wrote(self, table: Table, version: int, rows: int) -> None:
        self.progress.table_versions[table.name] = version
        self.rows[table.name] = rows
