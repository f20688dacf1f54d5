"""Events for people: equal ones folded into one row, and the ones that matter first.

A restart of a consumer is several events: its member leaves, the group rebalances, a new member
joins, the group rebalances again, and members get other partitions. They are one row for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from coordinator_state.insight.event_text import (
    OF_MEMBERS,
    Labels,
    Row,
    event_text,
    span_of,
    who_text,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.member_labels import labels_of

FOLDED_WITHIN: Final = timedelta(minutes=5)
"""Equal events further apart are not folded."""

BY_WEIGHT: Final = (
    *(EventName.OFFSET_REWIND, EventName.OFFSET_RESET),
    *(EventName.OFFSET_DELETED, EventName.GROUP_DELETED, EventName.OFFSET_EXPIRED),
    *(EventName.TRANSACTION_HUNG, EventName.GROUP_EMPTIED, EventName.GROUP_CREATED),
    *OF_MEMBERS,
)
"""Kinds of events: those that change the position of a group first."""
_RANKS: Final[Mapping[str, int]] = {name.value: rank for rank, name in enumerate(BY_WEIGHT)}


@dataclass(frozen=True, slots=True)
class FoldedEvents:
    """Equal events of one group that follow each other; often just one.

    `events` has the names of the events: several of rebalances with the joins and leaves between
    them. `rows` are rows of `group_events` in log order. The times are None if no row has a
    timestamp. `text` is a sentence. `who` is None if the events have no one behind them or several.
    A smaller `rank` matters more.
    """

    group_id: str
    events: tuple[str, ...]
    rows: Sequence[Row]
    first_at: datetime | None
    last_at: datetime | None
    text: str
    who: str | None
    rank: int

    @property
    def count(self) -> int:
        """The number of events."""
        return len(self.rows)

    @property
    def member_ids(self) -> list[str]:
        """The whole ids of the members behind the labels in `text`."""
        return sorted({row["member_id"] for row in self.rows if row["member_id"] is not None})


def folded_events(events: Iterable[Row], labels: Labels | None = None) -> list[FoldedEvents]:
    """Fold rows of `group_events`: by weight, then newest first. Each row is in one result.

    Rebalances, joins, leaves and assignments fold per group, and other events per name, topic and
    client id. `labels` are labels of members, by default those that suffice to tell apart the
    members of these events.
    """
    rows = sorted(events, key=_log_order)
    if labels is None:
        labels = labels_of(rows)
    runs: list[list[Row]] = []
    newest: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        run = newest.get(_key(row))
        if run is None or _are_apart(run[-1], row):
            run = newest[_key(row)] = []
            runs.append(run)
        run.append(row)
    return sorted((_folded(run, labels) for run in runs), key=_by_weight)


def _folded(rows: Sequence[Row], labels: Labels) -> FoldedEvents:
    names = sorted({row["event"] for row in rows}, key=_rank)
    known = {who_text(row, labels) for row in rows} - {None}
    first_at, last_at = span_of(rows)
    return FoldedEvents(
        group_id=rows[0]["group_id"],
        events=tuple(names),
        rows=rows,
        first_at=first_at,
        last_at=last_at,
        text=event_text(rows, labels),
        who=known.pop() if len(known) == 1 else None,
        rank=_rank(names[0]),
    )


def _key(row: Row) -> tuple[Any, ...]:
    if row["event"] in OF_MEMBERS:
        return row["group_id"], OF_MEMBERS
    return row["group_id"], row["event"], row["topic"], row["client_id"]


def _are_apart(before: Row, after: Row) -> bool:
    times = before["record_timestamp"], after["record_timestamp"]
    return None not in times and abs(times[1] - times[0]) > FOLDED_WITHIN


def _rank(event: str) -> int:
    return _RANKS.get(event, len(_RANKS))


def _log_order(row: Row) -> tuple[int, int, int]:
    return row["log_partition"], row["record_offset"], row["event_number"]


def _by_weight(folded: FoldedEvents) -> tuple[int, float, str]:
    newest = 0.0 if folded.last_at is None else -folded.last_at.timestamp()
    return folded.rank, newest, folded.group_id
