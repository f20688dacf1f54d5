"""Tables as dictionaries, to which plans are applied by the conditions of the MERGEs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from coordinator_state.apply.exact_replay import PendingOffset, RecordCounts
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import GroupState, described
from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.engine.committed_offsets import CommittedOffsets
from streaming.engine.group_events import EventPlan
from streaming.engine.group_rows import (
    GROUP_CHANGE_SCHEMA,
    group_rows,
    member_rows,
    read_groups,
)
from streaming.engine.groups import (
    RECORD_SCHEMA,
    GroupChange,
    plan_groups,
    plan_records,
    records_table,
)
from streaming.engine.offsets import plan_offsets
from streaming.tables.schemas import GROUP_MEMBERS

LOG_PARTITION = 7
OFFSET_VALUES = (
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "record_offset",
    "producer_id",
)
"""What a committed offset is compared by."""
RETENTION_MS = 1_000
GroupId = tuple[int, str]


@dataclass
class PlanTables:
    """What the plan is applied to, with the rules of the MERGEs."""

    semantics: Semantics
    offsets: dict[OffsetKey, dict[str, Any]] = field(default_factory=dict)
    groups: dict[GroupId, GroupState] = field(default_factory=dict)
    records: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    pending: list[PendingOffset] = field(default_factory=list)
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    committed: CommittedOffsets = field(default_factory=CommittedOffsets)
    events: list[dict[str, Any]] = field(default_factory=list)
    counts: RecordCounts = field(default_factory=RecordCounts)
    read: int = 0
    next_offset: int = 0

    def apply(self, rows: pa.Table, end: int, superseded: int, *, crash_after: str = "") -> None:
        """One micro-batch; `crash_after` names the last write that still happens."""
        keep = [offset >= self.next_offset for offset in rows["record_offset"].to_pylist()]
        rows = rows.filter(pa.array(keep, pa.bool_()))
        counts = RecordCounts()
        plan = plan_offsets(rows, self.pending, self.semantics, counts)
        changed = [
            (row["log_partition"], row["group_id"], row["topic"], row["partition"])
            for row in plan.changes.to_pylist()
        ]
        assert len(set(changed)) == len(changed), "a MERGE takes one source row per key"
        for change in plan.changes.to_pylist():
            self._merge_offset(change)
        records = plan_records(rows, counts)
        known = self._read_back()
        planned = EventPlan(
            committed=self.committed,
            groups=known,
            semantics=self.semantics,
            topic_names=lambda _topic_ids: {},
            retention_ms=RETENTION_MS,
        )
        events = planned.events(rows, plan.history, records)
        changes = plan_groups(
            rows,
            records,
            known,
            self.semantics,
            plan,
            _Merged(self.offsets, [*self.records.values(), *records_table(records).to_pylist()]),
            replayed=planned.replayed,
            always=True,
        )
        if crash_after == "group_offsets":
            return
        for row in plan.history.to_pylist():
            previous = self.history.setdefault(row["record_offset"], row)
            assert previous == row, "two outcomes of one record"
        groups = dict(self.groups)
        for identity, change in changes.items():
            stored = groups.get(identity)
            if stored is not None and change.position < stored.record_offset:
                continue
            if change.group is None:
                groups.pop(identity, None)
            else:
                groups[identity] = change.group
        if crash_after == "groups":
            # The next attempt plans from the pinned version, not from what was written.
            return
        self.groups = groups
        self.events += events.to_pylist()
        self.committed.update(plan.changes)
        for row in records_table(records).to_pylist():
            self.records[row["group_id"], row["record_type"], row["record_key"]] = row
        self.pending = plan.pending
        counts.quarantined.update(
            p
            for p, kind in zip(
                rows["log_partition"].to_pylist(), rows["row_kind"].to_pylist(), strict=True
            )
            if kind == "undecodable"
        )
        for mine, new in (
            (self.counts.applied, counts.applied),
            (self.counts.superseded, counts.superseded),
            (self.counts.ignored, counts.ignored),
            (self.counts.quarantined, counts.quarantined),
        ):
            mine.update(new)
        self.counts.superseded[LOG_PARTITION] += superseded
        self.read += rows.num_rows + superseded
        self.next_offset = max(self.next_offset, end)

    def _read_back(self) -> dict[GroupId, GroupState]:
        """What a restarted query knows of the groups."""
        groups = {identity: described(state) for identity, state in self.groups.items()}
        changes = {i: GroupChange(group=state, position=0) for i, state in self.groups.items()}
        found = {
            "group_members": pa.Table.from_pylist(member_rows(groups), GROUP_MEMBERS.schema),
            "coordinator_records": pa.Table.from_pylist([*self.records.values()], RECORD_SCHEMA),
        }
        return read_groups(
            pa.Table.from_pylist(group_rows(changes, groups), GROUP_CHANGE_SCHEMA),
            lambda name, columns: found[name].select(columns),
        )

    def _merge_offset(self, change: dict[str, Any]) -> None:
        key = OffsetKey(change["group_id"], change["topic"], change["partition"])
        stored = self.offsets.get(key)
        if stored is not None and change["position"] < stored["record_offset"]:
            return
        if change["is_tombstone"]:
            self.offsets.pop(key, None)
        else:
            self.offsets[key] = change


@dataclass
class _Merged:
    """The tables about groups with a micro-batch's offsets and records merged."""

    offsets: dict[OffsetKey, dict[str, Any]]
    records: list[dict[str, Any]]

    def with_offsets(self, groups: set[GroupId]) -> set[GroupId]:
        return {group for group in groups if any(key.group_id == group[1] for key in self.offsets)}

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        last = {
            row["group_id"]: row
            for row in self.records
            if row["record_type"] == GROUP_METADATA_TYPE
        }
        return {
            (p, g): last[g]["record_offset"]
            for p, g in groups
            if g in last and last[g]["is_tombstone"]
        }
