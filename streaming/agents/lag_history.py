"""The tool `lag_history`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coordinator_state.replay.groups import EXTERNAL
from streaming.agents.answer import (
    Answer,
    At,
    ClusterName,
    Limit,
    Part,
    RecordId,
    Text,
    Time,
    Within,
)
from streaming.agents.clusters import Clusters
from streaming.errors import ConfigurationError
from streaming.lag.lag_history import lag_histories
from streaming.tables.schemas import GROUP_OFFSETS, GROUPS
from streaming.views.text import from_printable

_COLUMNS = [
    *("topic", "partition", "committed_offset", "commit_timestamp"),
    *("log_partition", "record_offset"),
]


class LagPoint(Part):
    """The sums over all partitions of the group at a moment; null if unknown."""

    at: Time
    lag: float | None
    """Records that the group has not committed."""
    commit_rate_per_s: float | None
    """Records per second by which the committed offsets moved since the previous point."""
    produce_rate_per_s: float | None
    """Records per second that producers wrote since the previous point."""


class LastCommit(Part):
    """The committed offset of a partition."""

    topic: Text
    partition: int
    committed_offset: int
    commit_timestamp: Time
    record_id: RecordId | None
    """Null for an external group, which has no records."""


class FoundLagHistory(Answer):
    """The lag of a group over time."""

    group_id: Text
    points: list[LagPoint]
    """Evenly spaced, oldest first."""
    last_commits: list[LastCommit]
    """The newest commit of each partition, oldest first."""
    more: int
    """The number of partitions that are not in `last_commits`."""


def lag_history(
    clusters: Clusters,
    group: Annotated[str, Field(description="The group id, as answers of this server show it.")],
    within: Within = "1h",
    points: Annotated[int, Field(ge=2, le=120, description="The number of points.")] = 30,
    limit: Limit = 10,
    at: At = "",
    cluster: ClusterName = "",
) -> FoundLagHistory:
    """Return the lag, the commit rate and the produce rate of one group over time.

    Use it to see when the lag began to grow, and whether producers became faster or the group
    slower. `last_commits` names the record of the last commit of each partition.
    """
    opened = clusters.opened(cluster, at)
    reader, until = opened.snapshot.reader, opened.snapshot.at
    group_id = from_printable(group)
    history = lag_histories(
        reader, [group_id], since=opened.begin(within), until=until, points=points
    )[group_id]
    commits = reader.own(GROUP_OFFSETS.name, _COLUMNS, [group_id]).sort_by("commit_timestamp")
    if not commits.num_rows and all(rate is None for rate in history.commit_rate_per_s):
        raise ConfigurationError(
            f"group {group} has no committed offset at this moment; for all groups: find_groups "
            "with status all"
        )
    types = reader.own(GROUPS.name, ["group_type"], [group_id])["group_type"].to_pylist()
    return FoundLagHistory(
        **opened.fields,
        group_id=group_id,
        points=[
            LagPoint(at=moment, lag=lag, commit_rate_per_s=committed, produce_rate_per_s=produced)
            for moment, lag, committed, produced in zip(
                history.at,
                map(_rounded, history.lag),
                map(_rounded, history.commit_rate_per_s),
                map(_rounded, history.produce_rate_per_s),
                strict=True,
            )
        ],
        last_commits=[
            LastCommit(
                **row,
                record_id=None
                if EXTERNAL in types
                else RecordId.of((row["log_partition"], row["record_offset"])),
            )
            for row in commits.slice(0, limit).to_pylist()
        ],
        more=max(commits.num_rows - limit, 0),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
