"""The parts that all answers of tools share.

Group ids, client ids and metadata are text that clients of Kafka chose. `Text` escapes what a
terminal would obey, as everywhere else; `streaming.views.text.from_printable` takes it back.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from coordinator_state.insight import group_facts
from coordinator_state.insight.event_digest import FoldedEvents
from coordinator_state.insight.evidence import record_ids_of
from streaming.views.text import json_value, printable

E = TypeVar("E", bound="Event")
Text = Annotated[str, PlainSerializer(printable, return_type=str)]
Time = Annotated[datetime, PlainSerializer(json_value, return_type=str)]
"""ISO 8601 in UTC."""

At = Annotated[
    str,
    Field(
        description="The past moment to answer for, in UTC: 5m, 1 hour ago, 03:14, yesterday 14:00 "
        "or 2026-11-21T03:14:00Z. Empty for now."
    ),
]
ClusterName = Annotated[
    str,
    Field(description="The name of the cluster. Required only if the server has several clusters."),
]
GroupId = Annotated[
    str, Field(description="The group id, as answers of this server show it. Empty for all groups.")
]
Limit = Annotated[
    int, Field(ge=1, le=100, description="The greatest number of rows of each list in the answer.")
]
Within = Annotated[
    str, Field(description="The period to search, which ends at `at`: 30m, 1h or 2d, for example.")
]


class Part(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class RecordId(Part):
    """The place of a record in the topic `__consumer_offsets`."""

    log_partition: int
    """The partition of `__consumer_offsets`."""
    record_offset: int
    """The offset of the record in that log. It is not a committed offset."""

    @classmethod
    def of(cls, record_id: group_facts.RecordId) -> RecordId:
        """The place from a pair."""
        return cls(log_partition=record_id[0], record_offset=record_id[1])


class Answer(Part):
    """The answer of a tool."""

    cluster: str
    at: datetime
    """The exact moment of the answer. Pass it as `at` to get the same answer again."""
    notice: Text | None
    """Why the answer may be incomplete or out of date, for example stale tables. Tell the user."""


class Event(Part):
    """Equal events of one group that follow each other; often just one."""

    group_id: Text
    events: list[str]
    """Names of events; the resource docs://events has their meaning."""
    text: Text
    count: int
    """The number of events."""
    who: Text | None
    """The client behind the events, or why Kafka does not record it. Null if several or none."""
    first_at: Time | None
    last_at: Time | None
    record_ids: list[RecordId]
    """The records that show it: all if they are few, otherwise the first and the last."""

    @classmethod
    def of(cls: type[E], folded: FoldedEvents, **more: object) -> E:
        """The event from rows of `group_events`; `more` are the fields of a subclass."""
        return cls.model_validate(
            {
                "group_id": folded.group_id,
                "events": list(folded.events),
                "text": folded.text,
                "count": folded.count,
                "who": folded.who,
                "first_at": folded.first_at,
                "last_at": folded.last_at,
                "record_ids": [RecordId.of(record_id) for record_id in record_ids_of(folded.rows)],
                **more,
            }
        )
