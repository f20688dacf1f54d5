"""How much of the log a micro-batch takes, and how its tasks share it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from streaming.kafka.fetch import LogClient
from streaming.source.log_range import LogRange
from streaming.source.log_sample import sampled_batches

# Below this a second task costs more than it saves.
_SMALL_BATCH_OFFSETS: Final = 20_000
# A task may get this share of an even load more if that keeps a leader's log partitions together.
_LEADER_TOLERANCE: Final = 0.05
_DENSITY_MAX_AGE_S: Final = 60.0


class LogDensity:
    """An estimate of how many bytes one offset stands for, gaps of compaction included.

    It comes from the sizes of the log partitions, which DescribeLogDirs tells with the ACL Describe
    on the cluster; without it, from some batches of what is to be read. It is
    renewed every minute. A compacted log is thin at its beginning and dense at its end, so bytes of
    a micro-batch may be off by that much.
    """

    def __init__(self) -> None:
        self._estimated_at: float | None = None
        self._bytes_per_offset = 0.0

    def bytes_per_offset(
        self, client: LogClient, positions: Mapping[int, int], high_watermarks: Mapping[int, int]
    ) -> float:
        """Return the estimate for the log partitions of `positions`."""
        now = time.monotonic()
        if self._estimated_at is None or now - self._estimated_at > _DENSITY_MAX_AGE_S:
            size_bytes, offsets = _measured(client, positions, high_watermarks) or _sampled(
                client, positions, high_watermarks
            )
            self._bytes_per_offset = max(size_bytes, 1) / max(offsets, 1)
            self._estimated_at = now
        return self._bytes_per_offset


def share_out(left: Mapping[int, int], budget: int | None) -> dict[int, int]:
    """Share offsets to read among log partitions, by what each has left and at least one each.

    >>> share_out({0: 600, 1: 300, 2: 0, 3: 1}, 90)
    {0: 60, 1: 29, 2: 0, 3: 1}
    """
    total = sum(left.values())
    if budget is None or total <= budget:
        return dict(left)
    shares = {p: min(n, max(1, budget * n // total)) for p, n in left.items()}
    # What rounding leaves: a log that fits in so many micro-batches would need one more for it.
    spare = budget - sum(shares.values())
    for log_partition in sorted(left, key=lambda p: shares[p] - left[p])[: max(0, spare)]:
        shares[log_partition] += shares[log_partition] < left[log_partition]
    return shares


def group_ranges(
    ranges: Sequence[LogRange], leaders: Mapping[int, int], tasks: int
) -> list[list[LogRange]]:
    """Group ranges for at most `tasks` tasks: alike in offsets, a leader's together where it can.

    The largest range goes first, to the task with the least to read; among tasks that have about
    as little, to the one that already reads from its leader.
    """
    total = sum(log_range.to_offset - log_range.from_offset for log_range in ranges)
    if total <= _SMALL_BATCH_OFFSETS:
        tasks = 1
    groups: list[list[LogRange]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    tolerance = total / tasks * _LEADER_TOLERANCE
    for log_range in sorted(ranges, key=lambda r: (r.from_offset - r.to_offset, r.log_partition)):
        leader = leaders.get(log_range.log_partition)
        least = min(loads)
        chosen = max(
            (task for task in range(tasks) if loads[task] <= least + tolerance),
            key=lambda task: (
                sum(leaders.get(other.log_partition) == leader for other in groups[task]),
                -loads[task],
            ),
        )
        groups[chosen].append(log_range)
        loads[chosen] += log_range.to_offset - log_range.from_offset
    return [sorted(group, key=lambda r: r.log_partition) for group in groups if group]


def _measured(
    client: LogClient, positions: Mapping[int, int], high_watermarks: Mapping[int, int]
) -> tuple[int, int] | None:
    """Return the log's bytes and the offsets they span, if the brokers tell."""
    sizes = client.log_sizes()
    if not sizes:
        return None
    earliest = client.earliest_offsets(positions)
    return (
        sum(sizes.get(log_partition, 0) for log_partition in positions),
        sum(
            high_watermarks[log_partition] - earliest[log_partition] for log_partition in positions
        ),
    )


def _sampled(
    client: LogClient, positions: Mapping[int, int], high_watermarks: Mapping[int, int]
) -> tuple[int, int]:
    """Look at some of what is to be read; return its bytes and the offsets they span."""
    left = {p: high_watermarks[p] - position for p, position in positions.items()}
    size_bytes = offsets = 0
    for _, _, start, batch in sampled_batches(client, positions, left):
        size_bytes += batch.size_bytes
        offsets += batch.last_offset + 1 - start
    return size_bytes, offsets
