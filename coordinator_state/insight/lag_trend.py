"""Whether the lag of a group grows, rests or shrinks, of many groups at once.

Unknown values are NaN.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from coordinator_state.insight.group_status import time_text
from coordinator_state.insight.lag_text import rate_text
from coordinator_state.insight.partition_facts import RESTS_AFTER_MS

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

IN_FLIGHT_S: Final = 15
"""Three times the default of `auto.commit.interval.ms`: records wait this long for a commit."""
_WINDOW_S: Final = 300
"""The rates of `group_lag` are over this time."""
_LEAST_PER_S: Final = 0.05


class Trend(str, Enum):
    """The direction of a lag."""

    GROWING = "growing"
    STEADY = "steady"
    SHRINKING = "shrinking"

    @staticmethod
    def of(growth_per_s: float) -> Trend:
        """The trend of a growth without noise.

        >>> Trend.of(-3.0).value, Trend.of(0).value
        ('shrinking', 'steady')
        """
        if growth_per_s == 0:
            return Trend.STEADY
        return Trend.GROWING if growth_per_s > 0 else Trend.SHRINKING


def growths_per_s(
    *,
    commit_rate_per_s: Floats,
    present_rate_per_s: Floats,
    commits_from_ms: Floats,
    usual_move_ms: Floats,
    moved_at_ms: Floats,
    at_ms: Floats,
) -> Floats:
    """`PartitionFacts.growth_per_s` of many partitions."""
    moved_ms = np.where(np.isnan(moved_at_ms), commits_from_ms, at_ms - moved_at_ms)
    rests = moved_ms > np.maximum(RESTS_AFTER_MS, 2 * np.nan_to_num(usual_move_ms))
    moving = np.where(commit_rate_per_s < 0, np.nan, present_rate_per_s - commit_rate_per_s)
    return np.where(rests, present_rate_per_s, moving)


def without_noise(
    growth_per_s: Floats, lag: Floats, commit_rate_per_s: Floats, produce_rate_per_s: Floats
) -> Floats:
    """The growth of lags, 0 where it may be noise.

    A committed offset is as old as the last commit, so the lag of a group that keeps up goes up and
    down with each commit. That moves a lag by the records of some seconds, and a rate over five
    minutes by some percent. Three cases are steady:

    - a lag of no more records than producers write in 15 s;
    - a growth below 5 % (15 s of 300 s) of the greater rate, produced or committed;
    - a growth that rounds to nothing, below 0.05 records per second.
    """
    rates = np.fmax(np.nan_to_num(commit_rate_per_s), np.nan_to_num(produce_rate_per_s))
    noise_per_s = np.maximum(rates * IN_FLIGHT_S / _WINDOW_S, _LEAST_PER_S)
    in_flight = np.nan_to_num(produce_rate_per_s) * IN_FLIGHT_S
    is_noise = (np.abs(growth_per_s) < noise_per_s) | (lag <= in_flight)
    return np.where(np.isnan(growth_per_s) | np.isnan(lag), np.nan, growth_per_s * ~is_noise)


def trend_text(growth_per_s: float, time_to_catch_up_ms: float | None) -> str:
    """Format a growth without noise, and the time until the group has caught up.

    >>> trend_text(120.4, None), trend_text(-30.0, 240_000), trend_text(-30.0, None)
    ('growing +120/s', 'shrinking, caught up in 4 min', 'shrinking -30/s')
    >>> trend_text(0, None)
    'steady'
    """
    trend = Trend.of(growth_per_s)
    word: str = trend.value
    if trend is Trend.STEADY:
        return word
    if trend is Trend.SHRINKING and time_to_catch_up_ms is not None:
        return f"{word}, caught up in {time_text(time_to_catch_up_ms)}"
    sign = "+" if growth_per_s > 0 else "-"
    return f"{word} {sign}{rate_text(abs(growth_per_s))}/s"
