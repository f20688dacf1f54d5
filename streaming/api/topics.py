"""Topics: the groups that read them."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from coordinator_state.insight.group_status import Status
from streaming.api.answers import Page, Part, columns
from streaming.api.operation import Clusters, PagedQuery, operation
from streaming.tables.rows import GroupLagRow, StatusRow
from streaming.views.lists import topic_groups


@columns(
    *("group_status", StatusRow, "group_id", "group_state", "status", "reason", "partitions"),
    *("lag", "max_lag", "skew", "max_time_lag_ms", "max_time_lag_at_least_ms"),
)
class TopicGroup(Part):
    """A group that reads a topic, with its lag over all partitions of the topic."""

    status: Status
    """Worst status of the group in a partition of the topic."""
    partitions: int
    """Number of partitions of the topic that the group reads."""
    lag: int | None
    """Sum of the known lag in the partitions of the topic; null if none is known."""
    max_lag: int | None
    """Greatest known lag in a partition of the topic; null if none is known."""
    skew: float | None
    """Greatest lag of a partition divided by the mean lag; null without lag."""
    readers: int
    """Number of members with a partition of the topic."""


@columns("group_lag", GroupLagRow, "topic", "topic_state")
class TopicGroupPage(Page[TopicGroup]):
    """A page of the groups of a topic, in the order of their ids."""


class TopicQuery(PagedQuery):
    """The parameters of the groups of a topic."""

    topic: str
    """Topic name."""


@operation("/topics/{topic}/groups")
def list_topic_groups(clusters: Clusters, query: TopicQuery) -> TopicGroupPage:
    """The groups that read a topic."""
    shown = clusters.snapshot(query)
    readers = topic_groups(query.topic)
    states = shown.snapshot.listed(readers, "topic_state", 1)["topic_state"].to_pylist()
    if not states:
        raise HTTPException(404, f"no group reads topic {query.topic}")
    return shown.page(TopicGroupPage, query, readers, topic=query.topic, topic_state=states[0])
