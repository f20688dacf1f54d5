"""The intervals of sampled history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.log.commit_sampling import (
    DAY_MS,
    HOUR_MS,
    CommitSampling,
    HistoryResolution,
    Resolution,
)

_NOW_MS = 1_700_000_000_123
_SAMPLINGS = st.builds(
    CommitSampling.at,
    st.integers(_NOW_MS - DAY_MS, _NOW_MS),
    st.sampled_from(
        [
            HistoryResolution(),
            HistoryResolution((Resolution(2_000, 60_000), Resolution(6_000, HOUR_MS)), 120_000),
        ]
    ),
)
_TIMESTAMPS = st.integers(_NOW_MS - 2 * DAY_MS, _NOW_MS + HOUR_MS)


@given(sampling=_SAMPLINGS, timestamp_ms=_TIMESTAMPS)
def test_intervals_are_disjoint_and_have_no_gaps(
    sampling: CommitSampling, timestamp_ms: int
) -> None:
    start_ms, end_ms = sampling.interval(timestamp_ms)
    assert start_ms <= timestamp_ms < end_ms
    for other_ms in (start_ms, end_ms - 1):
        assert sampling.interval(other_ms) == (start_ms, end_ms)
    assert sampling.interval(start_ms - 1)[1] == start_ms


@given(sampling=_SAMPLINGS, timestamps_ms=st.tuples(_TIMESTAMPS, _TIMESTAMPS).map(sorted))
def test_the_number_of_intervals_is_about_right(
    sampling: CommitSampling, timestamps_ms: list[int]
) -> None:
    first_ms, last_ms = timestamps_ms
    count, at_ms = 0, first_ms
    while at_ms <= last_ms:
        count, at_ms = count + 1, sampling.interval(at_ms)[1]
    assert count <= sampling.intervals_between(first_ms, last_ms) + 1
    assert sampling.intervals_between(first_ms, last_ms) <= count + len(sampling.zones)


def test_ages_have_their_intervals() -> None:
    resolution = HistoryResolution()
    assert [resolution.interval_ms(age_ms) for age_ms in (0, HOUR_MS - 1, HOUR_MS, DAY_MS)] == [
        *(5_000, 5_000, 60_000, 600_000)
    ]


def test_the_last_hour_begins_at_a_full_minute_and_the_last_day_at_full_ten_minutes() -> None:
    now_ms = 19_675 * 86_400_000 + 90_000
    sampling = CommitSampling.at(now_ms)
    hour_ms, day_ms = now_ms - 3_600_000 - 30_000, now_ms - 86_400_000 - 90_000
    assert sampling.interval(hour_ms) == (hour_ms, hour_ms + 5_000)
    assert sampling.interval(hour_ms - 1) == (hour_ms - 60_000, hour_ms)
    assert sampling.interval(day_ms) == (day_ms, day_ms + 60_000)
    assert sampling.interval(day_ms - 1) == (day_ms - 600_000, day_ms)
