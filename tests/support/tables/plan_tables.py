"""Tables as dictionaries, to which micro-batches are applied by the conditions of the MERGEs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import pyarrow as pa

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.group_rows import (
    MEMBER_STATE_COLUMNS,
    RAW_RECORD_COLUMNS,
    group_rows,
    member_rows,
    restored_groups,
)
from coordinator_state.apply.groups import GroupChange, ReplayWarning
from coordinator_state.apply.log_partitions import Applied, apply_log_partitions
from coordinator_state.apply.rows import COORDINATOR_RECORD_ROW, PENDING_OFFSET_ROW
from coordinator_state.apply.state import ApplyContext, ApplyState
from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.log_decoder import OffsetRange, decode_record_set
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import GroupState, described
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from tests.support.logs.log_rows import Row, table_of

OFFSET_VALUES = tuple(
    field.name for field in fields(CommittedOffset) if field.name != "producer_epoch"
)
"""What a committed offset is compared by."""
RETENTION_MS = 1_000


PlacedKey = tuple[int, OffsetKey]
"""The key of an offset, with its log partition."""


@dataclass
class PlanTables:
    """Tables of a few log partitions, with the rules of the MERGEs."""

    semantics: Semantics
    release: Release = NEWEST_RELEASE
    with_history: bool = True
    topic_names: dict[str, str] = field(default_factory=dict)
    offsets: dict[PlacedKey, Row] = field(default_factory=dict)
    groups: dict[GroupId, GroupState] = field(default_factory=dict)
    members: dict[tuple[int, str, str], Row] = field(default_factory=dict)
    records: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    pending: pa.Table = field(default_factory=PENDING_OFFSET_ROW.empty_table)
    history: dict[tuple[int, int], Row] = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    group_records: list[Row] = field(default_factory=list)
    warnings: list[ReplayWarning] = field(default_factory=list)
    newest_timestamps: dict[int, datetime] = field(default_factory=dict)
    counts: RecordCounts = field(default_factory=RecordCounts)
    next_offsets: dict[int, int] = field(default_factory=dict)

    def load(
        self,
        logs: Mapping[int, tuple[bytes, int]],
        *,
        sampling: CommitSampling | None = None,
        is_crashed: bool = False,
        is_redelivered: bool = False,
    ) -> pa.Table:
        """Apply the next records of logs, each up to its end, and return their rows.

        After a crash the next start rolls the tables back to the snapshot.
        """
        batches, superseded = [], Counter[int]()
        for log_partition, (buffer, end) in logs.items():
            decoded = decode_record_set(
                buffer,
                OffsetRange(
                    log_partition=log_partition,
                    from_offset=self.next_offsets.get(log_partition, 0),
                    to_offset=end,
                ),
                sampling,
            )
            batches.append(decoded.rows)
            superseded[log_partition] = decoded.records_superseded
        rows = pa.Table.from_batches(batches)
        if is_crashed:
            self._planned(rows)
        ends = {log_partition: end for log_partition, (_, end) in logs.items()}
        self.apply(rows, ends, superseded)
        if is_redelivered:
            self.apply(rows, ends)
        return rows

    def apply_rows(self, *rows: Row) -> Mapping[GroupId, GroupChange]:
        """Apply a micro-batch of rows by hand, and return the changes of groups."""
        return self.apply(table_of(rows)).group_changes.changes

    def apply(
        self,
        rows: pa.Table,
        ends: Mapping[int, int] | None = None,
        superseded: Mapping[int, int] | None = None,
    ) -> Applied:
        """One micro-batch; rows below the next offset of their log partition are left out."""
        places = rows.select(["log_partition", "record_offset"]).to_pylist()
        keep = [
            row["record_offset"] >= self.next_offsets.get(row["log_partition"], 0) for row in places
        ]
        rows = rows.filter(pa.array(keep, pa.bool_()))
        applied = self._planned(rows)
        changes = applied.group_offsets.to_pylist()
        keys = [_key(row) for row in changes]
        assert len(set(keys)) == len(keys), "a MERGE takes one source row per key"
        for key, change in zip(keys, changes, strict=True):
            self._merge_offset(key, change)
        for row in applied.offset_commits.to_pylist():
            previous = self.history.setdefault((row["log_partition"], row["record_offset"]), row)
            assert previous == row, "two outcomes of one record"
        self._merge_groups(applied)
        self.events += applied.group_events.to_pylist()
        self.group_records += applied.group_records.to_pylist()
        for row in applied.coordinator_records.to_pylist():
            names = ("log_partition", "group_id", "record_type", "record_key")
            self.records[tuple(row[name] for name in names)] = row
        self.pending = applied.pending_offsets
        self.warnings += applied.warnings
        self.newest_timestamps |= applied.newest_timestamps
        compacted = RecordCounts(rows=superseded or {}, superseded=superseded or {})
        self.counts = RecordCounts.total([self.counts, applied.counts, compacted])
        self.next_offsets |= ends or {}
        return applied

    def _planned(self, rows: pa.Table) -> Applied:
        context = ApplyContext(
            semantics=self.semantics,
            release=self.release,
            with_history=self.with_history,
            offsets_retention_ms=RETENTION_MS,
            topic_names=self.topic_names,
        )
        return apply_log_partitions(rows, self.state(), context)

    def state(self) -> ApplyState:
        """The state as a query that was started again reads it."""
        committed = [
            {name: row[name] for name in COMMITTED_SCHEMA.names} for row in self.offsets.values()
        ]
        return ApplyState(
            committed=pa.Table.from_pylist(committed, schema=COMMITTED_SCHEMA),
            pending=self.pending,
            groups=self._read_back(),
            tombstones={
                (row["log_partition"], row["group_id"]): row["record_offset"]
                for row in self.records.values()
                if row["record_type"] == GROUP_METADATA_TYPE and row["is_tombstone"]
            },
        )

    def _read_back(self) -> dict[GroupId, GroupState]:
        groups = {group: described(state) for group, state in self.groups.items()}
        changes = {i: GroupChange(group=state, guard_offset=0) for i, state in self.groups.items()}
        records = pa.Table.from_pylist([*self.records.values()], COORDINATOR_RECORD_ROW)
        return restored_groups(
            group_rows(changes, groups),
            member_rows(changes, groups, {}).select(MEMBER_STATE_COLUMNS),
            records.select(RAW_RECORD_COLUMNS),
            self.release,
        )

    def _merge_offset(self, key: PlacedKey, change: Row) -> None:
        stored = self.offsets.get(key)
        if stored is not None and change["guard_offset"] < stored["record_offset"]:
            return
        if change["is_tombstone"]:
            self.offsets.pop(key, None)
        else:
            self.offsets[key] = change

    def _merge_groups(self, applied: Applied) -> None:
        for group, change in applied.group_changes.changes.items():
            stored = self.groups.get(group)
            assert stored is None or change.guard_offset >= stored.record_offset
            if change.group is None:
                self.groups.pop(group, None)
            else:
                self.groups[group] = change.group
        for row in applied.group_members.to_pylist():
            key = row["log_partition"], row["group_id"], row["member_id"]
            if row["is_deleted"]:
                assert self.members.pop(key), "only members of the table go"
            else:
                self.members[key] = row


def _key(row: Row) -> PlacedKey:
    return row["log_partition"], OffsetKey(row["group_id"], row["topic"], row["partition"])
