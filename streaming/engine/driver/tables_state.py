"""The state of a tables folder that micro-batches depend on, kept in memory between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from coordinator_state.apply.collected import Collected, GroupId, distinct_groups
from coordinator_state.apply.columns import in_ms, stored_names
from coordinator_state.apply.committed import COMMITTED_SCHEMA, without
from coordinator_state.apply.log_partitions import Applied
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.apply.state import ApplyState
from coordinator_state.replay.group_replay import GroupState
from coordinator_state.replay.offsets import Semantics
from streaming.engine.driver.group_tables import GroupTables
from streaming.engine.engine import ApplyRules
from streaming.tables import delta
from streaming.tables.schemas import GROUP_OFFSETS, PENDING_OFFSETS


@dataclass(slots=True, kw_only=True)
class TablesState:
    """The state after the newest micro-batch.

    With history, committed offsets are kept in memory: each micro-batch is compared with them, and
    reading the whole table each time would be slow.
    """

    tables: str
    rules: ApplyRules
    pending: pa.Table
    groups: dict[GroupId, GroupState]
    _committed: pa.Table

    @classmethod
    def read(
        cls,
        tables: str,
        versions: Mapping[str, int],
        rules: ApplyRules,
    ) -> TablesState:
        """Read the state of a snapshot, given by the versions of its tables."""
        committed = COMMITTED_SCHEMA.empty_table()
        if rules.with_history:
            columns, version = stored_names(COMMITTED_SCHEMA), versions[GROUP_OFFSETS.name]
            offsets = delta.read(tables, GROUP_OFFSETS, columns, version=version)
            committed = in_ms(offsets, COMMITTED_SCHEMA)
        pending = delta.read(tables, PENDING_OFFSETS, version=versions[PENDING_OFFSETS.name])
        return cls(
            tables=tables,
            rules=rules,
            pending=in_ms(pending, PENDING_OFFSET_ROW),
            _committed=committed,
            groups=GroupTables(tables).groups(versions, rules.release),
        )

    def forget(self, log_partitions: Collection[int]) -> None:
        """Drop the state of log partitions whose rows are replaced."""
        if log_partitions:
            self.pending = without(self.pending, log_partitions)
            self._committed = without(self._committed, log_partitions)
            for group in [group for group in self.groups if group[0] in log_partitions]:
                del self.groups[group]

    def before(self, collected: Collected, replaced: Collection[int]) -> ApplyState:
        """The state before a micro-batch, without the rows of the log partitions `replaced`."""
        state = ApplyState(committed=self._committed, pending=self.pending, groups=self.groups)
        if self.rules.semantics is Semantics.COORDINATOR:
            return state
        # With `scala` semantics a group without GroupMetadata exists as long as it has offsets.
        with_pending = distinct_groups(self.pending) | collected.transactional_groups
        touched = with_pending | collected.groups_with_offsets | collected.records_of_groups.keys()
        stored = GroupTables(self.tables)

        def kept(groups: set[GroupId]) -> set[GroupId]:
            return {group for group in groups if group[0] not in replaced}

        return replace(
            state,
            tombstones=stored.tombstones(kept(with_pending)),
            committed=state.committed
            if self.rules.with_history
            else stored.committed(kept(touched)),
        )

    def update(self, applied: Applied) -> None:
        """Advance to the state after a micro-batch."""
        self.pending = applied.pending_offsets
        if self.rules.with_history:
            self._committed = applied.committed
        for group, change in applied.group_changes.changes.items():
            if change.group is None:
                self.groups.pop(group, None)
            else:
                self.groups[group] = change.group
