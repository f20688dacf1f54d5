"""The tool `find_groups`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coordinator_state.insight.group_status import Status
from coordinator_state.replay.groups import NO_RECORD_OFFSET
from streaming.agents.answer import Answer, At, ClusterName, Limit, Part, RecordId, Text
from streaming.agents.clusters import Clusters
from streaming.lag.gathered_facts import UNHEALTHY
from streaming.served.snapshot import counted
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUPS
from streaming.views import lists
from streaming.views.text import from_printable


class FoundGroup(Part):
    """A consumer group and its status."""

    group_id: Text
    status: str
    """OK, STOP, STALL and so on; the resource docs://statuses has their meaning."""
    reason: Text
    """The reason of the status, with numbers."""
    group_type: str
    group_state: str
    member_count: int
    topic: Text | None
    """The topic of the worst partition."""
    partition: int | None
    partitions: int
    """The number of partitions with a committed offset."""
    partitions_not_ok: int
    lag: int | None
    """Records that the group has not committed, over all partitions."""
    max_time_lag_at_least_ms: int | None
    """A lower bound of the age of the oldest uncommitted record."""
    record_id: RecordId | None
    """The last record of the group; null for a group known only from its committed offsets."""


class FoundGroups(Answer):
    """Groups, worst status first."""

    statuses: dict[str, int]
    """The number of groups by status, worst first, of all groups of the cluster."""
    groups: list[FoundGroup]
    more: int
    """The number of matching groups that are not in the list."""


def find_groups(
    clusters: Clusters,
    status: Annotated[
        Literal["unhealthy", "all"] | Status,
        Field(description="unhealthy: every status but OK and IDLE. all: every group."),
    ] = "unhealthy",
    search: Annotated[str, Field(description="Text that the group id contains.")] = "",
    limit: Limit = 20,
    at: At = "",
    cluster: ClusterName = "",
) -> FoundGroups:
    """Find consumer groups by status or by a part of their id, worst status first.

    Start here. The default lists the groups in trouble with the reason of each. Then ask
    explain_group for the cause. A deleted group and a group that is healthy again are not in the
    list: who_moved_offsets and changes_between find them.
    """
    opened = clusters.opened(cluster, at)
    snapshot = opened.snapshot
    statuses = snapshot.evaluation.statuses["status"]
    wanted = {
        "all": [],
        "unhealthy": UNHEALTHY,
    }.get(status, [status])
    query = lists.groups(search=from_printable(search), statuses=wanted)
    ids = snapshot.ids(query)
    rows = snapshot.groups(ids[:limit]).values()
    records = _last_records(opened.snapshot.reader, ids[:limit])
    return FoundGroups(
        **opened.fields,
        statuses=dict(counted(statuses)),
        groups=[FoundGroup(**row, record_id=records.get(row["group_id"])) for row in rows],
        more=len(ids) - len(rows),
    )


def _last_records(reader: TableReader, group_ids: list[str]) -> dict[str, RecordId]:
    columns = ["group_id", "log_partition", "record_offset"]
    return {
        row["group_id"]: RecordId.of((row["log_partition"], row["record_offset"]))
        for row in reader.own(GROUPS.name, columns, group_ids).to_pylist()
        if row["record_offset"] != NO_RECORD_OFFSET
    }
