"""Cycles of joins, leaves and rebalances: a member that comes and goes, a deploy.

A restart of a consumer is several events: its member leaves, the group rebalances, a new member
joins, the group rebalances again, and members get other partitions. They are one row for people.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from coordinator_state.insight.event_text import (
    Labels,
    Row,
    afterwards_text,
    epochs_text,
    span_of,
    who_text,
    within_text,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.insight.partition_text import topics_text

IN_CYCLES: Final = (
    *(EventName.REBALANCE, EventName.MEMBER_JOINED, EventName.MEMBER_LEFT),
    *(EventName.ASSIGNMENT_CHANGED, EventName.GROUP_EMPTIED),
)
"""The events that a cycle is made of."""
LOOP: Final = 5
"""A client whose members joined and left again this many times is in a loop."""


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
        return len(self.left) >= LOOP


@dataclass(frozen=True, slots=True)
class Cycle:
    """Members that came and went, and members that were replaced.

    `replaced` has the leaves of members that were there before, and `new` the joins of members that
    stayed. Neither has members of a client in a loop.
    """

    rows: Sequence[Row]
    visits: Sequence[_Visits]
    replaced: Sequence[Row]
    new: Sequence[Row]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Cycle | None:
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
        of_clients = sorted(
            (_Visits(client_id, *zip(*both, strict=True)) for client_id, both in visits.items()),
            key=lambda client_visits: -len(client_visits.left),
        )
        in_loop = {client_visits.client_id for client_visits in of_clients if client_visits.is_loop}
        cycle = cls(
            rows=rows,
            visits=of_clients,
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
