"""Events of groups, members and offsets: each of them, or equal ones folded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from coordinator_state.apply.rows import GroupEventRow
from coordinator_state.insight.event_digest import FoldedEvents
from coordinator_state.insight.evidence import record_ids_of
from coordinator_state.insight.group_events import EventName
from coordinator_state.replay.groups import EXTERNAL
from streaming.api.answers import Answer, Page, Part, RecordId, columns, record_id
from streaming.api.cursors import read_cursor, write_cursor
from streaming.api.groups import Task, TopicPartition
from streaming.api.operation import (
    ClusterQuery,
    Clusters,
    Limit,
    OptionalGroup,
    PagedQuery,
    Shown,
    Within,
    operation,
)
from streaming.served.snapshot import Row
from streaming.views import lists
from streaming.views.event_summary import event_summary
from streaming.views.history import history

_MOVES: Final = (
    *(EventName.OFFSET_REWIND, EventName.OFFSET_RESET, EventName.OFFSET_DELETED),
    *(EventName.OFFSET_EXPIRED, EventName.GROUP_DELETED),
)
_MOST_EXAMPLES: Final = 3
_OF_FOLDED: Final = ("group_id", "events", "text", "count", "who", "first_at", "last_at")


@columns("group_events", GroupEventRow, without=["day"])
class Event(Part):
    """An event, and the record in `__consumer_offsets` that shows it.

    The fields are the columns of `group_events` but `day`. The event decides which of them are
    null.
    """

    event: EventName
    assignment_before: list[TopicPartition] | None
    assignment_after: list[TopicPartition] | None
    tasks_before: list[Task] | None
    tasks_after: list[Task] | None


class EventPage(Page[Event]):
    """A page of events, newest first."""


class FoldedEvent(Part):
    """Equal events of one group that follow each other; often just one."""

    group_id: str
    """Group id."""
    events: list[EventName]
    """Names of events; the resource docs://events has their meaning."""
    text: str
    """The events in one sentence."""
    count: int
    """Number of events."""
    who: str | None
    """The client behind the events, or why Kafka does not record it. Null if several or none."""
    first_at: datetime | None
    """Time of the first event."""
    last_at: datetime | None
    """Time of the last event."""
    record_ids: list[RecordId]
    """The records that show it: all if they are few, otherwise the first and the last."""


@columns(
    *("group_events", GroupEventRow, "topic", "partition", "offset_before", "offset_after"),
    *("record_timestamp", "client_id", "client_host", "member_id", "producer_id"),
)
class OffsetMove(Part):
    """One committed offset that moved."""

    record_id: RecordId | None
    """The commit or the tombstone that moved it. External groups have no records."""


class OffsetMoves(FoldedEvent):
    """Equal moves of one group that follow each other."""

    examples: list[OffsetMove]
    """Up to three of the moves, the furthest first."""


class FoundMoves(Answer):
    """Moves of committed offsets other than progress: rewinds first, newest first."""

    since: datetime
    """Start of the period."""
    moves: list[OffsetMoves]
    """Moves, the most serious first."""
    more: int
    """Number of moves that are not in the list."""


class EventsQuery(PagedQuery):
    """The parameters of the list of events; an event must match all of them."""

    group: OptionalGroup = ""
    event: list[EventName] = Field(default_factory=list)
    """Names of events; any of them."""
    since: str = ""
    """Start of the period: a time as in `at`. Empty for the whole history."""
    until: str = ""
    """End of the period: a time as in `at`. Empty for now."""


class MovesQuery(ClusterQuery):
    """The parameters of the moves of offsets."""

    group: OptionalGroup = ""
    topic: str = ""
    """The topic. Empty for all topics."""
    within: Within = "1h"
    limit: Limit = 20


@operation("/events", is_costly=True)
def list_events(clusters: Clusters, query: EventsQuery) -> EventPage:
    """Events of groups, members and offsets, newest first."""
    shown = clusters.opened(query)
    at = shown.at if query.at else None
    key = lists.history("group_events").key
    events = history(
        shown.reader,
        "group_events",
        group=query.group or None,
        events=[event.value for event in query.event],
        since=query.since or None,
        until=query.until or at,
        before=read_cursor(query.cursor, key.values()),
        limit=query.limit,
    )
    items = events.rows.to_pylist()[::-1]
    next_cursor = write_cursor(events.oldest) if events.more else None
    return shown.answer(EventPage, items=items, next_cursor=next_cursor)


@operation(tool="who_moved_offsets")
def find_moves(clusters: Clusters, query: MovesQuery) -> FoundMoves:
    """Find who moved committed offsets, from where to where, and when.

    Finds rewinds, resets, deletions and expiries of offsets, and deletions of groups, also of
    groups that do not exist any more. `who` is the member that held the partition, or says why
    Kafka does not record the client. Commits that move an offset forward are not in the list.
    """
    shown = clusters.opened(query)
    since = shown.begin(query.within)
    moves = folded_list(
        shown,
        "moves",
        query.limit,
        group=query.group or None,
        topic=query.topic or None,
        events=[name.value for name in _MOVES],
        since=since,
    )
    return shown.answer(FoundMoves, since=since, moves=moves["moves"], more=moves["more_moves"])


def folded_list(shown: Shown, name: str, limit: int, **selection: Any) -> dict[str, Any]:
    """A list of folded events up to the moment of the answer, and `more_{name}`.

    `selection` are arguments of `event_summary`.
    """
    summary = event_summary(shown.reader, until=shown.at, **selection)
    rows = summary.rows
    return {
        name: [_folded(folded) for folded in rows[:limit]],
        f"more_{name}": summary.more + sum(folded.count for folded in rows[limit:]),
    }


def _folded(folded: FoldedEvents) -> Row:
    """The fields of a folded event, with examples of moves."""
    moved = sorted(
        (row for row in folded.rows if row["topic"] is not None), key=_distance, reverse=True
    )
    return {
        **{name: getattr(folded, name) for name in _OF_FOLDED},
        "record_ids": [record_id(*place) for place in record_ids_of(folded.rows)],
        "examples": [
            {**row, "record_id": None if row["group_type"] == EXTERNAL else row}
            for row in moved[:_MOST_EXAMPLES]
        ],
    }


def _distance(row: Mapping[str, Any]) -> int:
    return abs((row["offset_before"] or 0) - (row["offset_after"] or 0))
