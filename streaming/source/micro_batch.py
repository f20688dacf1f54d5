"""The size of a micro-batch, and its distribution over tasks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from streaming.kafka.fetch import LogClient
from streaming.source.log_range import LogRange
from streaming.source.log_sample import sampled_batches

# Below this size a second task costs more than it saves.
_SMALL_BATCH_OFFSETS: Final = 20_000
# A task may get this fraction more than an even load, to keep a leader's log partitions together.
_LEADER_TOLERANCE: Final = 0.05
_DENSITY_MAX_AGE_S: Final = 60.0


class LogDensity:
    """An estimate of the bytes per record offset, including gaps of compaction.

    It uses a sample of the unread batches, which is renewed every minute. A compacted log is sparse
    at its start and dense at its end, so the bytes of a micro-batch may differ from the estimate.
    """

    def __init__(self) -> None:
        self._estimated_at: float | None = None
        self._bytes_per_offset = 0.0

    def bytes_per_offset(
        self, client: LogClient, next_offsets: Mapping[int, int], left: Mapping[int, int]
    ) -> float:
        """Return the estimate; `left` has the number of unread offsets of each log partition."""
        now = time.monotonic()
        if self._estimated_at is None or now - self._estimated_at > _DENSITY_MAX_AGE_S:
            size_bytes = offsets = 0
            for _, _, start, batch in sampled_batches(client, next_offsets, left):
                size_bytes += batch.size_bytes
                offsets += batch.last_offset + 1 - start
            self._bytes_per_offset = max(size_bytes, 1) / max(offsets, 1)
            self._estimated_at = now
        return self._bytes_per_offset


def share_out(left: Mapping[int, int], budget: int | None) -> dict[int, int]:
    """Divide a budget of record offsets among log partitions.

    Each gets a share in proportion to the offsets it has left, and at least one.

    >>> share_out({0: 600, 1: 300, 2: 0, 3: 1}, 90)
    {0: 60, 1: 29, 2: 0, 3: 1}
    """
    total = sum(left.values())
    if budget is None or total <= budget:
        return dict(left)
    shares = {p: min(n, max(1, budget * n // total)) for p, n in left.items()}
    # The remainder of the rounding is used, too; otherwise the log might need one more micro-batch.
    spare = budget - sum(shares.values())
    for log_partition in sorted(left, key=lambda p: shares[p] - left[p])[: max(0, spare)]:
        shares[log_partition] += shares[log_partition] < left[log_partition]
    return shares


def group_ranges(
    ranges: Sequence[LogRange], leaders: Mapping[tuple[str, int], int], tasks: int
) -> list[list[LogRange]]:
    """Group ranges for at most `tasks` tasks, evenly by offsets, those of a leader together.

    `leaders` has the leader by topic and log partition.

    Ranges are assigned from the largest to the smallest, each to a task with the least to read.
    Among tasks with about the same load, the one that already reads from the leader gets the range.
    """
    total = sum(log_range.to_offset - log_range.from_offset for log_range in ranges)
    if total <= _SMALL_BATCH_OFFSETS:
        tasks = 1
    groups: list[list[LogRange]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    tolerance = total / tasks * _LEADER_TOLERANCE
    for log_range in sorted(ranges, key=lambda r: (r.from_offset - r.to_offset, *r.place)):
        leader = leaders.get(log_range.place)
        least = min(loads)
        chosen = max(
            (task for task in range(tasks) if loads[task] <= least + tolerance),
            key=lambda task: (
                sum(leaders.get(other.place) == leader for other in groups[task]),
                -loads[task],
            ),
        )
        groups[chosen].append(log_range)
        loads[chosen] += log_range.to_offset - log_range.from_offset
    return [sorted(group, key=lambda r: r.place) for group in groups if group]
