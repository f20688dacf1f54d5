"""The rests of keys, from the times of their commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from coordinator_state.insight.lag import PRESENT, UNKNOWN, LogHistories, LogSamples
from coordinator_state.insight.pace import Commits, rests, rests_in_turn_ms, stable_holds

_MINUTE_MS = 60_000
_STEP_MS = 10_000


def growing_logs(count: int, minutes: int) -> LogHistories:
    """Logs with a record a second, from time 0 on, sampled every ten seconds."""
    times = np.tile(np.arange(0, minutes * _MINUTE_MS + 1, _STEP_MS), count)
    samples = LogSamples(
        log=np.repeat(np.arange(count), times.size // count),
        sampled_at_ms=times,
        state=np.full(times.size, PRESENT, object),
        topic_id=np.full(times.size, None, object),
        log_start_offset=np.zeros(times.size, np.int64),
        log_end_offset=times // 1_000,
        last_stable_offset=times // 1_000,
        end_markers=np.full(times.size, UNKNOWN),
    )
    return LogHistories(samples, count)


def commits_at(minutes_by_key: Sequence[Iterable[float]]) -> Commits:
    """Commits of the log end at these minutes; each key has a log of its own."""
    rows = [
        (key, round(minute * _MINUTE_MS))
        for key, minutes in enumerate(minutes_by_key)
        for minute in minutes
    ]
    key, at_ms = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Commits(key, key, at_ms // 1_000, at_ms)


def busy(*spans: tuple[float, float]) -> list[float]:
    """Six commits a minute in each span of minutes."""
    return [begin + n / 6 for begin, end in spans for n in range(round(6 * (end - begin)) + 1)]


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
    lengths_ms = rests(growing_logs(1, now), commits_at([sorted(minutes)]), 1, now * _MINUTE_MS)
    for (length_ms,), expected in zip(lengths_ms, (usual, due), strict=True):
        if expected is None:
            assert length_ms == UNKNOWN
        else:
            assert length_ms / _MINUTE_MS == pytest.approx(expected, abs=0.35)


def test_intervals_of_a_sampled_history_are_no_rests() -> None:
    """Older commits were loaded once a minute, and before that once in ten minutes."""
    minutes = [*range(0, 24 * 60, 10), *range(24 * 60, 47 * 60), *busy((47 * 60, 48 * 60))]
    now = 48 * 60
    usual_ms, _ = rests(growing_logs(1, now), commits_at([minutes]), 1, now * _MINUTE_MS)
    assert usual_ms[0] < _MINUTE_MS


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
        since_ms=np.array([round(minutes_by_key[0][-1] * _MINUTE_MS)]),
    )
    assert length_ms == (UNKNOWN if rest is None else rest * _MINUTE_MS)


def test_another_reader_shows_nothing() -> None:
    minutes_by_key = [busy((0, 1)), busy((0, 1)), [0, *busy((1, 2))]]
    lengths_ms = rests_in_turn_ms(
        growing_logs(3, 3),
        commits_at(minutes_by_key),
        reader_of_key=np.array([3, 7, 7]),
        reader=np.array([3, 7, 9]),
        since_ms=np.array([_MINUTE_MS, 0, 0]),
    )
    assert lengths_ms.tolist() == [UNKNOWN, _MINUTE_MS, UNKNOWN]


@pytest.mark.parametrize(("log_start_offset", "is_frequent"), [(50, True), (0, False)])
def test_a_log_without_records_says_nothing_of_its_transactions(
    log_start_offset: int, is_frequent: bool
) -> None:
    """An hour with 50 records, or after their deletion, and then a transaction."""
    end = np.array([*[50] * 60, 60, 70, 80])
    samples = LogSamples(
        log=np.zeros(end.size, np.int64),
        sampled_at_ms=np.arange(end.size) * _MINUTE_MS,
        state=np.full(end.size, PRESENT, object),
        topic_id=np.full(end.size, None, object),
        log_start_offset=np.full(end.size, log_start_offset),
        log_end_offset=end,
        last_stable_offset=np.full(end.size, 50),
        end_markers=np.full(end.size, UNKNOWN),
    )
    holds = stable_holds(LogHistories(samples, 1))
    assert (holds.holds.tolist(), holds.is_frequent.tolist()) == ([0], [is_frequent])
