"""Topics: the groups that read them."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.exceptions import HTTPException

from coordinator_state.insight.group_status import Status
from streaming.api.cursors import page_of
from streaming.api.endpoints import Answer, Clusters, Endpoint, PagedQuery
from streaming.api.fields import described
from streaming.views.lists import topic_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGroup:
    """A group that reads a topic, with its lag over all partitions of the topic."""

    __pydantic_config__ = described("group_status")

    group_id: str
    group_state: str
    status: Status
    """Worst status of the group in a partition of the topic."""
    reason: str
    partitions: int
    """Number of partitions of the topic that the group reads."""
    lag: int | None
    """Sum of the known lag in the partitions of the topic; null if none is known."""
    max_lag: int | None
    """Greatest known lag in a partition of the topic; null if none is known."""
    skew: float | None
    """Greatest lag of a partition divided by the mean lag; null without lag."""
    max_time_lag_ms: int | None
    max_time_lag_at_least_ms: int | None
    readers: int
    """Number of members with a partition of the topic."""


class TopicGroupPage(Answer):
    """A page of the groups of a topic, in the order of their ids."""

    model_config = described("group_lag")

    topic: str
    topic_state: str | None
    items: list[TopicGroup]
    """Groups of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


def list_topic_groups(clusters: Clusters, query: PagedQuery, topic: str) -> TopicGroupPage:
    """The groups that read a topic."""
    shown = clusters.snapshot(query)
    readers = topic_groups(topic)
    states = shown.snapshot.listed(readers, "topic_state", 1)["topic_state"].to_pylist()
    if not states:
        raise HTTPException(404, f"no group reads topic {topic}")
    fields = page_of(shown.snapshot, readers, query.cursor, query.limit)
    about = {"topic": topic, "topic_state": states[0]}
    return TopicGroupPage.model_validate({**shown.envelope, **about, **fields})


ENDPOINTS = (Endpoint("/topics/{topic}/groups", list_topic_groups),)
