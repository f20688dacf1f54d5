"""The tool `changes_between`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from streaming.agents.answer import (
    Answer,
    At,
    ClusterName,
    Event,
    GroupId,
    Limit,
    Part,
    Text,
    Time,
)
from streaming.agents.clusters import Clusters
from streaming.errors import ConfigurationError
from streaming.served.changes_between import group_changes, offset_changes
from streaming.tables.as_of import parse_time
from streaming.views.event_summary import event_summary
from streaming.views.text import from_printable


class GroupState(Part):
    """A group at one of the two moments."""

    status: str
    reason: Text
    group_state: str
    member_count: int
    partitions: int
    lag: int | None


class GroupChange(Part):
    """A group whose status, state, members or partitions changed."""

    group_id: Text
    before: GroupState | None
    """Null if the group did not exist."""
    after: GroupState | None
    """Null if the group does not exist any more."""


class OffsetChange(Part):
    """Changes of the committed offsets of a group in a topic."""

    group_id: Text
    topic: Text
    forward: int
    """The sum of offsets that went forward."""
    back: int
    """The sum of offsets that went back."""
    added: int
    """The number of partitions with a new committed offset."""
    removed: int
    """The number of partitions whose committed offset is gone."""


class Changes(Answer):
    """What changed from `since` to `at`, the most serious first."""

    since: Time
    """The earlier moment. It is later than the requested one if the tables begin later."""
    groups: list[GroupChange]
    more_groups: int
    offsets: list[OffsetChange]
    more_offsets: int
    events: list[Event]
    more_events: int
    """The number of events that are not in the list."""


def changes_between(
    clusters: Clusters,
    since: Annotated[
        str,
        Field(
            description="The earlier moment, in the forms of `at`. A duration such as 20m counts "
            "back from `at`."
        ),
    ] = "20m",
    group: GroupId = "",
    limit: Limit = 20,
    at: At = "",
    cluster: ClusterName = "",
) -> Changes:
    """Compare two moments: groups that changed, committed offsets that moved, and events.

    Use it to see what happened around a time, also to groups that are healthy or gone now. The
    events between the moments name their records in `__consumer_offsets`.
    """
    until = clusters.opened(cluster, at)
    reader = until.snapshot.reader
    begin = max(reader.begins_at, parse_time(since, now=until.snapshot.at))
    if begin >= until.snapshot.at:
        raise ConfigurationError(
            f"since: {begin.isoformat()} is not before {until.snapshot.at.isoformat()}; the tables "
            f"begin at {reader.begins_at.isoformat()}"
        )
    before = clusters.opened(until.name, begin.isoformat()).snapshot
    group_id = from_printable(group) or None
    groups = group_changes(before, until.snapshot, group_id, limit)
    offsets = offset_changes(before, until.snapshot, group_id, limit)
    events = event_summary(reader, group=group_id, since=begin, until=until.snapshot.at)
    return Changes(
        **until.fields,
        since=before.at,
        groups=[
            GroupChange(
                group_id=row["group_id"], before=_state(row["before"]), after=_state(row["after"])
            )
            for row in groups.rows
        ],
        more_groups=groups.more,
        offsets=[OffsetChange(**row) for row in offsets.rows],
        more_offsets=offsets.more,
        events=[Event.of(folded) for folded in events.rows[:limit]],
        more_events=events.more + sum(folded.count for folded in events.rows[limit:]),
    )


def _state(row: Mapping[str, Any] | None) -> GroupState | None:
    return None if row is None else GroupState(**row)
