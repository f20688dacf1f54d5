"""Log rows that are held in memory until their log partition is read far enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

_COMPACTION_STEP_ROWS: Final = 50_000


@dataclass(slots=True)
class HeldRows:
    """Rows (`LOG_ROW_SCHEMA`) of one log partition, in log order.

    With `compacts`, commits that a later row supersedes are dropped each time the rows have
    doubled, so that the work of all compactions stays linear. `records_superseded` counts them.
    """

    compacts: bool
    records_superseded: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _row_count: int = 0
    _compacted_row_count: int = 0

    @property
    def size_bytes(self) -> int:
        """The memory that the rows take."""
        return sum(batch.nbytes for batch in self._batches)

    def add(self, rows: pa.RecordBatch) -> None:
        """Hold rows that follow those held so far."""
        if rows.num_rows:
            self._batches.append(rows)
            self._row_count += rows.num_rows
        if self._row_count > 2 * self._compacted_row_count + _COMPACTION_STEP_ROWS:
            self.compact()

    def compact(self) -> None:
        """Drop superseded commits."""
        # The kernel loads Numba: only processes that compact do so.
        from coordinator_state.log.kernel import compact

        if self.compacts and len(self._batches) > 1:
            rows, superseded = compact(pa.Table.from_batches(self._batches))
            self._batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
            self._row_count = sum(batch.num_rows for batch in self._batches)
            self.records_superseded += superseded
        self._compacted_row_count = self._row_count

    def release(self) -> list[pa.RecordBatch]:
        """Give the rows to the caller; later rows cannot supersede them any more."""
        released, self._batches = self._batches, []
        self._row_count = self._compacted_row_count = 0
        return released
