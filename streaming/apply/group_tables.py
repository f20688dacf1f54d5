"""What the tables about groups hold: read where a micro-batch depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator_state.group_replay import AskTopicNames, GroupRecord, GroupState, described
from coordinator_state.groups import NO_RECORD_OFFSET, Group
from coordinator_state.modern_groups import ModernGroup
from coordinator_state.record_types import GROUP_METADATA_TYPE
from streaming.apply.group_rows import RAW_RECORD, group_ids, read_groups, records_of
from streaming.apply.groups import GroupChange, GroupId
from streaming.tables import delta
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    TABLES,
    Table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLES = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True)
class GroupTables:
    """The tables of a folder, with what the micro-batch has merged so far."""

    session: SparkSession
    tables: str

    def groups(self, versions: Mapping[str, int]) -> dict[GroupId, GroupState]:
        """Every group as of these versions of the tables."""

        def rows_of(name: str, columns: list[str]) -> Any:
            return self._read(_TABLES[name], versions[name]).select(columns).toArrow()

        return read_groups(self._read(GROUPS, versions[GROUPS.name]).toArrow(), rows_of)

    def members_gone(
        self,
        changes: Mapping[GroupId, GroupChange],
        members: list[dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """Members that the table has of the changed groups and that are not in them any more."""
        if not changes:
            return []
        staying = {(m["log_partition"], m["group_id"], m["member_id"]) for m in members}
        known = self._rows_of(GROUP_MEMBERS, changes).select(
            "log_partition", "group_id", "member_id", "client_id", "client_host"
        )
        return [
            {
                **row.asDict(),
                "record_offset": changes[row.log_partition, row.group_id].position,
                "is_gone": True,
            }
            for row in known.collect()
            if (row.log_partition, row.group_id, row.member_id) not in staying
        ]

    def with_offsets(self, groups: set[GroupId]) -> set[GroupId]:
        """Which of the groups have a row in `group_offsets`, the micro-batch's merge included."""
        if not groups:
            return set()
        rows = self._rows_of(GROUP_OFFSETS, groups)
        found = rows.select("log_partition", "group_id").distinct()
        return {(row.log_partition, row.group_id) for row in found.collect()}

    def records(self, groups: set[GroupId]) -> dict[GroupId, list[GroupRecord]]:
        """The last record of each key of the groups, in log order."""
        rows = self._rows_of(COORDINATOR_RECORDS, groups).select(RAW_RECORD).toArrow()
        return {
            identity: sorted(records, key=lambda record: record.record_offset)
            for identity, records in records_of(groups, rows).items()
        }

    def record_offsets(self, table: Table, groups: set[GroupId]) -> dict[GroupId, list[int]]:
        """Record offsets of the groups' rows in a table of offsets."""
        found: dict[GroupId, list[int]] = {identity: [] for identity in groups}
        rows = self._rows_of(table, groups).select("log_partition", "group_id", "record_offset")
        for row in rows.collect():
            found[row.log_partition, row.group_id].append(row.record_offset)
        return found

    def offset_places(self, groups: set[GroupId]) -> dict[tuple[Any, ...], int]:
        """The record offset of each key of `group_offsets` of the groups."""
        rows = self._rows_of(GROUP_OFFSETS, groups).select(*GROUP_OFFSETS.key, "record_offset")
        return {tuple(row)[:-1]: row.record_offset for row in rows.collect()}

    def simple_groups(self, groups: set[GroupId]) -> set[GroupId]:
        """Which of the groups are known from their offsets alone."""
        rows = self._rows_of(GROUPS, groups).where(f"record_offset = {NO_RECORD_OFFSET}")
        return {(row.log_partition, row.group_id) for row in rows.collect()}

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        """Which of the groups have a tombstone as their last GroupMetadata, and where."""
        if not groups:
            return {}
        rows = self._rows_of(COORDINATOR_RECORDS, groups)
        found = rows.where(f"record_type = {GROUP_METADATA_TYPE} AND is_tombstone").select(
            "log_partition", "group_id", "record_offset"
        )
        return {(row.log_partition, row.group_id): row.record_offset for row in found.collect()}

    def _rows_of(self, table: Table, groups: Iterable[GroupId]) -> DataFrame:
        return self._read(table).join(
            delta.frame_of(self.session, group_ids(groups)),
            ["log_partition", "group_id"],
            "left_semi",
        )

    def _read(self, table: Table, version: int | None = None) -> DataFrame:
        return delta.read(self.session, self.tables, table, version)


def described_groups(
    changes: Mapping[GroupId, GroupChange], topic_names: AskTopicNames
) -> dict[GroupId, Group]:
    """The changed groups that are there, with the names of topics that they know by id."""
    states = {i: change.group for i, change in changes.items() if change.group is not None}
    unnamed = (s.unnamed_topic_ids() for s in states.values() if isinstance(s, ModernGroup))
    names = topic_names(set().union(*unnamed))
    return {identity: described(state, names) for identity, state in states.items()}
