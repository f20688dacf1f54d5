"""What the tables about groups hold: read where a micro-batch depends on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import AskTopicNames, GroupRecord, GroupState, described
from coordinator_state.replay.groups import NO_RECORD_OFFSET, Group
from coordinator_state.replay.modern_groups import ModernGroup
from streaming.engine.group_rows import RAW_RECORD, group_ids, read_groups, records_of
from streaming.engine.groups import GroupChange, GroupId
from streaming.tables import delta
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    TABLES,
    Table,
)

Row = dict[str, Any]
_IDENTITY = ["log_partition", "group_id"]
_TABLES = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True)
class GroupTables:
    """The tables of a folder, with what the micro-batch has merged so far."""

    tables: str

    def groups(self, versions: Mapping[str, int]) -> dict[GroupId, GroupState]:
        """Every group as of these versions of the tables."""

        def rows_of(name: str, columns: list[str]) -> pa.Table:
            return delta.read(self.tables, _TABLES[name], columns, version=versions[name])

        return read_groups(rows_of(GROUPS.name, GROUPS.schema.names), rows_of)

    def members_gone(
        self,
        changes: Mapping[GroupId, GroupChange],
        members: list[Row],
    ) -> list[Row]:
        """Members that the table has of the changed groups and that are not in them any more."""
        if not changes:
            return []
        staying = {(m["log_partition"], m["group_id"], m["member_id"]) for m in members}
        known = self._rows_of(GROUP_MEMBERS, changes, ["member_id", "client_id", "client_host"])
        return [
            {
                **row,
                "record_offset": changes[row["log_partition"], row["group_id"]].position,
                "is_gone": True,
            }
            for row in known.to_pylist()
            if (row["log_partition"], row["group_id"], row["member_id"]) not in staying
        ]

    def with_offsets(self, groups: set[GroupId]) -> set[GroupId]:
        """Which of the groups have a row in `group_offsets`, the micro-batch's merge included."""
        return _identities(self._rows_of(GROUP_OFFSETS, groups, [])) if groups else set()

    def records(self, groups: set[GroupId]) -> dict[GroupId, list[GroupRecord]]:
        """The last record of each key of the groups, in log order."""
        rows = self._rows_of(COORDINATOR_RECORDS, groups, RAW_RECORD)
        return {
            identity: sorted(records, key=lambda record: record.record_offset)
            for identity, records in records_of(groups, rows).items()
        }

    def record_offsets(self, table: Table, groups: set[GroupId]) -> dict[GroupId, list[int]]:
        """Record offsets of the groups' rows in a table of offsets."""
        found: dict[GroupId, list[int]] = {identity: [] for identity in groups}
        for row in self._rows_of(table, groups, ["record_offset"]).to_pylist():
            found[row["log_partition"], row["group_id"]].append(row["record_offset"])
        return found

    def offset_places(self, groups: set[GroupId]) -> dict[tuple[Any, ...], int]:
        """The record offset of each key of `group_offsets` of the groups."""
        rows = self._rows_of(GROUP_OFFSETS, groups, [*GROUP_OFFSETS.key, "record_offset"])
        return {
            tuple(row[name] for name in GROUP_OFFSETS.key): row["record_offset"]
            for row in rows.to_pylist()
        }

    def simple_groups(self, groups: set[GroupId]) -> set[GroupId]:
        """Which of the groups are known from their offsets alone."""
        is_simple = pc.field("record_offset") == NO_RECORD_OFFSET
        return _identities(self._rows_of(GROUPS, groups, [], is_simple))

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        """Which of the groups have a tombstone as their last GroupMetadata, and where."""
        if not groups:
            return {}
        is_gone = (pc.field("record_type") == GROUP_METADATA_TYPE) & pc.field("is_tombstone")
        rows = self._rows_of(COORDINATOR_RECORDS, groups, ["record_offset"], is_gone)
        return {
            (row["log_partition"], row["group_id"]): row["record_offset"]
            for row in rows.to_pylist()
        }

    def _rows_of(
        self,
        table: Table,
        groups: Collection[GroupId],
        columns: Sequence[str],
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Rows of groups, with their log partition and id beside the columns asked for."""
        is_theirs = pc.field("group_id").isin(pa.array({name for _, name in groups}, pa.string()))
        found = delta.read(
            self.tables,
            table,
            list(dict.fromkeys([*_IDENTITY, *columns])),
            where=is_theirs if where is None else is_theirs & where,
        )
        return found.join(group_ids(groups), _IDENTITY, join_type="left semi")


def _identities(rows: pa.Table) -> set[GroupId]:
    return set(zip(rows["log_partition"].to_pylist(), rows["group_id"].to_pylist(), strict=True))


def described_groups(
    changes: Mapping[GroupId, GroupChange], topic_names: AskTopicNames
) -> dict[GroupId, Group]:
    """The changed groups that are there, with the names of topics that they know by id."""
    states = {i: change.group for i, change in changes.items() if change.group is not None}
    unnamed = (s.unnamed_topic_ids() for s in states.values() if isinstance(s, ModernGroup))
    names = topic_names(set().union(*unnamed))
    return {identity: described(state, names) for identity, state in states.items()}
