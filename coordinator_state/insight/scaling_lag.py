"""The part of a group's lag that more consumers would read, for autoscalers.

An autoscaler that takes the whole lag adds consumers that have nothing to do. Left out are:

- deleted records: nobody can read them;
- partitions that one record blocks (`STALL`): each consumer fails at the same record;
- partitions whose offsets an open transaction holds (`PENDING`, `HANGING_TRANSACTION`): a new
  consumer waits until they are stable;
- records behind the last stable offset: a `read_committed` consumer waits for the end of a
  transaction.

Transaction markers at the end of a log are not in the lag already (`markers` of `group_lag`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_state.insight.group_status import Status

_BLOCKED: Final = frozenset({Status.STALL, Status.PENDING, Status.HANGING_TRANSACTION})


class PartitionLag(NamedTuple):
    """The lag of a group in one partition, in records; None if it is unknown."""

    status: Status
    lag: int | None
    data_lost: int | None
    lag_to_last_stable: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLag:
    """The lag of a group that more consumers would read, and the records that are left out.

    All but `partitions*` are numbers of records: `lag` = `scaling_lag` + `deleted` + `blocked`.
    `partitions_to_read` is the largest number of consumers that have something to read.
    """

    scaling_lag: int
    lag: int
    deleted: int
    blocked: int
    partitions: int
    partitions_to_read: int
    partitions_blocked: int
    partitions_unknown: int


def scaling_lag(partitions: Iterable[PartitionLag]) -> ScalingLag:
    """The scaling lag over all partitions of a group.

    >>> behind = PartitionLag(Status.WARN, 100, 30, 100)
    >>> stuck = PartitionLag(Status.STALL, 50, 0, 50)
    >>> scaling_lag([behind, stuck]).scaling_lag
    70
    """
    rows = list(partitions)
    known = [row for row in rows if row.lag is not None]
    parts = [_parts(row) for row in known]
    return ScalingLag(
        scaling_lag=sum(part.readable for part in parts),
        lag=sum(row.lag or 0 for row in known),
        deleted=sum(part.deleted for part in parts),
        blocked=sum(part.blocked for part in parts),
        partitions=len(rows),
        partitions_to_read=sum(part.readable > 0 for part in parts),
        partitions_blocked=sum(part.blocked > 0 for part in parts),
        partitions_unknown=len(rows) - len(known),
    )


class _Parts(NamedTuple):
    readable: int
    deleted: int
    blocked: int


def _parts(row: PartitionLag) -> _Parts:
    lag = row.lag or 0
    deleted = min(row.data_lost or 0, lag)
    kept = lag - deleted
    readable = kept
    if row.status in _BLOCKED:
        readable = 0
    elif row.lag_to_last_stable is not None:
        # The deleted records are part of both lags.
        readable = max(0, min(lag, row.lag_to_last_stable) - deleted)
    return _Parts(readable, deleted, kept - readable)
