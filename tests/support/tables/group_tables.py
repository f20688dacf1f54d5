"""`groups` and what it depends on as dictionaries, changed as micro-batches change them."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator_state.apply.exact_replay import PendingOffset, RecordCounts
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import GroupState
from coordinator_state.replay.offsets import Semantics
from streaming.engine.groups import GroupChange, GroupId, plan_groups, plan_records
from streaming.engine.offsets import plan_offsets
from tests.support.logs.log_rows import LOG_PARTITION, Row, table_of

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA

G: GroupId = (LOG_PARTITION, "g")


@dataclass
class Tables:
    """`groups` and what it depends on, changed as `apply` changes them."""

    semantics: Semantics
    groups: dict[GroupId, GroupState] = field(default_factory=dict)
    pending: list[PendingOffset] = field(default_factory=list)
    asked: set[GroupId] = field(default_factory=set)
    _with_offsets: set[GroupId] = field(default_factory=set)
    _tombstones: dict[GroupId, int] = field(default_factory=dict)

    def apply(self, *rows: Row, always: bool = False) -> dict[GroupId, GroupChange]:
        table, counts = table_of(rows), RecordCounts()
        plan = plan_offsets(table, self.pending, self.semantics, counts)
        for change in plan.changes.to_pylist():
            # One key per group is enough here: the group has an offset or it has none.
            (self._with_offsets.discard if change["is_tombstone"] else self._with_offsets.add)(
                (change["log_partition"], change["group_id"])
            )
        records = plan_records(table, counts)
        for row in records:
            if row["record_type"] == GROUP_METADATA_TYPE:
                identity = row["log_partition"], row["group_id"]
                self._tombstones.pop(identity, None)
                if row["is_tombstone"]:
                    self._tombstones[identity] = row["record_offset"]
        changes = plan_groups(
            table, records, self.groups, self.semantics, plan, self, always=always
        )
        for identity, planned in changes.items():
            stored = self.groups.get(identity)
            assert stored is None or planned.position >= stored.record_offset
            if planned.group is None:
                self.groups.pop(identity, None)
            else:
                self.groups[identity] = planned.group
        self.pending = plan.pending
        return changes

    def with_offsets(self, groups: set[GroupId]) -> set[GroupId]:
        self.asked = groups
        return groups & self._with_offsets

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        return {identity: self._tombstones[identity] for identity in groups & set(self._tombstones)}
