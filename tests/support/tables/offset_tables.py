"""`group_offsets` and `pending_offsets` as dictionaries, changed as micro-batches change them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from coordinator_state.apply.collected import collect
from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.offsets import OffsetChanges, apply_offsets
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.replay.offsets import OffsetKey, Semantics
from tests.support.logs.log_rows import LOG_PARTITION, Row, table_of

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
both = pytest.mark.parametrize("semantics", list(Semantics))

OTHER = OffsetKey("g", "t", 1)


@dataclass
class Tables:
    """`group_offsets` and `pending_offsets`, changed as the MERGE and the overwrite change them."""

    semantics: Semantics
    offsets: dict[OffsetKey, Row] = field(default_factory=dict)
    pending: pa.Table = field(default_factory=PENDING_OFFSET_ROW.empty_table)
    counts: RecordCounts = field(default_factory=RecordCounts)

    def apply(self, *rows: Row) -> OffsetChanges:
        plan = apply_offsets(
            collect(table_of(rows)), self.pending, self.semantics, with_history=True
        )
        self.counts = RecordCounts.total([self.counts, plan.counts])
        self.merge(plan)
        self.pending = plan.pending
        return plan

    def merge(self, plan: OffsetChanges) -> None:
        for change in plan.changes.to_pylist():
            key = OffsetKey(change["group_id"], change["topic"], change["partition"])
            stored = self.offsets.get(key)
            if stored is not None and change["guard_offset"] < stored["record_offset"]:
                continue
            if change["is_tombstone"]:
                self.offsets.pop(key, None)
            else:
                self.offsets[key] = change

    def committed(self) -> dict[OffsetKey, int]:
        return {key: stored["committed_offset"] for key, stored in self.offsets.items()}

    def waiting(self) -> set[tuple[int | None, OffsetKey, int]]:
        return {
            (
                row["producer_id"],
                OffsetKey(row["group_id"], row["topic"], row["partition"]),
                row["committed_offset"],
            )
            for row in self.pending.to_pylist()
        }

    def counted(self, log_partition: int = LOG_PARTITION) -> tuple[int, int, int]:
        """Applied, superseded, ignored."""
        counts = self.counts
        assert not counts.quarantined
        return (
            counts.applied.get(log_partition, 0),
            counts.superseded.get(log_partition, 0),
            counts.ignored.get(log_partition, 0),
        )


def outcomes(plan: OffsetChanges) -> dict[int, tuple[str, int]]:
    """Per record offset the outcome, and the record offset that decided it."""
    return {
        told["record_offset"]: (told["outcome"], told["outcome_record_offset"])
        for told in plan.history.to_pylist()
    }


def only_change(plan: OffsetChanges) -> Row:
    (change,) = plan.changes.to_pylist()
    change_row: Row = change
    return change_row
