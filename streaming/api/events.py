"""The events of groups, members and offsets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated

from pydantic import Field

from coordinator_state.apply.rows import GroupEventRow
from coordinator_state.insight.group_events import EventName
from streaming.api.cursors import read_cursor, write_cursor
from streaming.api.endpoints import Answer, Clusters, Endpoint, PagedQuery
from streaming.api.fields import described
from streaming.api.group_answers import Task, TopicPartition
from streaming.views import lists
from streaming.views.history import history


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(GroupEventRow):
    """An event, and the record in `__consumer_offsets` that shows it.

    The fields are the columns of `group_events` but `day`. The event decides which of them are
    null.
    """

    __pydantic_config__ = described("group_events")

    event: EventName
    assignment_before: list[TopicPartition] | None  # type: ignore[assignment]
    assignment_after: list[TopicPartition] | None  # type: ignore[assignment]
    tasks_before: list[Task] | None  # type: ignore[assignment]
    tasks_after: list[Task] | None  # type: ignore[assignment]
    day: Annotated[date | None, Field(exclude=True)] = None


class EventPage(Answer):
    """A page of events, newest first."""

    items: list[Event]
    """Events of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


class EventsQuery(PagedQuery):
    """Parameters of the list of events; an event must match all of them."""

    group: Annotated[str, Field(description="A group id; empty for all groups.")] = ""
    event: Annotated[
        list[EventName], Field(description="Names of events; any of them.", default_factory=list)
    ]
    since: Annotated[
        str,
        Field(description="Start of the period: a time as in `at`. Empty for the whole history."),
    ] = ""
    until: Annotated[
        str, Field(description="End of the period: a time as in `at`. Empty for now.")
    ] = ""


def list_events(clusters: Clusters, query: EventsQuery) -> EventPage:
    """Events of groups, members and offsets, newest first."""
    shown = clusters.opened(query)
    key = lists.history("group_events").key
    events = history(
        shown.snapshot.reader,
        "group_events",
        group=query.group or None,
        events=[event.value for event in query.event],
        since=query.since or None,
        until=query.until or query.moment,
        before=read_cursor(query.cursor, key.values()),
        limit=query.limit,
    )
    items = events.rows.to_pylist()[::-1]
    next_cursor = write_cursor(events.oldest) if events.more else None
    return EventPage.model_validate({**shown.envelope, "items": items, "next_cursor": next_cursor})


ENDPOINTS = (Endpoint("/events", list_events, is_costly=True),)
