"""The ranges of the log that a micro-batch has read, and the report when it is finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Report = Mapping[str, Any]
"""A `progress` row of the source: the range that was read of a log partition."""


def joined(reports: Sequence[Report]) -> Report:
    """The reports of successive ranges of one log partition as one."""
    summed = ("records_read", "records_superseded", "bytes_read")
    return {
        **reports[-1],
        "from_offset": reports[0]["from_offset"],
        **{name: sum(report[name] for report in reports) for name in summed},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """One finished micro-batch, with the totals over all log partitions of all topics after it.

    `records_read` counts the records of this micro-batch, `records_read_total` those since the log
    start; both include superseded records. `offsets_read` is the advance of the next offsets, which
    is larger than `records_read` if a compacted log has gaps. `records_unaccounted_total` counts
    the records since the log start under no outcome, or under two. `next_offset_total` and
    `high_watermark_total` are sums over the log partitions. `states` maps each log partition of
    `__consumer_offsets` to `loading`, `current` or `waiting`, as in `load_progress`. `rows_merged`
    maps each table to the number of rows that this micro-batch merged or appended.
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
        """The number of record offsets between the next offsets and the high watermarks."""
        return max(0, self.high_watermark_total - self.next_offset_total)


OnProgress = Callable[[ProgressEvent], None]
