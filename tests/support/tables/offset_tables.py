"""`group_offsets` and `pending_offsets` as dictionaries, changed as micro-batches change them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coordinator_state.apply.exact_replay import PendingOffset, RecordCounts
from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.engine.offsets import OffsetPlan, plan_offsets
from tests.support.logs.log_rows import LOG_PARTITION, Row, table_of

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
both = pytest.mark.parametrize("semantics", list(Semantics))

OTHER = OffsetKey("g", "t", 1)


@dataclass
class Tables:
    """`group_offsets` and `pending_offsets`, changed as the MERGE and the overwrite change them."""

    semantics: Semantics
    offsets: dict[OffsetKey, Row] = field(default_factory=dict)
    pending: list[PendingOffset] = field(default_factory=list)
    counts: RecordCounts = field(default_factory=RecordCounts)

    def apply(self, *rows: Row) -> OffsetPlan:
        plan = plan_offsets(table_of(rows), self.pending, self.semantics, self.counts)
        self.merge(plan)
        self.pending = plan.pending
        return plan

    def merge(self, plan: OffsetPlan) -> None:
        for change in plan.changes.to_pylist():
            key = OffsetKey(change["group_id"], change["topic"], change["partition"])
            stored = self.offsets.get(key)
            if stored is not None and change["position"] < stored["record_offset"]:
                continue
            if change["is_tombstone"]:
                self.offsets.pop(key, None)
            else:
                self.offsets[key] = change

    def committed(self) -> dict[OffsetKey, int]:
        return {key: stored["committed_offset"] for key, stored in self.offsets.items()}

    def waiting(self) -> set[tuple[int | None, OffsetKey, int]]:
        return {(e.record.producer_id, e.key, e.record.committed_offset) for e in self.pending}

    def counted(self, log_partition: int = LOG_PARTITION) -> tuple[int, int, int]:
        """Applied, superseded, ignored."""
        counts = self.counts
        assert not counts.quarantined
        return (
            counts.applied[log_partition],
            counts.superseded[log_partition],
            counts.ignored[log_partition],
        )


def outcomes(plan: OffsetPlan) -> dict[int, tuple[str, int]]:
    """Per record offset the outcome, and the record offset that decided it."""
    return {
        told["record_offset"]: (told["outcome"], told["outcome_record_offset"])
        for told in plan.history.to_pylist()
    }


def only_change(plan: OffsetPlan) -> Row:
    (change,) = plan.changes.to_pylist()
    change_row: Row = change
    return change_row
