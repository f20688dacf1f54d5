"""The trend of a lag, and the lag for autoscalers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag_trend import Trend, without_noise
from coordinator_state.insight.scaling_lag import PartitionLag, scaling_lag

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
    growth = without_noise(
        np.array([UNKNOWN, 7.0, 7.0]),
        np.array([50.0, UNKNOWN, 50.0]),
        np.array([UNKNOWN, 1.0, UNKNOWN]),
        np.array([UNKNOWN, 2.0, UNKNOWN]),
    )
    assert np.isnan(growth).tolist() == [True, True, False]


COUNTS = st.none() | st.integers(0, 1_000)
ROWS = st.lists(st.builds(PartitionLag, st.sampled_from(Status), COUNTS, COUNTS, COUNTS))


@given(ROWS)
def test_each_record_of_the_lag_is_in_one_part(rows: list[PartitionLag]) -> None:
    split = scaling_lag(rows)
    assert split.lag == split.scaling_lag + split.deleted + split.blocked
    assert split.lag == sum(row.lag or 0 for row in rows)
    assert min(split.scaling_lag, split.deleted, split.blocked) >= 0
    assert split.partitions_to_read <= split.partitions - split.partitions_unknown


def test_what_more_consumers_cannot_read_is_left_out() -> None:
    rows = [
        PartitionLag(Status.OK, 10, 0, 10),
        PartitionLag(Status.DATA_LOSS, 100, 60, 100),
        # Behind a transaction, and records were deleted: those are part of both lags.
        PartitionLag(Status.DATA_LOSS, 100, 30, 50),
        PartitionLag(Status.STALL, 500, 0, 500),
        PartitionLag(Status.HANGING_TRANSACTION, 70, 0, 20),
        PartitionLag(Status.PENDING, 7, 0, None),
        PartitionLag(Status.UNKNOWN, None, None, None),
    ]
    split = scaling_lag(rows)
    assert split.scaling_lag == 10 + 40 + 20
    assert (split.deleted, split.blocked) == (60 + 30, 50 + 500 + 70 + 7)
    assert (split.partitions_to_read, split.partitions_blocked) == (3, 4)
    assert (split.partitions, split.partitions_unknown) == (7, 1)
