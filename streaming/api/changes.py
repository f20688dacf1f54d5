"""Changes between two moments: groups, committed offsets and events."""

from __future__ import annotations

from datetime import datetime

from coordinator_state.insight.group_status import Status
from streaming.api.answers import Answer, Part, columns
from streaming.api.events import FoldedEvent, folded_list
from streaming.api.operation import ClusterQuery, Clusters, Limit, OptionalGroup, operation
from streaming.errors import ConfigurationError
from streaming.served.changes_between import group_changes, offset_changes
from streaming.tables.as_of import parse_time
from streaming.tables.rows import GroupStatusRow


@columns(
    *("group_status", GroupStatusRow, "status", "reason", "group_state", "member_count"),
    *("partitions", "lag"),
)
class GroupAtMoment(Part):
    """A group at one of the two moments."""

    status: Status


class GroupChange(Part):
    """A group whose status, state, members or partitions changed."""

    group_id: str
    """Group id."""
    before: GroupAtMoment | None
    """The group at the earlier moment; null if it did not exist."""
    after: GroupAtMoment | None
    """The group at the later moment; null if it does not exist any more."""


class OffsetChange(Part):
    """Changes of the committed offsets of a group in a topic."""

    group_id: str
    """Group id."""
    topic: str
    """Topic name."""
    forward: int
    """Sum of offsets that went forward."""
    back: int
    """Sum of offsets that went back."""
    added: int
    """Number of partitions with a new committed offset."""
    removed: int
    """Number of partitions whose committed offset is gone."""


class Changes(Answer):
    """What changed from `since` to `at`, the most serious first."""

    since: datetime
    """The earlier moment. It is later than the requested one if the tables begin later."""
    groups: list[GroupChange]
    """Groups that changed."""
    more_groups: int
    """Number of groups that are not in the list."""
    offsets: list[OffsetChange]
    """Committed offsets that changed."""
    more_offsets: int
    """Number of rows of offsets that are not in the list."""
    events: list[FoldedEvent]
    """Events between the moments."""
    more_events: int
    """Number of events that are not in the list."""


class ChangesQuery(ClusterQuery):
    """The parameters of the changes between two moments."""

    since: str = "20m"
    """The earlier moment, in the forms of `at`. A duration such as 20m counts back from `at`."""
    group: OptionalGroup = ""
    limit: Limit = 20


@operation(tool="changes_between")
def changes_between(clusters: Clusters, query: ChangesQuery) -> Changes:
    """Compare two moments: groups that changed, committed offsets that moved, and events.

    Use it to see what happened around a time, also to groups that are healthy or gone now. The
    events between the moments name their records in `__consumer_offsets`.
    """
    until = clusters.opened(query)
    begins_at = until.reader.begins_at
    begin = max(begins_at, parse_time(query.since, now=until.at))
    if begin >= until.at:
        raise ConfigurationError(
            f"since: {begin.isoformat()} is not before {until.at.isoformat()}; the tables "
            f"begin at {begins_at.isoformat()}"
        )
    before = clusters.opened(query, begin)
    group_id = query.group or None
    groups = group_changes(before.snapshot, until.snapshot, group_id, query.limit)
    offsets = offset_changes(before.snapshot, until.snapshot, group_id, query.limit)
    return until.answer(
        Changes,
        since=before.at,
        groups=groups.rows,
        more_groups=groups.more,
        offsets=offsets.rows,
        more_offsets=offsets.more,
        **folded_list(until, "events", query.limit, group=group_id, since=begin),
    )
