"""Summaries of events: equal ones folded, those that matter first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.insight.event_digest import BY_WEIGHT, FoldedEvents, folded_events
from coordinator_state.insight.event_text import Labels
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.member_labels import labels_of
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.views.history import Moment, history

MAX_EVENTS: Final = 20_000
"""How many events a summary covers: folding this many takes about a second."""
_MEMBER: Final = ["group_id", "member_id", "client_id"]
_REST: Final = BY_WEIGHT.index(EventName.GROUP_EMPTIED)
_TIERS: Final = (BY_WEIGHT[:2], BY_WEIGHT[2:_REST], BY_WEIGHT[_REST:])
"""Rewinds and resets; deletions, expiries and hung transactions; all others."""


@dataclass(frozen=True, slots=True)
class EventSummary:
    """Folded events; `more` is the number of events that are in no row.

    `labels` are those of the members in the events and of the current members of their groups.
    `sql` is the query of all these events.
    """

    rows: Sequence[FoldedEvents]
    more: int
    labels: Labels
    sql: str


def event_summary(
    reader: TableReader,
    *,
    group: str | None = None,
    topic: str | None = None,
    events: Collection[str] = (),
    since: Moment | None = None,
    until: Moment | None = None,
    is_folded: bool = True,
    most: int = MAX_EVENTS,
) -> EventSummary:
    """Summarize the events that these arguments of `history` select.

    Of more than `most` events, the newest of each weight are taken, so that no number of lighter
    events hides a rewind. If `is_folded` is False, each event is a row, newest first.

    Raises:
        ConfigurationError: a text is not a time, or a name is not an event.
    """
    selection: dict[str, Any] = {"group": group, "topic": topic, "since": since, "until": until}
    newest = history(reader, "group_events", events=events, limit=most, **selection)
    parts = [newest]
    total = newest.rows.num_rows + newest.more
    if newest.more:
        tiers = [[name for name in tier if not events or name in events] for tier in _TIERS]
        parts = [
            history(reader, "group_events", events=tier, limit=most // len(_TIERS), **selection)
            for tier in tiers
            if tier
        ]
    rows = [row for part in parts for row in part.rows.to_pylist()]
    more = total - len(rows)
    labels = member_labels(reader, rows)
    if is_folded:
        return EventSummary(folded_events(rows, labels), more, labels, newest.sql)
    one_each = [folded for row in rows for folded in folded_events([row], labels)]
    return EventSummary(sorted(one_each, key=newest_first), more, labels, newest.sql)


def newest_first(folded: FoldedEvents) -> tuple[float, int, int]:
    """The order of time, for `sorted`."""
    last = folded.rows[-1]
    newest = 0.0 if folded.last_at is None else folded.last_at.timestamp()
    return -newest, -last["record_offset"], -last["event_number"]


def member_labels(reader: TableReader, rows: Iterable[Mapping[str, Any]]) -> Labels:
    """Label the members in rows of events or members, and the current members of their groups."""
    named = list(rows)
    members = reader.read("group_members", _MEMBER, of_groups({row["group_id"] for row in named}))
    return labels_of([*named, *members.to_pylist()])
