"""Burrow's rules: the status of a partition from its last commits.

They copy Burrow with its weaknesses. A single commit with lag is STOP at once. Of several rewinds,
only the first counts. The lag of a commit is the lag at its arrival. `group_status` has our own
rules.

Source: linkedin/Burrow core/internal/evaluator/caching.go (`calculatePartitionStatus`) and
core/internal/storage/inmemory.go at v1.9.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from coordinator_state.insight.group_status import Status, Verdict

INTERVALS = 10
"""The evaluator's window: the number of commits and of log ends."""


class Commit(NamedTuple):
    """A commit with its lag at arrival; the lag is None if the log end was unknown."""

    committed_offset: int
    timestamp_ms: int
    lag: int | None


def partition_status(
    commits: Sequence[Commit],
    log_end_offsets: Sequence[int],
    lag: int,
    now_ms: int,
    allowed_lag: int = 0,
) -> Verdict:
    """Return the status of a partition.

    Args:
        commits: at most the last `INTERVALS` commits, oldest first.
        log_end_offsets: at most `INTERVALS` log ends, one per refresh of offsets.
        lag: the current lag.
        now_ms: the current time; Burrow rounds it down to seconds.
        allowed_lag: a lag up to this value counts as zero.
    """
    if not commits or lag <= allowed_lag:
        return Verdict(Status.OK, f"lag {lag}")
    last = commits[-1]
    silent_ms = now_ms // 1000 * 1000 - last.timestamp_ms
    span_ms = last.timestamp_ms - commits[0].timestamp_ms
    if is_stopped(commits, now_ms) and not was_lag_zero(commits, log_end_offsets):
        return Verdict(
            Status.STOP,
            f"no commit for {silent_ms / 1000:g} s, the last {len(commits)} span "
            f"{span_ms / 1000:g} s; lag {lag}",
        )
    index = rewind_index(commits)
    if index > 0 and not _is_recovered(commits, index):
        return Verdict(
            Status.REWIND,
            f"went back from {commits[index - 1].committed_offset} to "
            f"{commits[index].committed_offset} and is at {last.committed_offset}; lag {lag}",
        )
    if is_lag_never_zero(commits, allowed_lag):
        if is_stalled(commits):
            return Verdict(
                Status.STALL, f"{len(commits)} commits at {last.committed_offset}; lag {lag}"
            )
        if is_lag_not_decreasing(commits):
            return Verdict(Status.WARN, f"lag has not decreased for {len(commits)} commits: {lag}")
    return Verdict(Status.OK, f"lag {lag}")


def group_status(partitions: Iterable[Status]) -> Status:
    """Return the worst status of a group's partitions; a status worse than WARN becomes ERR."""
    order = (Status.OK, Status.WARN)
    statuses = set(partitions) or {Status.OK}
    return Status.ERR if statuses - set(order) else max(statuses, key=order.index)


def is_lag_never_zero(commits: Sequence[Commit], allowed_lag: int) -> bool:
    """Rule 1: a partition is OK if any commit of the window had no lag; returns the opposite."""
    return all(commit.lag is None or commit.lag > allowed_lag for commit in commits)


def rewind_index(commits: Sequence[Commit]) -> int:
    """Rule 2: the index of the first commit below the one before it, -1 if there is none."""
    for index, (before, after) in enumerate(pairwise(commits), 1):
        if after.committed_offset < before.committed_offset:
            return index
    return -1


def _is_recovered(commits: Sequence[Commit], index: int) -> bool:
    before = commits[index - 1].committed_offset
    return any(commit.committed_offset >= before for commit in commits[index:])


def is_stopped(commits: Sequence[Commit], now_ms: int) -> bool:
    """Rule 3: the time since the last commit is longer than the window."""
    first, last = commits[0].timestamp_ms, commits[-1].timestamp_ms
    return now_ms // 1000 * 1000 - last > last - first


def is_stalled(commits: Sequence[Commit]) -> bool:
    """Rule 4: all commits have the same committed offset."""
    return len({commit.committed_offset for commit in commits}) == 1


def is_lag_not_decreasing(commits: Sequence[Commit]) -> bool:
    """Rule 5: the lag never decreased from one commit to the next."""
    lags = [commit.lag for commit in commits if commit.lag is not None]
    return all(after >= before for before, after in pairwise(lags))


def was_lag_zero(commits: Sequence[Commit], log_end_offsets: Iterable[int]) -> bool:
    """Whether the last commit is at or past one of the log ends."""
    return any(end <= commits[-1].committed_offset for end in log_end_offsets)
