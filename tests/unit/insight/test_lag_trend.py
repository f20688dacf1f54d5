"""The trend of a lag: noise is steady, and unknown stays unknown."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_state.insight.lag_trend import Trend, without_noise

UNKNOWN = float("nan")


@pytest.mark.parametrize(
    ("growth", "lag", "commits", "produces", "trend"),
    [
        # It stands still while 100 records a second arrive.
        (100, 20_000, 0, 100, Trend.GROWING),
        (-50, 20_000, 150, 100, Trend.SHRINKING),
        # Commits every 15 s move a rate over five minutes by 5 %.
        (4.9, 20_000, 95.1, 100, Trend.STEADY),
        (-5.1, 20_000, 105.1, 100, Trend.STEADY),
        (6, 20_000, 94, 100, Trend.GROWING),
        # These records wait for the next commit.
        (100, 1_500, 0, 100, Trend.STEADY),
        # 14 records in five minutes.
        (0.047, 20, 0, 0.047, Trend.STEADY),
        # Nothing is produced, and the group reads the rest.
        (-10, 5, 10, 0, Trend.SHRINKING),
        (0, 0, 0, 0, Trend.STEADY),
    ],
)
def test_noise_is_steady(
    growth: float, lag: float, commits: float, produces: float, trend: Trend
) -> None:
    values = (np.array([value]) for value in (growth, lag, commits, produces))
    assert Trend.of(without_noise(*values)[0]) is trend


def test_unknown_rates_have_no_trend() -> None:
    found = without_noise(
        np.array([UNKNOWN, 7.0, 7.0]),
        np.array([50.0, UNKNOWN, 50.0]),
        np.array([UNKNOWN, 1.0, UNKNOWN]),
        np.array([UNKNOWN, 2.0, UNKNOWN]),
    )
    assert np.isnan(found).tolist() == [True, True, False]
