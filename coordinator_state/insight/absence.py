"""Groups that have no members, because all of them have left.

Members commit before they leave in an orderly way. After a crash, the coordinator waits for the
session time-out, and the records of that time stay unread. So a group that had read everything
when it became empty has not crashed: its job has ended, an autoscaler has stopped it until records
come, or somebody has shut it down. Its earlier runs tell these apart.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from coordinator_state.insight.lag import UNKNOWN, Int64s, LogHistories
from coordinator_state.insight.pace import Commits, usual_ms

KEPT_UP_MS: Final = 10 * 60_000
"""A group that has kept up for so long is a service: without members, it is missed at once."""
READ_ALL_MS: Final = 10_000
"""Of the records that came so shortly before the members left, some may be unread."""
_TIME_BITS: Final = 42


class Runs(NamedTuple):
    """The runs of each key until the members of its group last left.

    Attributes:
        kept_up_ms: the longest time without a record that waited for longer than the limit.
        rests: how often it was away for longer than the limit although there was a record.
        usual_return_ms: how long a record usually waited for members that had left; `UNKNOWN` if
            they never came back.
    """

    kept_up_ms: Int64s
    rests: Int64s
    usual_return_ms: Int64s


class Leaves(NamedTuple):
    """The times at which all members of the group of a key had left, in the order of both."""

    key: Int64s
    left_at_ms: Int64s


def runs_before(
    logs: LogHistories,
    commits: Commits,
    count: int,
    begun_ms: Int64s,
    leaves: Leaves,
    limit_ms: Int64s,
) -> Runs:
    """Return the runs of each of `count` keys before the last time that its members left.

    Args:
        logs: the samples of the logs.
        commits: the commits of the keys.
        count: the number of keys.
        begun_ms: the first sign of the group of each key.
        leaves: those of each key, at least one.
        limit_ms: a record of each key that waited longer was late.
    """
    key, log, committed_offset, committed_at_ms = commits
    before = np.flatnonzero(key[1:] == key[:-1])
    key, last_ms, next_ms = key[before], committed_at_ms[before], committed_at_ms[before + 1]
    # Without a record, or with one that is older than the samples, the group is not late.
    produced_ms = logs.produced_at_ms(log[before], committed_offset[before])
    has_record = produced_ms != UNKNOWN
    is_late = has_record & (next_ms - produced_ms > limit_ms[key])
    waited_ms = next_ms - np.maximum(last_ms, produced_ms)
    is_rest = has_record & (waited_ms > limit_ms[key])
    numbers = np.arange(count)
    left_ms = np.zeros(count, np.int64)
    left_ms[leaves.key] = leaves.left_at_ms
    starts = _keyed(np.append(key[is_late], numbers), np.append(next_ms[is_late], begun_ms))
    ends = _keyed(np.append(key[is_late], numbers), np.append(last_ms[is_late], left_ms))
    kept_up_ms = np.zeros(count, np.int64)
    np.maximum.at(kept_up_ms, starts >> _TIME_BITS, ends - starts)
    # The last time that the members left before each later commit.
    left = leaves.key << _TIME_BITS | leaves.left_at_ms
    place = np.searchsorted(left, key << _TIME_BITS | next_ms) - 1
    left_before_ms = left[np.maximum(place, 0)] - (key << _TIME_BITS)
    is_return = has_record & (place >= 0) & (left_before_ms >= last_ms)
    is_return &= produced_ms >= left_before_ms - READ_ALL_MS
    return Runs(
        kept_up_ms=kept_up_ms,
        rests=np.bincount(key[is_rest], minlength=count),
        usual_return_ms=usual_ms(key[is_return], waited_ms[is_return], count),
    )


def _keyed(key: Int64s, at_ms: Int64s) -> Int64s:
    """Return the keys with their times, sorted by both."""
    return np.sort(key << _TIME_BITS | at_ms)
