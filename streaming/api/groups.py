"""Groups: their status, lag, members, and why they are behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from coordinator_state.insight.group_status import Status
from streaming.api.cursors import page_of
from streaming.api.endpoints import ClusterQuery, Clusters, Endpoint, PagedQuery, Shown
from streaming.api.group_answers import GroupExplanation, GroupPage, OneGroup, PartitionLagPage
from streaming.served.snapshot import Row
from streaming.views.diagnosis import explained, explanation_fields
from streaming.views.lists import group_partitions, groups

GroupState = Literal[
    "Empty",
    "Stable",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Dead",
    "PreparingRebalance",
    "CompletingRebalance",
]
GroupType = Literal["classic", "consumer", "share", "streams", "external"]


class GroupsQuery(PagedQuery):
    """Parameters of the list of groups; a group must match all of them."""

    group: Annotated[list[str], Field(description="Group ids; any of them.", default_factory=list)]
    search: Annotated[str, Field(description="Part of the group id; case does not matter.")] = ""
    status: Annotated[
        list[Status], Field(description="Statuses; any of them.", default_factory=list)
    ]
    state: Annotated[
        list[GroupState], Field(description="Group states; any of them.", default_factory=list)
    ]
    type: Annotated[
        list[GroupType], Field(description="Group types; any of them.", default_factory=list)
    ]
    topic: Annotated[
        list[str],
        Field(
            description="Topics: groups that read any of them.",
            default_factory=list,
        ),
    ]
    include: Annotated[
        list[Literal["partitions"]],
        Field(
            description="partitions: add the lag in each partition to each group. A page then "
            "ends early if it would have more than 10,000 partitions.",
            default_factory=list,
        ),
    ]

    @property
    def is_costly(self) -> bool:
        """Whether the answer takes long, also with the rows of many partitions."""
        return super().is_costly or bool(self.include)


class LagQuery(PagedQuery):
    """Parameters of the partitions of a group."""

    topic: Annotated[list[str], Field(description="Topics; any of them.", default_factory=list)]
    status: Annotated[
        list[Status], Field(description="Statuses; any of them.", default_factory=list)
    ]


MOST_PARTITIONS = 10_000
"""With `include=partitions`, a page ends before the group with which it would have more."""


def list_groups(clusters: Clusters, query: GroupsQuery) -> GroupPage:
    """All groups with status, lag and time lag, in one request."""
    shown = clusters.snapshot(query)
    selected = groups(
        search=query.search,
        group_ids=query.group,
        statuses=[status.value for status in query.status],
        states=query.state,
        types=query.type,
        topics=query.topic,
    )
    fields = page_of(shown.snapshot, selected, query.cursor, query.limit)
    partitions: Mapping[str, list[Row]] = {}
    if query.include:
        fitting = _fitting([row["partitions"] for row in fields["items"]])
        if fitting < len(fields["items"]):
            fields = page_of(shown.snapshot, selected, query.cursor, fitting)
        partitions = _partitions_of(shown, [row["group_id"] for row in fields["items"]])
    fields["items"] = [
        _group_fields(shown, row, partitions.get(row["group_id"])) for row in fields["items"]
    ]
    return GroupPage.model_validate({**shown.envelope, **fields})


def get_group(clusters: Clusters, query: ClusterQuery, group: str) -> OneGroup:
    """A group with its members and their assignments."""
    shown = clusters.snapshot(query)
    shown.require_group(group)
    reader = shown.snapshot.reader
    row = shown.snapshot.groups([group])[group]
    details = reader.own("groups", _GROUP_COLUMNS, [group]).to_pylist()
    members = reader.own("group_members", _MEMBER_COLUMNS, [group]).to_pylist()
    fields = {
        **dict.fromkeys(_GROUP_COLUMNS),
        **(details[0] if details else {}),
        **_group_fields(shown, row, None),
        "members": sorted(members, key=lambda member: member["member_id"]),
    }
    return OneGroup.model_validate({**shown.envelope, "group": fields})


def get_group_lag(clusters: Clusters, query: LagQuery, group: str) -> PartitionLagPage:
    """The lag of a group in each partition."""
    shown = clusters.snapshot(query)
    shown.require_group(group)
    selected = group_partitions(
        group, topics=query.topic, statuses=[status.value for status in query.status]
    )
    fields = page_of(shown.snapshot, selected, query.cursor, query.limit)
    return PartitionLagPage.model_validate({**shown.envelope, **fields})


def explain_group(clusters: Clusters, query: ClusterQuery, group: str) -> GroupExplanation:
    """Why a group is behind, since when, and what changed just before."""
    shown = clusters.opened(query)
    shown.require_group(group)
    explanation = explained(shown.snapshot.reader, group, at=shown.snapshot.at)
    if explanation is None:
        raise AssertionError(f"no facts about the known group {group!r}")
    return GroupExplanation.model_validate({**explanation_fields(explanation), **shown.envelope})


def _fitting(counts: Sequence[int]) -> int:
    """How many of the first groups have at most `MOST_PARTITIONS` together; at least one."""
    return max(int(np.searchsorted(np.cumsum(counts), MOST_PARTITIONS, side="right")), 1)


def _partitions_of(shown: Shown, group_ids: Sequence[str]) -> Mapping[str, list[Row]]:
    partitions: dict[str, list[Row]] = {group_id: [] for group_id in group_ids}
    for row in shown.snapshot.partitions_of(*group_ids):
        partitions[row["group_id"]].append(row)
    return partitions


def _group_fields(shown: Shown, row: Row, partitions: list[Row] | None) -> dict[str, Any]:
    return {
        **row,
        "status_since": shown.snapshot.status_since.get(row["group_id"]),
        "lag_of_partitions": partitions,
    }


_GROUP_COLUMNS = [
    *("protocol_type", "protocol", "leader", "generation", "group_epoch", "replay_warning"),
]
_MEMBER_COLUMNS = [
    *("member_id", "group_instance_id", "client_id", "client_host", "member_epoch"),
    *("member_state", "subscribed_topics", "assignment", "tasks"),
]

ENDPOINTS = (
    Endpoint("/groups", list_groups),
    Endpoint("/groups/{group}", get_group),
    Endpoint("/groups/{group}/lag", get_group_lag),
    Endpoint("/groups/{group}/explanation", explain_group, is_costly=True),
)
