"""The places of a timeline on the page, as shares of its width in percent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple, TypeVar

from coordinator_state.insight.assignment_replay import Segment

T = TypeVar("T")
_MOST_TICKS: Final = 6
_MOST_PARTS: Final = 5
_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800),
)


class Part(NamedTuple):
    """The share of the time of a bar that an owner had: the top and the height, in percent.

    `owner` is None for all owners but those with the most time.
    """

    owner: int | None
    top: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A segment, or several that are too short to be drawn one by one.

    Those are one bar, divided by the time of each owner; the rest of the time had no owner.
    """

    begin: datetime
    end: datetime
    segments: Sequence[Segment]
    parts: Sequence[Part]


class Tick(NamedTuple):
    """A round time below the timeline."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The period as a width of 100 percent."""

    since: datetime
    until: datetime

    def x(self, at: datetime) -> float:
        """The place of a moment."""
        return round(100 * ((at - self.since) / (self.until - self.since)), 3)

    def width(self, begin: datetime, end: datetime) -> float:
        """The width of a time."""
        return round(100 * ((end - begin) / (self.until - self.since)), 3)

    def ticks(self) -> list[Tick]:
        """At most six round times; none where its text would not fit on the page."""
        seconds = (self.until - self.since).total_seconds()
        step = next((step_s for step_s in _STEPS_S if seconds <= step_s * _MOST_TICKS), None)
        step = step or _STEPS_S[-1] * -int(-seconds // (_STEPS_S[-1] * _MOST_TICKS))
        form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%m-%d"
        number = int(-(-self.since.timestamp() // step))
        ticks = []
        while (at := datetime.fromtimestamp(number * step, timezone.utc)) < self.until:
            if self.x(at) < 86:
                ticks.append(Tick(at, at.strftime(form)))
            number += 1
        return ticks

    def places(self, keys: Iterable[T], at: Mapping[T, datetime], count: int) -> list[list[T]]:
        """The keys of `at` by their place, if the width has this many places."""
        keys_by_place: dict[int, list[T]] = defaultdict(list)
        for key in keys:
            keys_by_place[min(int(self.x(at[key]) * count / 100), count - 1)].append(key)
        return [keys_by_place[place] for place in sorted(keys_by_place)]


def bars_of(
    lanes: Sequence[Sequence[Segment]],
    owner_of: Mapping[str, int],
    axis: Axis,
    *,
    most: int,
) -> list[list[Bar]]:
    """The bars of each lane; short segments are merged so far that there are at most `most` bars.

    Segments narrower than a thousandth of the width are always merged.
    """
    shortest = (axis.until - axis.since) / 1_000
    while True:
        runs = [_runs(segments, shortest) for segments in lanes]
        if sum(map(len, runs)) <= max(most, len(lanes)):
            return [[_bar(run, owner_of) for run in of_lane] for of_lane in runs]
        shortest *= 2


def _runs(segments: Sequence[Segment], shortest: timedelta) -> list[list[Segment]]:
    """Short segments with short pauses between them, and each of the others by itself."""
    runs: list[list[Segment]] = []
    for segment in segments:
        last = runs[-1][-1] if runs else None
        is_short = segment.end - segment.begin < shortest
        if (
            last is not None
            and is_short
            and last.end - last.begin < shortest
            and segment.begin - last.end < shortest
        ):
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return runs


def _bar(run: Sequence[Segment], owner_of: Mapping[str, int]) -> Bar:
    begin, end = run[0].begin, run[-1].end
    shares: dict[int, float] = defaultdict(float)
    for segment in run:
        part = 100 * ((segment.end - segment.begin) / (end - begin)) / len(segment.owners)
        for owner in segment.owners:
            shares[owner_of[owner]] += part
    heights: list[tuple[int | None, float]] = sorted(
        shares.items(), key=lambda share: (-share[1], share[0])
    )
    if len(heights) > _MOST_PARTS:
        rest = sum(height for _, height in heights[_MOST_PARTS - 1 :])
        heights = [*heights[: _MOST_PARTS - 1], (None, rest)]
    parts, top = [], 0.0
    for number, height in heights:
        parts.append(Part(number, round(top, 1), round(height, 1)))
        top += height
    return Bar(begin, end, run, parts)
