"""Reads of the tables about groups, for the parts that a micro-batch depends on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.columns import in_ms, stored_names
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.group_rows import (
    MEMBER_STATE_COLUMNS,
    RAW_RECORD_COLUMNS,
    group_tombstones,
    restored_groups,
)
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import GroupState
from coordinator_state.replay.releases import Release
from streaming.tables import delta
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    Table,
)

_IDENTITY = ["log_partition", "group_id"]


@dataclass(frozen=True, slots=True)
class GroupTables:
    """The tables of a folder, including the rows that the current micro-batch has merged."""

    tables: str

    def groups(self, versions: Mapping[str, int], release: Release) -> dict[GroupId, GroupState]:
        """Every group at these versions of the tables, replayed by the rules of `release`."""

        def rows_of(table: Table, columns: list[str]) -> pa.Table:
            return delta.read(self.tables, table, columns, version=versions[table.name])

        return restored_groups(
            rows_of(GROUPS, GROUPS.schema.names),
            rows_of(GROUP_MEMBERS, MEMBER_STATE_COLUMNS),
            rows_of(COORDINATOR_RECORDS, RAW_RECORD_COLUMNS),
            release,
        )

    def committed(self, groups: set[GroupId]) -> pa.Table:
        """The committed offsets of groups (`COMMITTED_SCHEMA`)."""
        rows = self._rows_of(GROUP_OFFSETS, groups, stored_names(COMMITTED_SCHEMA))
        return in_ms(rows, COMMITTED_SCHEMA)

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        """The groups whose last GroupMetadata is a tombstone, with its record offset."""
        if not groups:
            return {}
        is_deleted = (pc.field("record_type") == GROUP_METADATA_TYPE) & pc.field("is_tombstone")
        columns = ["record_type", "is_tombstone", "record_offset"]
        return group_tombstones(self._rows_of(COORDINATOR_RECORDS, groups, columns, is_deleted))

    def _rows_of(
        self,
        table: Table,
        groups: Collection[GroupId],
        columns: Sequence[str],
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Rows of groups: the given columns, with log partition and group id."""
        is_theirs = pc.field("group_id").isin(pa.array({name for _, name in groups}, pa.string()))
        rows = delta.read(
            self.tables,
            table,
            list(dict.fromkeys([*_IDENTITY, *columns])),
            where=is_theirs if where is None else is_theirs & where,
        )
        return rows.join(_as_rows(groups), _IDENTITY, join_type="left semi")


def _as_rows(groups: Collection[GroupId]) -> pa.Table:
    """Groups as rows for a join."""
    return pa.Table.from_pylist(
        [{"log_partition": p, "group_id": group_id} for p, group_id in groups],
        schema=pa.schema([("log_partition", pa.int32()), ("group_id", pa.string())]),
    )
