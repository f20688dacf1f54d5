"""Log rows in memory, held until their log partition has been read far enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from coordinator_state.log.commit_sampling import CommitSampling

_COMPACTION_STEP_ROWS: Final = 50_000


@dataclass(slots=True)
class HeldRows:
    """Rows (`LOG_ROW_SCHEMA`) of one log partition, in log order.

    With `sampling`, superseded commits are dropped each time the number of rows has doubled. So the
    total work of all compactions stays linear. `records_superseded` counts the dropped commits.
    """

    sampling: CommitSampling | None
    records_superseded: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _row_count: int = 0
    _compacted_row_count: int = 0

    @property
    def size_bytes(self) -> int:
        """The memory of the held rows."""
        return sum(batch.nbytes for batch in self._batches)

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows that follow the held rows in the log."""
        if rows.num_rows:
            self._batches.append(rows)
            self._row_count += rows.num_rows
        if self._row_count > 2 * self._compacted_row_count + _COMPACTION_STEP_ROWS:
            self.compact()

    def compact(self) -> None:
        """Drop superseded commits."""
        if self.sampling is not None and len(self._batches) > 1:
            # Imported here: the kernel loads Numba, which only processes that compact need.
            from coordinator_state.log.kernel import compact

            rows, superseded = compact(pa.Table.from_batches(self._batches), self.sampling)
            self._batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
            self._row_count = sum(batch.num_rows for batch in self._batches)
            self.records_superseded += superseded
        self._compacted_row_count = self._row_count

    def release(self) -> list[pa.RecordBatch]:
        """Return all held rows and forget them; later rows can no longer supersede them."""
        released, self._batches = self._batches, []
        self._row_count = self._compacted_row_count = 0
        return released
