"""The lag of a group for autoscalers, as KEDA's scaler `metrics-api` reads it."""

from __future__ import annotations

from dataclasses import asdict, replace

from starlette.exceptions import HTTPException

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.scaling_lag import PartitionLag, scaling_lag
from coordinator_state.replay.partitioner import partition_for
from streaming.api.answers import Answer, columns
from streaming.api.operation import Clusters, GroupQuery, operation
from streaming.tables.rows import StatusRow
from streaming.tables.schemas import STATE_CURRENT


@columns(
    "group_status", StatusRow, "group_id", "scaling_lag", "lag", "deleted", "blocked", "partitions"
)
class GroupScalingLag(Answer):
    """The records that more consumers of a group would read: `scaling_lag`.

    `lag` = `scaling_lag` + `deleted` + `blocked`.
    """

    scaling_lag: int
    """Records that more consumers would read."""
    lag: int
    """Sum of the known lag of all partitions."""
    deleted: int
    """Records deleted before they were read."""
    blocked: int
    """Records after a stuck record or after the last stable offset: more consumers do not help."""
    partitions_to_read: int
    """Number of partitions with something to read: more consumers than this would be idle."""
    partitions_blocked: int
    """Number of partitions whose records are blocked."""
    partitions_unknown: int
    """Number of partitions whose lag is unknown."""


@operation("/groups/{group}/scaling-lag")
def get_scaling_lag(clusters: Clusters, query: GroupQuery) -> GroupScalingLag:
    """The lag of a group that more consumers would read, for autoscalers such as KEDA.

    A group without committed offsets, also one that does not exist, has the lag 1: nobody knows how
    far it will be behind, and a first consumer has to find out.
    """
    shown, group = clusters.snapshot(query), query.group
    stale = shown.snapshot.evaluation.stale
    if stale is not None:
        # An autoscaler must not act on old numbers: with an error it keeps the replicas.
        raise _unknown(f"the lag of group {group} is unknown: {stale.reason}")
    rows = shown.snapshot.partitions_of(group)
    scaling = scaling_lag(
        PartitionLag(Status(row["status"]), row["lag"], row["data_lost"], row["lag_to_last_stable"])
        for row in rows
    )
    if not rows:
        reader = shown.reader
        load = reader.load_states.get(partition_for(group, reader.log_partitions))
        if load is None or load.state != STATE_CURRENT:
            raise _unknown(f"the lag of group {group} is unknown: its log partition is not loaded")
    if scaling.partitions_unknown and not scaling.scaling_lag:
        # A known lag of 0 beside unknown ones must not scale the group in.
        raise _unknown(
            f"the lag of group {group} is unknown in {scaling.partitions_unknown} of "
            f"{scaling.partitions} partitions"
        )
    if not scaling.lag and all(row["committed_offset"] is None for row in rows):
        scaling = replace(scaling, scaling_lag=1, lag=1)
    return shown.answer(GroupScalingLag, group_id=group, **asdict(scaling))


def _unknown(text: str) -> HTTPException:
    return HTTPException(503, text, {"Retry-After": "30"})
