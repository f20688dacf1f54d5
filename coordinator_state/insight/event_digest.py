"""Events for people: equal ones folded into one row, and the ones that matter first.

A restart of a consumer is several events: its member leaves, the group rebalances, a new member
joins, the group rebalances again, and members get other partitions. They are one row for people, a
cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from coordinator_state.insight.event_text import (
    Labels,
    Row,
    afterwards_text,
    epochs_text,
    event_text,
    span_of,
    who_text,
    within_text,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.insight.member_labels import labels_of
from coordinator_state.insight.partition_text import topics_text

FOLDED_WITHIN: Final = timedelta(minutes=5)
"""Equal events further apart are not folded."""

BY_WEIGHT: Final = (
    *(EventName.OFFSET_REWIND, EventName.OFFSET_RESET),
    *(EventName.OFFSET_DELETED, EventName.GROUP_DELETED, EventName.OFFSET_EXPIRED),
    *(EventName.TRANSACTION_HUNG, EventName.GROUP_EMPTIED, EventName.GROUP_CREATED),
    *(EventName.REBALANCE, EventName.MEMBER_JOINED, EventName.MEMBER_LEFT),
    EventName.ASSIGNMENT_CHANGED,
)
"""Kinds of events: those that change the position of a group first."""
_RANKS: Final[Mapping[str, int]] = {name.value: rank for rank, name in enumerate(BY_WEIGHT)}
_IN_CYCLES: Final = (
    *(EventName.REBALANCE, EventName.MEMBER_JOINED, EventName.MEMBER_LEFT),
    *(EventName.ASSIGNMENT_CHANGED, EventName.GROUP_EMPTIED),
)
"""The events that a cycle is made of."""
_LOOP: Final = 5
"""A client whose members joined and left again this many times is in a loop."""


@dataclass(frozen=True, slots=True)
class FoldedEvents:
    """Equal events of one group that follow each other; often just one.

    `events` has the names of the events: both `member_joined` and `member_left` of a client that
    did both. `rows` are rows of `group_events` in log order. The times are None if no row has a
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

    Cycles of joins, leaves and rebalances are one row, see `_Cycle`. Of other events, rewinds and
    resets fold per topic and member, joins and leaves per client id and host, and the rest per
    group and name. `labels` are labels of members, by default those that suffice to tell apart the
    members of these events.
    """
    rows = sorted(events, key=_log_order)
    if labels is None:
        labels = labels_of(rows)
    folded = []
    others = [row for row in rows if row["event"] not in _IN_CYCLES]
    for run in _runs((row for row in rows if row["event"] in _IN_CYCLES), _group):
        cycle = _Cycle.of(run)
        if cycle is None:
            others += run
        else:
            folded.append(_folded(run, labels, cycle))
    folded += [_folded(run, labels) for run in _runs(sorted(others, key=_log_order), _key)]
    return sorted(folded, key=_by_weight)


def _runs(rows: Iterable[Row], key: Callable[[Row], tuple[Any, ...]]) -> list[list[Row]]:
    """Rows of one key that are not far apart."""
    runs: list[list[Row]] = []
    newest: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        run = newest.get(key(row))
        if run is None or _are_apart(run[-1], row):
            run = newest[key(row)] = []
            runs.append(run)
        run.append(row)
    return runs


def _folded(rows: Sequence[Row], labels: Labels, cycle: _Cycle | None = None) -> FoldedEvents:
    names = sorted({row["event"] for row in rows}, key=_rank)
    known = {who_text(row, labels) for row in rows}
    if cycle is not None:
        known.discard(None)
    first_at, last_at = span_of(rows)
    return FoldedEvents(
        group_id=rows[0]["group_id"],
        events=tuple(names),
        rows=rows,
        first_at=first_at,
        last_at=last_at,
        text=event_text(rows, labels) if cycle is None else cycle.text(labels),
        who=known.pop() if len(known) == 1 else None,
        rank=_rank(EventName.GROUP_EMPTIED if _is_loop(rows, cycle) else names[0]),
    )


def _group(row: Row) -> tuple[Any, ...]:
    return (row["group_id"],)


def _key(row: Row) -> tuple[Any, ...]:
    match row["event"]:
        case EventName.OFFSET_REWIND | EventName.OFFSET_RESET:
            return row["group_id"], row["event"], row["topic"], row["member_id"]
        case EventName.MEMBER_JOINED | EventName.MEMBER_LEFT:
            return row["group_id"], "member", row["client_id"], row["client_host"]
        case _:
            return row["group_id"], row["event"]


def _are_apart(before: Row, after: Row) -> bool:
    times = before["record_timestamp"], after["record_timestamp"]
    return None not in times and abs(times[1] - times[0]) > FOLDED_WITHIN


def _is_loop(rows: Sequence[Row], cycle: _Cycle | None) -> bool:
    """Whether a client is in a loop: it ranks before the rebalances that it causes."""
    if cycle is not None:
        return cycle.is_loop
    names = [row["event"] for row in rows]
    return all(names.count(name) >= _LOOP for name in ("member_joined", "member_left"))


def _rank(event: str) -> int:
    return _RANKS.get(event, len(_RANKS))


def _log_order(row: Row) -> tuple[int, int, int]:
    return row["log_partition"], row["record_offset"], row["event_number"]


def _by_weight(folded: FoldedEvents) -> tuple[int, float, str]:
    newest = 0.0 if folded.last_at is None else -folded.last_at.timestamp()
    return folded.rank, newest, folded.group_id


# --- cycles


@dataclass(frozen=True, slots=True)
class _Visits:
    """Members of one client that joined and left again."""

    client_id: str | None
    joined: Sequence[Row]
    left: Sequence[Row]

    @property
    def member_ids(self) -> set[str]:
        return {row["member_id"] for row in self.left}

    @property
    def is_loop(self) -> bool:
        return len(self.left) >= _LOOP


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Members that came and went, and members that were replaced.

    `replaced` has the leaves of members that were there before, and `new` the joins of members that
    stayed. Neither has members of a client in a loop.
    """

    rows: Sequence[Row]
    visits: Sequence[_Visits]
    replaced: Sequence[Row]
    new: Sequence[Row]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> _Cycle | None:
        """The cycle in events of one group in log order; None if there is none."""
        present: dict[str, Row] = {}
        replaced: dict[str, Row] = {}
        visits: dict[str | None, list[tuple[Row, Row]]] = defaultdict(list)
        for row in (row for row in rows if row["member_id"] is not None):
            member_id = row["member_id"]
            if row["event"] == EventName.MEMBER_JOINED:
                present[member_id] = row
            elif row["event"] == EventName.MEMBER_LEFT and member_id not in present:
                replaced[member_id] = row
            elif row["event"] == EventName.MEMBER_LEFT:
                visits[row["client_id"]].append((present.pop(member_id), row))
        for member_id in replaced.keys() & present.keys():
            # A static member, or one that was away, came back with the same id.
            left = replaced.pop(member_id)
            visits[left["client_id"]].append((present.pop(member_id), left))
        sorted_visits = sorted(
            (_Visits(client_id, *zip(*both, strict=True)) for client_id, both in visits.items()),
            key=lambda client_visits: -len(client_visits.left),
        )
        in_loop = {client.client_id for client in sorted_visits if client.is_loop}
        cycle = cls(
            rows=rows,
            visits=sorted_visits,
            replaced=[row for row in replaced.values() if row["client_id"] not in in_loop],
            new=[row for row in present.values() if row["client_id"] not in in_loop],
        )
        is_cycle = (
            cycle.replacements or sum(len(client_visits.left) for client_visits in cycle.visits) > 1
        )
        return cycle if is_cycle and cycle.rebalances else None

    @property
    def rebalances(self) -> list[Row]:
        """The rebalances."""
        return [row for row in self.rows if row["event"] == EventName.REBALANCE]

    @property
    def replacements(self) -> int:
        """The number of members that were replaced."""
        return min(len(self.replaced), len(self.new))

    @property
    def is_loop(self) -> bool:
        """Whether a client joins and leaves again and again."""
        return any(client_visits.is_loop for client_visits in self.visits)

    def text(self, labels: Labels) -> str:
        """The cycle in a sentence.

        `57 rebalances in 80 s: search-consumer joins and leaves every 1.4 s`, or
        `3 members of search-consumer were replaced one after another in 2 min: 6 rebalances`.
        """
        rebalances = self.rebalances
        count = count_text(len(rebalances), "rebalance")
        visits = [_visits_text(client_visits, labels) for client_visits in self.visits[:2]]
        if len(self.visits) > 2:
            visits.append(
                f"members of {count_text(len(self.visits) - 2, 'more client')} did so too"
            )
        others = [*self._replacements_text(labels), *self._others_text()]
        within = within_text(self.rows)
        if self.is_loop:
            text = f"{count}{within}: {', '.join([*visits, *others])}"
        else:
            first, *more = [*others, *visits] if self.replacements else [*visits, *others]
            text = f"{', '.join([first + within, *more])}: {count}"
        return (
            f"{text}, {epochs_text(rebalances)}{self._empty_text()}{afterwards_text(self.rows[-1])}"
        )

    def _replacements_text(self, labels: Labels) -> list[str]:
        count = self.replacements
        if not count:
            return []
        if len(self.replaced) == len(self.new) == 1:
            old, new = (
                labels[row["group_id"], row["member_id"]] for row in (*self.replaced, *self.new)
            )
            return [f"{old} was replaced by {new}"]
        names = topics_text(row["client_id"] or "a client without an id" for row in self.new)
        records = {row["record_offset"] for row in self.replaced}
        manner = "" if count == 1 else " one after another" if len(records) > 1 else " at once"
        verb = "was" if count == 1 else "were"
        return [f"{count_text(count, 'member')} of {names} {verb} replaced{manner}"]

    def _others_text(self) -> list[str]:
        """Members that left or joined besides."""
        counts = {"left": len(self.replaced), "joined": len(self.new)}
        return [
            f"{count_text(count - self.replacements, 'other member')} {verb}"
            if self.replacements or self.visits
            else f"{count_text(count, 'member')} {verb}"
            for verb, count in counts.items()
            if count > self.replacements
        ]

    def _empty_text(self) -> str:
        count = sum(row["event"] == EventName.GROUP_EMPTIED for row in self.rows)
        if not count:
            return ""
        times = "for a time" if count == 1 else f"{count:,} times"
        return f"; the group had no members {times}"


def _visits_text(visits: _Visits, labels: Labels) -> str:
    count, members = len(visits.left), visits.member_ids
    if len(members) == 1:
        who = who_text(visits.left[-1], labels) or ""
    else:
        who = visits.client_id or "a client without an id"
        # Members of classic groups get a new member id each time.
        if len(members) < count:
            who += f" ({len(members):,} members)"
    if not visits.is_loop:
        times = "" if count == 1 else f" {count:,} times"
        return f"{who} joined and left{times}"
    every = _mean_ms([row["record_timestamp"] for row in visits.joined])
    times = f" {count:,} times" if every is None else f" every {time_text(every)}"
    return f"{who} joins and leaves{times}"


def _mean_ms(times: Iterable[datetime | None]) -> float | None:
    """The mean time from one moment to the next; None if it is not known."""
    known = [moment for moment in times if moment is not None]
    first, last = span_of({"record_timestamp": moment} for moment in known)
    if first is None or last is None or first == last:
        return None
    return (last - first).total_seconds() * 1000 / (len(known) - 1)
