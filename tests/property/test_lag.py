"""Lags against a log of which every append is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.lag import (
    GONE,
    NO_SAMPLE,
    PRESENT,
    TOPIC_GONE,
    UNKNOWN,
    Lags,
    LogHistories,
    LogSamples,
)

INTERVAL_MS = 5_000


class Sample(NamedTuple):
    sampled_at_ms: int
    state: str
    topic_id: str
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    end_markers: int


def sample(
    at_ms: int,
    end: int = -1,
    *,
    start: int = 0,
    stable: int | None = None,
    state: str = PRESENT,
    topic_id: str = "T",
    markers: int = UNKNOWN,
) -> Sample:
    last_stable_offset = end if stable is None else stable
    return Sample(at_ms, state, topic_id, start, end, last_stable_offset, markers)


def histories(logs: list[list[Sample]]) -> LogHistories:
    rows = [(log, *taken) for log, samples in enumerate(logs) for taken in samples]
    names = ["log", *Sample._fields]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    types = {"state": object, "topic_id": object}
    arrays = {
        name: np.array(column, types.get(name, np.int64))
        for name, column in zip(names, columns, strict=True)
    }
    return LogHistories(LogSamples(**arrays), len(logs))


def lags(samples: list[Sample], committed: list[int], now_ms: int) -> Lags:
    log = np.zeros(len(committed), np.int64)
    return histories([samples]).lags(log, np.array(committed, np.int64), now_ms)


@given(
    appends=st.lists(st.integers(0, 120_000), max_size=60).map(sorted),
    until_ms=st.integers(0, 130_000),
    committed=st.integers(0, 70),
)
def test_time_lag_is_the_age_of_the_first_uncommitted_record(
    appends: list[int], until_ms: int, committed: int
) -> None:
    """`appends` has the time of each record; it is off by one interval at most."""
    times = range(0, until_ms + 1, INTERVAL_MS)
    samples = [sample(at, sum(appended_at <= at for appended_at in appends)) for at in times]
    now = times[-1]
    measured = lags(samples, [committed], now)
    end = samples[-1].log_end_offset
    assert measured.lag[0] == max(end - committed, 0)
    time_lag = int(measured.time_lag_ms[0])
    at_least = int(measured.time_lag_at_least_ms[0])
    if committed < samples[0].log_end_offset:
        # The lower bound is true, and as old as the samples.
        assert at_least == now - samples[0].sampled_at_ms <= now - appends[committed]
    else:
        assert at_least == time_lag
    if committed >= end:
        assert time_lag == 0
    elif committed < samples[0].log_end_offset:
        assert time_lag == UNKNOWN
    else:
        age = now - appends[committed]
        assert age - INTERVAL_MS <= time_lag <= age + INTERVAL_MS


def test_a_log_that_grew_between_two_samples_grew_evenly() -> None:
    measured = lags(
        [sample(0, 100), sample(10_000, 100), sample(20_000, 200)], [100, 150, 199], 30_000
    )
    assert measured.lag.tolist() == [100, 50, 1]
    assert measured.time_lag_ms.tolist() == [20_000, 15_000, 10_100]


def test_deleted_records_are_lost_and_the_next_one_is_what_waits() -> None:
    measured = lags([sample(0, 100), sample(10_000, 200, start=150)], [120, 150], 20_000)
    assert (measured.lag.tolist(), measured.data_lost.tolist()) == ([80, 50], [30, 0])
    assert measured.time_lag_ms.tolist() == [15_000, 15_000]


def test_an_open_transaction_hides_what_is_behind_it() -> None:
    measured = lags([sample(0, 10), sample(1_000, 20, stable=12)], [10, 15], 2_000)
    assert measured.lag.tolist() == [10, 5]
    assert measured.lag_to_last_stable.tolist() == [2, 0]


def test_transaction_markers_at_the_end_are_no_lag() -> None:
    measured = lags(
        [sample(0, 7), sample(1_000, 10), sample(2_000, 10, markers=2)], [7, 8, 9, 10], 3_000
    )
    assert measured.lag.tolist() == [1, 0, 0, 0]
    assert measured.lag_to_last_stable.tolist() == [1, 0, 0, 0]
    assert measured.markers.tolist() == [UNKNOWN, 2, 1, UNKNOWN]
    assert measured.time_lag_ms.tolist() == [3_000, 0, 0, 0]


def test_aborted_records_before_an_open_transaction_are_no_lag() -> None:
    """From 8 to the last stable offset nothing is left; the open transaction has three records."""
    samples = [sample(0, 7), sample(1_000, 12), sample(2_000, 15, stable=12, markers=4)]
    measured = lags(samples, [7, 8, 11, 12, 13], 5_000)
    assert measured.lag.tolist() == [4, 3, 3, 3, 2]
    assert measured.lag_to_last_stable.tolist() == [1, 0, 0, 0, 0]
    assert measured.markers.tolist() == [UNKNOWN] * 5
    assert measured.time_lag_ms.tolist() == [5_000, 4_000, 4_000, 4_000, 3_667]


def test_deleted_offsets_without_a_record_are_no_loss() -> None:
    """Retention deletes a transaction, and the marker that its group never got past."""
    measured = lags([sample(0, 11, start=11, markers=1)], [9, 10, 11], 1_000)
    assert measured.lag.tolist() == [1, 0, 0]
    assert measured.data_lost.tolist() == [1, 0, 0]


def test_samples_of_another_log_say_nothing() -> None:
    recreated = [sample(0, 100, topic_id="old"), sample(10_000, 5), sample(20_000, 9)]
    assert lags(recreated, [2, 7], 30_000).time_lag_ms.tolist() == [UNKNOWN, 15_000]
    shortened = [sample(0, 100), sample(10_000, 200), sample(20_000, 50), sample(30_000, 70)]
    assert lags(shortened, [40, 60], 40_000).time_lag_ms.tolist() == [UNKNOWN, 15_000]


def test_a_topic_that_is_gone_or_never_seen_has_no_lags() -> None:
    logs = histories([[], [sample(0, 5), sample(1, state=GONE)], [sample(0, state="unauthorised")]])
    assert logs.unknown.tolist() == [NO_SAMPLE, TOPIC_GONE, NO_SAMPLE]
    assert logs.state.tolist() == [None, GONE, "unauthorised"]
    lags_of = logs.lags(np.arange(3), np.array([1, 1, 1]), 10)
    for name in Lags.__slots__:
        assert getattr(lags_of, name).tolist() == [UNKNOWN] * 3


def test_a_log_without_a_leader_is_as_it_was() -> None:
    samples = [sample(0, 5), sample(1_000, state="unavailable")]
    assert histories([samples]).unknown.tolist() == [None]
    assert lags(samples, [3, 5], 2_000).lag.tolist() == [2, 0]


def test_the_margin_is_until_records_were_deleted_last_time() -> None:
    # Record 100 was produced at 0 and was left when those before it went, after 30 s.
    samples = [
        sample(0, 100),
        sample(10_000, 200),
        sample(30_000, 300),
        sample(40_000, 400, start=100),
        sample(50_000, 400, start=100),
    ]
    measured = lags(samples, [50, 100, 200, 399, 400], 60_000)
    assert measured.retention_margin_ms.tolist() == [0, 0, 0, 9_900, UNKNOWN]
    assert lags(samples[:3], [200], 30_000).retention_margin_ms.tolist() == [UNKNOWN]
    assert lags(samples[2:], [350], 50_000).retention_margin_ms.tolist() == [UNKNOWN]


topic_ids = st.sampled_from(["T", "U"])
states = st.sampled_from([PRESENT, PRESENT, PRESENT, "unavailable", GONE])
any_sample = st.tuples(st.integers(0, 5), st.integers(0, 5), states, topic_ids)


@st.composite
def any_samples(draw: st.DrawFn) -> list[Sample]:
    drawn = draw(st.lists(any_sample, max_size=6))
    return [
        sample(1_000 * number, start + size, start=start, state=state, topic_id=topic_id)
        for number, (start, size, state, topic_id) in enumerate(drawn)
    ]


@given(logs=st.lists(any_samples(), max_size=5))
def test_many_logs_together_are_as_each_alone(logs: list[list[Sample]]) -> None:
    committed = np.arange(12)
    together = histories(logs)
    numbers = np.repeat(np.arange(len(logs)), committed.size)
    of_all = together.lags(numbers, np.tile(committed, len(logs)), 9_000)
    for number, samples in enumerate(logs):
        alone = histories([samples])
        assert together.state[number] == alone.state[0]
        assert together.unknown[number] == alone.unknown[0]
        of_one = alone.lags(np.zeros_like(committed), committed, 9_000)
        for name in Lags.__slots__:
            assert (
                getattr(of_all, name)[numbers == number].tolist() == getattr(of_one, name).tolist()
            )
