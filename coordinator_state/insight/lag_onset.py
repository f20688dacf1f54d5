"""The time when the lag of a group began to grow, and whether it grows now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coordinator_state.insight.group_facts import LagHistory

_KEEPS_UP_S: Final = 45
"""A group keeps up while its lag is at most the records produced in this time."""
_LEVEL: Final = 1.1
"""The lag of a group that never keeps up is level up to this multiple of its smallest lag."""
_FALLEN: Final = 0.9
"""A lag below this share of its maximum has fallen."""
_GROWS_WITHIN: Final = timedelta(minutes=10)
LEAST_LAG: Final = 10
"""Changes by fewer records are noise."""


class Onset(NamedTuple):
    """The time when the lag began to grow; earlier than `at` if the facts do not reach back."""

    at: datetime
    is_earlier: bool


class _Point(NamedTuple):
    at: datetime
    lag: float
    produced_per_s: float

    @property
    def keeps_up(self) -> bool:
        return self.lag <= _KEEPS_UP_S * self.produced_per_s


def keeps_up(series: LagHistory) -> bool:
    """Whether the lag is now small, compared with the rate of the producers."""
    # The step to the last point may be too short for a rate.
    return any(point.keeps_up for point in _known(series)[-2:])


def lag_onset(series: LagHistory) -> Onset | None:
    """The last time at which the lag was as usual; None if it is zero now, or unknown.

    The usual lag is the median while the group kept up with its producers. It does not depend on
    the present lag, which would move the onset while the lag grows.
    """
    known = _known(series)
    if not known or not known[-1].lag:
        return None
    kept_up = [point for point in known if point.keeps_up]
    if not kept_up:
        return _of_level(known)
    usual = _median(kept_up)
    return Onset([point.at for point in kept_up if point.lag <= usual][-1], is_earlier=False)


def _of_level(known: Sequence[_Point]) -> Onset:
    """The onset for a group that never kept up: the last time at which its lag was level."""
    least = min(point.lag for point in known)
    level = [point for point in known if point.lag <= _LEVEL * least]
    quarter = len(level) // 4
    earlier = Onset(known[0].at, is_earlier=True)
    if not quarter or level[-1] is known[-1]:
        return earlier
    rise = _median(level[-quarter:]) - _median(level[:quarter])
    if rise > 0.5 * (_LEVEL - 1) * least:
        return earlier
    return Onset(level[-1].at, is_earlier=False)


def fallen_from(series: LagHistory, onset: Onset) -> float | None:
    """The greatest lag since the onset; None if the lag is about as great now."""
    known = [point.lag for point in _known(series) if point.at >= onset.at]
    greatest = max(known, default=0.0)
    return greatest if known and known[-1] < _FALLEN * greatest - LEAST_LAG else None


def growth(series: LagHistory) -> float | None:
    """The growth of the lag in the last ten minutes; None if it is within its usual changes."""
    known = _known(series)
    known = [point for point in known if known[-1].at - point.at <= _GROWS_WITHIN]
    third = len(known) // 3
    if not third or known[-1].at - known[0].at < 0.9 * _GROWS_WITHIN:
        return None
    first, last = ([point.lag for point in part] for part in (known[:third], known[-third:]))
    return known[-1].lag - known[0].lag if min(last) > max(first) + LEAST_LAG else None


def _known(series: LagHistory) -> list[_Point]:
    points = zip(series.at, series.lag, series.produce_rate_per_s, strict=True)
    return [_Point(at, lag, rate or 0.0) for at, lag, rate in points if lag is not None]


def _median(points: Sequence[_Point]) -> float:
    return sorted(point.lag for point in points)[len(points) // 2]
