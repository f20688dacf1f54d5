"""Logs that grow by a record a second, and commits of their ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from coordinator_state.insight.lag import PRESENT, UNKNOWN, LogHistories, LogSamples
from coordinator_state.insight.pace import Commits

MINUTE_MS = 60_000
_STEP_MS = 10_000


def growing_logs(count: int, minutes: int) -> LogHistories:
    """Logs with a record a second, from time 0 on, sampled every ten seconds."""
    times = np.tile(np.arange(0, minutes * MINUTE_MS + 1, _STEP_MS), count)
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
        (key, round(minute * MINUTE_MS))
        for key, minutes in enumerate(minutes_by_key)
        for minute in minutes
    ]
    key, at_ms = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Commits(key, key, at_ms // 1_000, at_ms)


def busy(*spans: tuple[float, float]) -> list[float]:
    """Six commits a minute in each span of minutes."""
    return [begin + n / 6 for begin, end in spans for n in range(round(6 * (end - begin)) + 1)]
