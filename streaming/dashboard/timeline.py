"""The timeline of a group: the owners of its partitions, and its rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.insight.partition_text import partitions_text
from coordinator_state.replay.groups import CLASSIC
from streaming.dashboard.period import SPANS, period_of
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.views.group_timeline import GroupTimeline, Lane, group_timeline

_MOST_MARKS: Final = 1_000
_MOST_LANES: Final = 60
_MOST_COLOURS: Final = 7
_LONGEST_NAME: Final = 40
"""Characters of an owner's name in the hint of a period. Names differ at their end."""
_MOST_TICKS: Final = 6
_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
)
_DAY_S: Final = 86_400


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
        shown=None if timeline is None else ShownTimeline(timeline),
        period=period,
        spans=SPANS,
    )


class Mark(NamedTuple):
    """A place on the timeline, in percent of its width, and its hint; `colour` is 1 to 8."""

    x: float
    width: float
    hint: str
    colour: int = 0


@dataclass(frozen=True)
class ShownTimeline:
    """A timeline as the template draws it."""

    timeline: GroupTimeline

    @property
    def has_too_many_marks(self) -> bool:
        """Whether nobody could tell the marks apart."""
        marks = sum(len(lane.periods) for lane in self._lanes) + len(self.timeline.rebalances)
        return marks > _MOST_MARKS

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        timeline = self.timeline
        span = time_text((timeline.until - timeline.since) / timedelta(milliseconds=1))
        count = len(timeline.rebalances)
        text = f"{count_text(count, 'rebalance') if count else 'No rebalance'} in {span}"
        if not timeline.lanes:
            return f"{text}; no partition had an owner"
        still = sum((end - begin for begin, end in timeline.standstills), timedelta())
        if not still:
            return f"{text}; at least one partition always had an owner"
        at_least = "at least " if timeline.group_type == CLASSIC else ""
        still_text = time_text(still / timedelta(milliseconds=1))
        return f"{text}; no partition had an owner for {at_least}{still_text}"

    @property
    def _lanes(self) -> Sequence[Lane]:
        return self.timeline.lanes[:_MOST_LANES]

    @property
    def lanes(self) -> list[tuple[str, list[Mark]]]:
        """The first lanes: their partitions and their periods."""
        return [
            (
                partitions_text(lane.partitions),
                [
                    self._mark(
                        self.timeline.names[owner][-_LONGEST_NAME:],
                        *(begin, end),
                        self._colours.get(owner, _MOST_COLOURS + 1),
                    )
                    for begin, end, owner in lane.periods
                ],
            )
            for lane in self._lanes
        ]

    @property
    def more_partitions(self) -> int:
        """The number of partitions in lanes that are not shown."""
        return sum(len(lane.partitions) for lane in self.timeline.lanes[_MOST_LANES:])

    @cached_property
    def _owners(self) -> list[str]:
        """Those with the most time first."""
        times: Counter[str] = Counter()
        for lane in self._lanes:
            for begin, end, owner in lane.periods:
                times[owner] += len(lane.partitions) * ceil((end - begin).total_seconds())
        return [owner for owner, _ in times.most_common()]

    @cached_property
    def _colours(self) -> dict[str, int]:
        return {owner: number for number, owner in enumerate(self._owners[:_MOST_COLOURS], 1)}

    @property
    def legend(self) -> list[str]:
        """The owners with a colour of their own, and the number of the others."""
        more = len(self._owners) - _MOST_COLOURS
        names = [self.timeline.names[owner] for owner in self._colours]
        return [*names, count_text(more, "other member")] if more > 0 else names

    @property
    def standstills(self) -> list[Mark]:
        """The times without an owner."""
        return [
            self._mark("no partition had an owner", *still) for still in self.timeline.standstills
        ]

    @property
    def rebalances(self) -> list[Mark]:
        """A mark for each rebalance."""
        epoch = "generation" if self.timeline.group_type == CLASSIC else "group epoch"
        return [
            Mark(self.x(at), 0, f"rebalance to {epoch} {epoch_after} at {_utc(at)} UTC")
            for at, epoch_after in self.timeline.rebalances
        ]

    def _mark(self, what: str, begin: datetime, end: datetime, colour: int = 0) -> Mark:
        span = time_text((end - begin) / timedelta(milliseconds=1))
        hint = f"{what} from {_utc(begin)} to {_utc(end)} UTC ({span})"
        return Mark(self.x(begin), round(self.x(end) - self.x(begin), 3), hint, colour)

    def x(self, at: datetime) -> float:
        """The place of a moment, in percent of the width."""
        timeline = self.timeline
        return round(100 * ((at - timeline.since) / (timeline.until - timeline.since)), 3)

    @property
    def ticks(self) -> list[datetime]:
        """At most six round times; none where its text would not fit on the page."""
        since, until = self.timeline.since.timestamp(), self.timeline.until.timestamp()
        days = ceil((until - since) / _MOST_TICKS / _DAY_S)
        steps = (step for step in _STEPS_S if until - since <= step * _MOST_TICKS)
        step = next(steps, days * _DAY_S)
        times = range(ceil(since / step) * step, ceil(until), step)
        ticks = [datetime.fromtimestamp(time, timezone.utc) for time in times]
        return [tick for tick in ticks if self.x(tick) < 86]


def _utc(at: datetime) -> str:
    return at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


PAGES = (Page("group/timeline", "group_timeline", page, is_costly=True),)
