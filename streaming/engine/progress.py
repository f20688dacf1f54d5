"""How far the query is: what a micro-batch reports when it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """One finished micro-batch, with the totals over all log partitions after it.

    `records_read` and `records_read_total` count records of this micro-batch and since the log
    start, superseded ones included; `offsets_read` is by how much the next offsets advanced,
    which is more where a compacted log has gaps. `records_unaccounted_total` is by how much the
    counts of micro-batches did not add up since the log start. `next_offset_total` and
    `high_watermark_total` are sums over the log partitions. `states` maps each log partition to
    `loading`, `current` or `failed`, as `load_progress` does; `rows_merged` maps a table to the
    rows this micro-batch merged or appended.
    """

    batch_id: int
    records_read: int
    offsets_read: int
    records_read_total: int
    records_quarantined: int
    records_unaccounted_total: int
    next_offset_total: int
    high_watermark_total: int
    duration_ms: int
    states: Mapping[int, str]
    rows_merged: Mapping[str, int] = field(default_factory=dict)

    @property
    def offsets_left(self) -> int:
        """Record offsets between what is applied and the high watermarks."""
        return max(0, self.high_watermark_total - self.next_offset_total)


OnProgress = Callable[[ProgressEvent], None]
