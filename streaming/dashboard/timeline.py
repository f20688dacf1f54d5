"""The timeline of a group: the owners of its partitions, its rebalances, joins and leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from coordinator_state.insight.assignment_timeline import (
    AssignmentTimeline,
    Lane,
    MemberChange,
    Rebalance,
)
from coordinator_state.insight.event_digest import FoldedEvents
from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.insight.partition_text import partitions_text
from coordinator_state.insight.timeline_text import (
    cause_text,
    owner_text,
    owners_text,
    timeline_note,
    timeline_sentence,
)
from streaming.dashboard.period import SPANS, period_of
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.timeline_bars import Axis, Bar, bars_of
from streaming.views.group_timeline import GroupTimeline, group_timeline

_MOST_LANES: Final = 60
_MOST_BARS: Final = 400
_MOST_OWNERS: Final = 16
_MOST_ROWS: Final = 100
_MOST_CYCLES: Final = 3
_LINES: Final = 200
_REBALANCE_PLACES: Final = 80
_CHANGE_PLACES: Final = 16
"""A count of three digits fits into a sixteenth of the width of a phone."""


def page() -> str:
    """Show the timeline of one group; the page of the group loads it after itself."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    period = period_of(snapshot.reader.moment)
    timeline = group_timeline(snapshot.reader, group_id, since=period.since, until=period.until)
    return render_template(
        "timeline.html",
        snapshot=snapshot,
        group_id=group_id,
        shown=ShownTimeline(timeline, period.since),
        span=period.span,
        spans=SPANS,
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the timeline with its text; the tooltip has the exact times in UTC."""

    x: float
    width: float
    text: str
    tooltip: str


@dataclass(frozen=True)
class ShownTimeline:
    """A timeline as the template draws it; x and widths are percent of the width."""

    group_timeline: GroupTimeline
    asked_since: datetime

    @property
    def timeline(self) -> AssignmentTimeline:
        """The timeline itself."""
        return self.group_timeline.timeline

    @property
    def begins_late(self) -> bool:
        """Whether the timeline begins after the begin of the period that was asked for."""
        return self.timeline.since > self.asked_since

    @property
    def sentence(self) -> str:
        """The result."""
        return timeline_sentence(self.timeline)

    @property
    def note(self) -> str | None:
        """A limit of the log."""
        return timeline_note(self.timeline)

    @cached_property
    def axis(self) -> Axis:
        """The period as a width."""
        return Axis(self.timeline.since, self.timeline.until)

    @cached_property
    def owner_names(self) -> list[str]:
        """The name of each owner."""
        return [owner_text(owner, self.group_timeline.labels) for owner in self.timeline.owners]

    @cached_property
    def lanes(self) -> list[tuple[Lane, str, list[Bar]]]:
        """The first lanes, with their partitions and their bars."""
        lanes = self.timeline.lanes[:_MOST_LANES]
        bars = bars_of(
            [lane.segments for lane in lanes], self.timeline.owner_of, self.axis, most=_MOST_BARS
        )
        return [
            (lane, partitions_text(key._asdict() for key in lane.keys), of_lane)
            for lane, of_lane in zip(lanes, bars, strict=True)
        ]

    @property
    def more_partitions(self) -> int:
        """The number of partitions in lanes that are not shown."""
        return sum(len(lane.keys) for lane in self.timeline.lanes[_MOST_LANES:])

    @property
    def legend(self) -> list[dict[str, Any]]:
        """The owners with the most time, up to 16."""
        return [
            {"name": name, "owned": owner.owned, "partitions": owner.partitions}
            for owner, name in zip(self.timeline.owners, self.owner_names, strict=True)
        ][:_MOST_OWNERS]

    @property
    def cycles(self) -> Sequence[FoldedEvents]:
        """The newest cycles of joins and leaves."""
        return self.group_timeline.cycles[:_MOST_CYCLES]

    def bar_tooltip(self, bar: Bar) -> str:
        """The owner of a bar and its exact times."""
        times = self._span(bar.begin, bar.end)
        if len(bar.segments) == 1:
            names = ", ".join(self.group_timeline.labels[owner] for owner in bar.segments[0].owners)
            return f"{names} {times}"
        return f"{len(bar.segments):,} assignments in turn {times}: {self._owners(bar)}"

    def _span(self, begin: datetime, end: datetime) -> str:
        return f"{self._times(begin, end)} ({time_text((end - begin).total_seconds() * 1000)})"

    def _times(self, begin: datetime, end: datetime | None = None) -> str:
        if end is None or begin == end:
            return f"at {self._utc(begin)} UTC"
        return f"from {self._utc(begin)} to {self._utc(end)} UTC"

    def _utc(self, at: datetime) -> str:
        """With milliseconds; with the date if the timeline covers more than one."""
        text = at.isoformat(" ", "milliseconds").removesuffix("+00:00")
        is_one_day = self.timeline.since.date() == self.timeline.until.date()
        return text.partition(" ")[2] if is_one_day else text

    def _owners(self, bar: Bar) -> str:
        return owners_text(bar.segments, self._name_of, bar.begin, bar.end)

    def lane_owners(self, lane: Lane) -> str:
        """Who owned the partitions of a lane, for which part of the time."""
        return owners_text(lane.segments, self._name_of, self.timeline.since, self.timeline.until)

    @cached_property
    def _name_of(self) -> Mapping[str, str]:
        return {name: self.owner_names[place] for name, place in self.timeline.owner_of.items()}

    @property
    def standstills(self) -> list[Mark]:
        """The times without an owner."""
        return [
            Mark(
                self.axis.x(begin),
                self.axis.width(begin, end),
                "",
                f"no partition had an owner {self._span(begin, end)}",
            )
            for begin, end in self.timeline.standstills
        ]

    @property
    def lines(self) -> list[float]:
        """The places of rebalances; those that share one have one line."""
        at = {number: rebalance.at for number, rebalance in enumerate(self.timeline.rebalances)}
        return [self.axis.x(at[group[0]]) for group in self.axis.places(at, at, _LINES)]

    @property
    def rebalance_marks(self) -> list[Mark]:
        """The rebalances by their place, with causes."""
        rebalances = self.timeline.rebalances
        at = {number: rebalance.at for number, rebalance in enumerate(rebalances)}
        return [
            self._rebalance_mark([rebalances[number] for number in group])
            for group in self.axis.places(at, at, _REBALANCE_PLACES)
        ]

    def _rebalance_mark(self, group: Sequence[Rebalance]) -> Mark:
        first, last = group[0], group[-1]
        epochs = f"{self.epoch} {first.epoch_after}"
        if first.epoch_before is not None:
            epochs = f"{self.epoch} {first.epoch_before} to {last.epoch_after}"
        if len(group) == 1:
            tooltip = f"rebalance {self._times(first.at)}, {epochs}: {self.cause(first)}"
        else:
            tooltip = f"{len(group):,} rebalances {self._times(first.at, last.at)}, {epochs}"
        x = self.axis.x(first.at)
        return Mark(x, max(round(self.axis.x(last.at) - x, 3), 0.1), "", tooltip)

    @property
    def epoch(self) -> str:
        """The name of the number that a rebalance increases."""
        return "generation" if self.timeline.group_type == "classic" else "group epoch"

    def cause(self, rebalance: Rebalance) -> str:
        """Who joined and left before a rebalance."""
        return cause_text(rebalance, self.group_timeline.labels)

    @property
    def joins(self) -> list[Mark]:
        """The joins by their place."""
        return self._changes(
            [change for change in self.timeline.changes if change.is_join], "+", "joined"
        )

    @property
    def leaves(self) -> list[Mark]:
        """The leaves by their place."""
        return self._changes(
            [change for change in self.timeline.changes if not change.is_join], "-", "left"
        )

    def _changes(self, changes: Sequence[MemberChange], sign: str, verb: str) -> list[Mark]:
        at = {change: change.at for change in changes}
        marks = []
        for group in self.axis.places(at, at, _CHANGE_PLACES):
            first, last = group[0].at, group[-1].at
            who = self.group_timeline.labels[group[0].member_id]
            if len(group) > 1:
                who = count_text(len(group), "member")
            middle = first + (last - first) / 2
            text = f"{sign}{len(group)}"
            tooltip = f"{who} {verb} {self._times(first, last)}"
            marks.append(Mark(self.axis.x(middle), 0, text, tooltip))
        return marks

    @property
    def newest_rebalances(self) -> Sequence[Rebalance]:
        """The rebalances of the table, newest first."""
        return self.timeline.rebalances[: -_MOST_ROWS - 1 : -1]


PAGES = (Page("group/timeline", "group_timeline", page, is_costly=True),)
