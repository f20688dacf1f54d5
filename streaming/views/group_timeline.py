"""The timeline of a group: who owned its partitions, and when it rebalanced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from coordinator_state.insight.assignment_timeline import (
    TIMELINE_EVENTS,
    AssignmentTimeline,
    assignment_timeline,
)
from coordinator_state.insight.event_digest import FoldedEvents, folded_events
from coordinator_state.insight.member_labels import labels_of
from streaming.tables.reader import TableReader
from streaming.views.event_summary import newest_first
from streaming.views.history import history

MOST_EVENTS: Final = 20_000
_BEHIND: Final = timedelta(minutes=5)
"""A snapshot lacks at most the events of this time before its moment."""
_MEMBER_COLUMNS: Final = [
    *("member_id", "group_instance_id", "client_id", "client_host"),
    *("assignment", "target_assignment", "tasks", "target_tasks"),
]


@dataclass(frozen=True, slots=True)
class GroupTimeline:
    """A timeline, its cycles of joins and leaves, newest first, and the label of each member.

    It begins later than asked if the tables do. `is_cut` says that it does because the group has
    more than `MOST_EVENTS` events.
    """

    timeline: AssignmentTimeline
    is_cut: bool
    cycles: Sequence[FoldedEvents]
    labels: Mapping[str, str]


def group_timeline(
    reader: TableReader, group_id: str, *, since: datetime, until: datetime
) -> GroupTimeline:
    """The timeline of a group in a period."""
    event_history = history(
        reader,
        "group_events",
        group=group_id,
        events=TIMELINE_EVENTS,
        since=since - _BEHIND,
        until=until,
        limit=MOST_EVENTS,
    )
    events = event_history.rows.to_pylist()
    first = [row["record_timestamp"] for row in events[:1]]
    begins_at = min([reader.begins_at, *first])
    if event_history.more:
        begins_at = first[0]
    begin = min(max(since, begins_at), until)
    members = _members_at(reader, group_id, begin)
    if members is None:
        # Members without an event were there all the time.
        changed = {row["member_id"] for row in events}
        last = _members_at(reader, group_id, until) or []
        members = [row for row in last if row["member_id"] not in changed]
    labels = labels_of({**row, "group_id": group_id} for row in [*events, *members])
    shown = [row for row in events if row["record_timestamp"] >= begin]
    cycles = [folded for folded in folded_events(shown, labels) if len(folded.events) > 1]
    return GroupTimeline(
        timeline=assignment_timeline(events, members, since=begin, until=until),
        is_cut=begin > since and event_history.more > 0,
        cycles=sorted(cycles, key=newest_first),
        labels={member_id: label for (_, member_id), label in labels.items()},
    )


def _members_at(
    reader: TableReader, group_id: str, moment: datetime
) -> list[dict[str, Any]] | None:
    """The members at a moment; None if the tables do not reach back to it."""
    if moment < reader.moment:
        group_reader = reader.with_history(
            since=moment, until=moment, group_ids=[group_id], prefers_snapshots=True, keeps=()
        )
        past = group_reader.before(moment)
        if past is None:
            return None
        reader = past
    members: list[dict[str, Any]] = reader.own(
        "group_members", _MEMBER_COLUMNS, [group_id]
    ).to_pylist()
    return members
