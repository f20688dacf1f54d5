"""Groups: their status, lag and members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import numpy as np
from pydantic import Field

from coordinator_state.apply.rows import GroupRow, MemberRow
from coordinator_state.insight.group_status import UNHEALTHY, Status
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from streaming.api.answers import Answer, Page, Part, RecordId, columns
from streaming.api.cursors import page_of
from streaming.api.operation import (
    ClusterQuery,
    Clusters,
    GroupQuery,
    Limit,
    PagedQuery,
    Shown,
    operation,
)
from streaming.served.snapshot import Row, counted
from streaming.tables.rows import GroupLagRow, StatusRow
from streaming.views import lists

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
MOST_PARTITIONS = 10_000
"""With `include=partitions`, a page ends before the group with which it would have more."""
_OF_GROUP: Final = (
    *("protocol_type", "protocol", "leader", "generation", "group_epoch", "replay_warning"),
)


@columns("group_lag", GroupLagRow)
class PartitionLag(Part):
    """The lag of a group in a partition: a row of `group_lag`."""

    status: Status


@columns("group_status", StatusRow)
class GroupStatus(Part):
    """A group: its row of `group_status`, with further fields."""

    member_count: int | None
    min_retention_margin_ms: int | None
    """Estimated time until the first uncommitted record is deleted, in any partition."""
    status_since: datetime | None
    """Time of the evaluation of `run` that first had this status; null if there was none."""
    is_status_older: bool | None
    """Whether the status may have begun before `status_since`; null if `run` did not evaluate."""
    cause: str | None


class Group(GroupStatus):
    """A group: its row of `group_status`, with further fields."""

    lag_of_partitions: list[PartitionLag] | None
    """Lag in each partition; null unless the request has `include=partitions`."""


class GroupWithRecord(GroupStatus):
    """A group, and its last record."""

    record_id: RecordId | None
    """Last record of the group; null for a group known only from its committed offsets."""


class TopicPartition(Part):
    """A partition in an assignment."""

    topic: str | None
    """Topic name; null if only the topic id is known."""
    topic_id: str | None
    """Topic id; null in classic groups."""
    partition: int | None
    """Partition of the topic."""


class Task(Part):
    """A task of a streams group."""

    task_type: str | None
    """`active`, `standby` or `warmup`."""
    subtopology_id: str | None
    """Id of the subtopology."""
    partition: int | None
    """Partition of the source topics."""


@columns(
    *("group_members", MemberRow, "member_id", "group_instance_id", "client_id", "client_host"),
    *("member_epoch", "member_state", "subscribed_topics"),
)
class Member(Part):
    """A member of a group."""

    assignment: list[TopicPartition] | None
    tasks: list[Task] | None


@columns("groups", GroupRow, *_OF_GROUP, is_nullable=True)
class GroupDetails(Group):
    """A group with its members."""

    members: list[Member]
    """Members, by member id."""


class GroupPage(Page[Group]):
    """A page of groups, in the order of their ids."""

    total: int
    """Number of groups on all pages."""


class OneGroup(Answer):
    """A group."""

    group: GroupDetails
    """The group."""


class PartitionLagPage(Page[PartitionLag]):
    """A page of the partitions of a group, by topic and partition."""


class FoundGroups(Answer):
    """Groups, worst status first."""

    statuses: dict[Status, int]
    """Number of groups by status, worst first, of all groups of the cluster."""
    items: list[GroupWithRecord]
    """Groups, worst status first."""
    more: int
    """Number of matching groups that are not in the list."""


class GroupsQuery(PagedQuery):
    """The parameters of the list of groups; a group must match all of them."""

    group: list[str] = Field(default_factory=list)
    """Group ids; any of them."""
    search: str = ""
    """Part of the group id; case does not matter."""
    status: list[Status] = Field(default_factory=list)
    """Statuses; any of them."""
    state: list[GroupState] = Field(default_factory=list)
    """Group states; any of them."""
    type: list[GroupType] = Field(default_factory=list)
    """Group types; any of them."""
    topic: list[str] = Field(default_factory=list)
    """Topics: groups that read any of them."""
    include: list[Literal["partitions"]] = Field(
        default_factory=list,
        description="partitions: add the lag in each partition to each group. A page then ends "
        "early if it would have more than 10,000 partitions.",
    )

    @property
    def is_costly(self) -> bool:
        """Whether the answer takes long, also with the rows of many partitions."""
        return super().is_costly or bool(self.include)


class LagQuery(GroupQuery, PagedQuery):
    """The parameters of the partitions of a group."""

    topic: list[str] = Field(default_factory=list)
    """Topics; any of them."""
    status: list[Status] = Field(default_factory=list)
    """Statuses; any of them."""


class FindGroupsQuery(ClusterQuery):
    """The parameters of the search for groups."""

    status: Literal["unhealthy", "all"] | Status = "unhealthy"
    """unhealthy: every status but OK and IDLE. all: every group."""
    search: str = ""
    """Part of the group id; case does not matter."""
    limit: Limit = 20


@operation("/groups")
def list_groups(clusters: Clusters, query: GroupsQuery) -> GroupPage:
    """All groups with status, lag and time lag, in one request."""
    shown = clusters.snapshot(query)
    selected = lists.groups(
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
        {**row, "lag_of_partitions": partitions.get(row["group_id"])}
        for row in _with_since(shown, fields["items"])
    ]
    return shown.answer(GroupPage, total=shown.snapshot.number(selected), **fields)


@operation("/groups/{group}")
def get_group(clusters: Clusters, query: GroupQuery) -> OneGroup:
    """A group with its members and their assignments."""
    shown = clusters.snapshot(query)
    shown.require_group(query.group)
    (row,) = _with_since(shown, shown.snapshot.groups([query.group]).values())
    details = shown.reader.own("groups", list(_OF_GROUP), [query.group]).to_pylist()
    members = shown.reader.own("group_members", list(Member.model_fields), [query.group])
    group = {
        **dict.fromkeys(_OF_GROUP),
        **(details[0] if details else {}),
        **row,
        "lag_of_partitions": None,
        "members": members.sort_by("member_id").to_pylist(),
    }
    return shown.answer(OneGroup, group=group)


@operation("/groups/{group}/lag")
def get_group_lag(clusters: Clusters, query: LagQuery) -> PartitionLagPage:
    """The lag of a group in each partition."""
    shown = clusters.snapshot(query)
    shown.require_group(query.group)
    selected = lists.group_partitions(
        query.group, topics=query.topic, statuses=[status.value for status in query.status]
    )
    return shown.page(PartitionLagPage, query, selected)


@operation(tool="find_groups")
def find_groups(clusters: Clusters, query: FindGroupsQuery) -> FoundGroups:
    """Find consumer groups by status or by a part of their id, worst status first.

    Start here. The default lists the groups in trouble with the reason of each. Then ask
    explain_group for the cause. A deleted group and a group that is healthy again are not in the
    list: who_moved_offsets and changes_between find them.
    """
    shown = clusters.snapshot(query)
    statuses = {"all": [], "unhealthy": UNHEALTHY}.get(query.status, [query.status])
    ids = shown.snapshot.ids(lists.groups(search=query.search, statuses=statuses))
    rows = shown.snapshot.groups(ids[: query.limit])
    records = _last_records(shown, ids[: query.limit])
    return shown.answer(
        FoundGroups,
        statuses=counted(shown.snapshot.evaluation.statuses["status"]),
        items=[
            {**row, "record_id": records.get(row["group_id"])}
            for row in _with_since(shown, rows.values())
        ],
        more=max(len(ids) - query.limit, 0),
    )


def _with_since(shown: Shown, rows: Iterable[Row]) -> list[Row]:
    """The fields of `GroupStatus`, from rows of `group_status`."""
    since = shown.snapshot.status_since
    return [{**row, "status_since": since.get(row["group_id"])} for row in rows]


def _fitting(counts: Sequence[int]) -> int:
    """How many of the first groups have at most `MOST_PARTITIONS` together; at least one."""
    return max(int(np.searchsorted(np.cumsum(counts), MOST_PARTITIONS, side="right")), 1)


def _partitions_of(shown: Shown, group_ids: Sequence[str]) -> Mapping[str, list[Row]]:
    partitions: dict[str, list[Row]] = {group_id: [] for group_id in group_ids}
    for row in shown.snapshot.partitions_of(*group_ids):
        partitions[row["group_id"]].append(row)
    return partitions


def _last_records(shown: Shown, group_ids: Sequence[str]) -> Mapping[str, Row]:
    rows = shown.reader.own("groups", ["record_offset"], group_ids).to_pylist()
    return {row["group_id"]: row for row in rows if row["record_offset"] != NO_RECORD_OFFSET}
