"""The rests of keys, from the times of their commits."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator_state.insight.lag import PRESENT, UNKNOWN, LogHistories, LogSamples
from coordinator_state.insight.pace import rests, rests_in_turn_ms, stable_holds
from coordinator_state.log.commit_sampling import HistoryResolution, Resolution
from tests.support.logs.growing_logs import MINUTE_MS, busy, commits_at, growing_logs

_QUICK = 10 / 60 * 1.25
"""Commits each ten seconds, and a quarter later."""


@pytest.mark.parametrize(
    ("minutes", "now", "usual", "due"),
    [
        # A job every half hour is late a quarter of its rest after it, however long it is late.
        *((busy((0, 5), (30, 35), (60, 65)), now, _QUICK, 25 + 25 / 4) for now in (66, 90, 110)),
        # Here its third run is longer, so the next rest is not due.
        (busy((0, 5), (30, 35), (60, 80)), 81, _QUICK, None),
        # One outage is no habit, whatever its length, nor are two or three at any time.
        (busy((0, 30), (60, 65)), 70, 0.5, None),
        (busy((0, 5), (15, 20), (70, 75), (85, 90)), 91, _QUICK, None),
        (busy((0, 40), (50, 90), (100, 120)), 121, 0.5, None),
        # Silence does not make them usual.
        *((busy((0, 70), (77, 95), (102, 115)), now, 0.5, None) for now in (116, 122, 135)),
        # A long one makes no shorter one usual.
        (busy((0, 10), (190, 210), (220, 280)), 281, 0.5, None),
        # Many short ones are.
        (busy(*((15 * n, 15 * n + 13) for n in range(8))), 120, 2.5, None),
        # A pace of the night.
        ([*busy((0, 20), (40, 60)), 25, 30, 35, 64], 66, 6.25, None),
        # The half hour for which a job may be late at most.
        ([0, 240, 480, 720], 730, None, 270),
    ],
)
def test_rests_are_usual_if_they_are_many_and_due_if_they_are_regular(
    minutes: list[float], now: int, usual: float | None, due: float | None
) -> None:
    logs, commits = growing_logs(1, now), commits_at([sorted(minutes)])
    *lengths_ms, _ = rests(logs, commits, 1, now * MINUTE_MS, HistoryResolution())
    for (length_ms,), expected in zip(lengths_ms, (usual, due), strict=True):
        if expected is None:
            assert length_ms == UNKNOWN
        else:
            assert length_ms / MINUTE_MS == pytest.approx(expected, abs=0.35)


@pytest.mark.parametrize(
    ("minutes", "now", "expected"),
    [
        # Two runs of five minutes each: it may rest again.
        (busy((0, 5), (30, 35)), 40, 25 + 25 / 4),
        # Not as long as each other, or most of the time without a rest.
        (busy((0, 5), (30, 37)), 40, None),
        (busy((0, 20), (30, 50)), 60, None),
        # Two rests are no only one.
        (busy((0, 5), (30, 35), (60, 65)), 70, None),
    ],
)
def test_an_only_rest_is_between_equal_runs(
    minutes: list[float], now: int, expected: float | None
) -> None:
    logs, end_ms = growing_logs(1, now), now * MINUTE_MS
    (length_ms,) = rests(logs, commits_at([minutes]), 1, end_ms, HistoryResolution()).only_ms
    if expected is None:
        assert length_ms == UNKNOWN
    else:
        assert length_ms / MINUTE_MS == pytest.approx(expected, abs=0.35)


def test_intervals_of_a_sampled_history_are_no_rests() -> None:
    """Older commits were loaded once a minute, and before that once in ten minutes."""
    minutes = [*range(0, 24 * 60, 10), *range(24 * 60, 47 * 60), *busy((47 * 60, 48 * 60))]
    now = 48 * 60

    def usual_ms(resolution: HistoryResolution) -> int:
        end_ms = now * MINUTE_MS
        lengths = rests(growing_logs(1, now), commits_at([minutes]), 1, end_ms, resolution)
        return int(lengths.usual_ms[0])

    assert usual_ms(HistoryResolution()) < MINUTE_MS
    # A run that kept all of the second day has seen ten minutes of rest before.
    finer = HistoryResolution((Resolution(5_000, 2 * 3_600_000),), 60_000)
    assert usual_ms(finer) == 12.5 * MINUTE_MS


@pytest.mark.parametrize(
    ("minutes_by_key", "rest"),
    [
        # The first key was read for a minute, then the others: the third has waited longest.
        ([busy((0, 1)), [0, *busy((1, 2))], [0, *busy((2, 3))]], 2),
        # A stuck key among others that are read all the time.
        ([busy((0, 1)), busy((0, 3)), busy((0, 3))], None),
        # The whole group was away for a minute.
        ([busy((0, 1)), busy((0, 1), (2, 3)), busy((0, 1), (2, 3))], None),
        # Only one of the others was away for a while.
        ([busy((0, 1)), [*busy((0, 0.5)), *busy((2, 3))], *[busy((0, 3))] * 2], 1.5),
        ([busy((0, 1)), [*busy((0, 0.5)), *busy((2, 3))], *[busy((0, 3))] * 3], None),
        # Another one was stuck before.
        ([busy((0, 5)), [0, *busy((4, 9))], busy((0, 9))], None),
    ],
)
def test_keys_that_are_read_in_turn_may_wait_for_each_other(
    minutes_by_key: list[list[float]], rest: float | None
) -> None:
    count = len(minutes_by_key)
    (length_ms,) = rests_in_turn_ms(
        growing_logs(count, 10),
        commits_at(minutes_by_key),
        reader_of_key=np.zeros(count, np.int64),
        reader=np.zeros(1, np.int64),
        since_ms=np.array([round(minutes_by_key[0][-1] * MINUTE_MS)]),
    )
    assert length_ms == (UNKNOWN if rest is None else rest * MINUTE_MS)


def test_another_reader_shows_nothing() -> None:
    minutes_by_key = [busy((0, 1)), busy((0, 1)), [0, *busy((1, 2))]]
    lengths_ms = rests_in_turn_ms(
        growing_logs(3, 3),
        commits_at(minutes_by_key),
        reader_of_key=np.array([3, 7, 7]),
        reader=np.array([3, 7, 9]),
        since_ms=np.array([MINUTE_MS, 0, 0]),
    )
    assert lengths_ms.tolist() == [UNKNOWN, MINUTE_MS, UNKNOWN]


@pytest.mark.parametrize(("log_start_offset", "is_frequent"), [(50, True), (0, False)])
def test_a_log_without_records_says_nothing_of_its_transactions(
    log_start_offset: int, is_frequent: bool
) -> None:
    """An hour with 50 records, or after their deletion, and then a transaction."""
    end = np.array([*[50] * 60, 60, 70, 80])
    samples = LogSamples(
        log=np.zeros(end.size, np.int64),
        sampled_at_ms=np.arange(end.size) * MINUTE_MS,
        state=np.full(end.size, PRESENT, object),
        topic_id=np.full(end.size, None, object),
        log_start_offset=np.full(end.size, log_start_offset),
        log_end_offset=end,
        last_stable_offset=np.full(end.size, 50),
        end_markers=np.full(end.size, UNKNOWN),
    )
    holds = stable_holds(LogHistories(samples, 1))
    assert (holds.holds.tolist(), holds.is_frequent.tolist()) == ([0], [is_frequent])
    assert holds.began_by_ms.tolist() == [60 * MINUTE_MS]
