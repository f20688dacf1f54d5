"""The lag of a group over time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field
from starlette.exceptions import HTTPException

from coordinator_state.apply.rows import CommittedOffsetRow
from coordinator_state.replay.groups import EXTERNAL
from streaming.api.answers import Answer, Part, RecordId, columns
from streaming.api.operation import Clusters, GroupQuery, Limit, Within, operation
from streaming.lag.lag_history import lag_histories

_COMMIT = ("topic", "partition", "committed_offset", "commit_timestamp")


class LagPoint(Part):
    """The sums over all partitions of the group at a moment; null if unknown."""

    at: datetime
    """The moment."""
    lag: float | None
    """Records that the group has not committed."""
    commit_rate_per_s: float | None
    """Movement of the committed offsets since the previous point, in records per second."""
    produce_rate_per_s: float | None
    """Records per second that producers wrote since the previous point."""


@columns("group_offsets", CommittedOffsetRow, *_COMMIT)
class LastCommit(Part):
    """The committed offset of a partition."""

    record_id: RecordId | None
    """Record of the commit; null for an external group, which has no records."""


class GroupLagHistory(Answer):
    """The lag of a group over time."""

    group_id: str
    """Group id."""
    points: list[LagPoint]
    """Evenly spaced, oldest first."""
    last_commits: list[LastCommit]
    """The newest commit of each partition, oldest first."""
    more: int
    """Number of partitions that are not in `last_commits`."""


class LagHistoryQuery(GroupQuery):
    """The parameters of the lag of a group over time."""

    within: Within = "1h"
    points: Annotated[int, Field(ge=2, le=120)] = 30
    """The number of points."""
    limit: Limit = 10


@operation(tool="lag_history")
def lag_history(clusters: Clusters, query: LagHistoryQuery) -> GroupLagHistory:
    """Return the lag, the commit rate and the produce rate of one group over time.

    Use it to see when the lag began to grow, and whether producers became faster or the group
    slower. `last_commits` names the record of the last commit of each partition.
    """
    shown, group_id = clusters.opened(query), query.group
    reader, begin = shown.reader, shown.begin(query.within)
    history = lag_histories(reader, [group_id], since=begin, until=shown.at, points=query.points)[
        group_id
    ]
    names = [*_COMMIT, *RecordId.model_fields]
    commits = reader.own("group_offsets", names, [group_id]).sort_by("commit_timestamp")
    if not commits.num_rows and all(rate is None for rate in history.commit_rate_per_s):
        raise HTTPException(
            404,
            f"group {group_id} has no committed offset at this moment; for all groups: "
            f"{clusters.all_groups}",
        )
    types = reader.own("groups", ["group_type"], [group_id])["group_type"].to_pylist()
    values = (history.lag, history.commit_rate_per_s, history.produce_rate_per_s)
    return shown.answer(
        GroupLagHistory,
        group_id=group_id,
        points=[
            dict(zip(LagPoint.model_fields, (at, *map(_rounded, point)), strict=True))
            for at, *point in zip(history.at, *values, strict=True)
        ],
        last_commits=[
            {**row, "record_id": None if EXTERNAL in types else row}
            for row in commits.slice(0, query.limit).to_pylist()
        ],
        more=max(commits.num_rows - query.limit, 0),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
