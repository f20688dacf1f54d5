"""Sampled history: the commits of a key that are kept, by the time of their records.

Time is divided into intervals, and at least the last commit of each key in each interval is kept.
The intervals are short for young records and longer for older ones. So the history of a time does
not depend on when it was read, or in how many micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

LEAST_TIMESTAMP_MS: Final = -(1 << 62)
"""Earlier than any timestamp of a row."""


class Resolution(NamedTuple):
    """The intervals of records up to an age, which is excluded."""

    interval_ms: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class HistoryResolution:
    """Intervals by the age of the records, from the youngest to the oldest.

    Each interval is a multiple of the one before, and `oldest_interval_ms` of the last one.
    """

    steps: tuple[Resolution, ...] = (
        Resolution(5 * SECOND_MS, HOUR_MS),
        Resolution(MINUTE_MS, DAY_MS),
    )
    oldest_interval_ms: int = 10 * MINUTE_MS

    def __post_init__(self) -> None:
        """Check the intervals and ages.

        Raises:
            ValueError: one is not positive, an age is not greater than the one before, or an
                interval is not a multiple of the one before.
        """
        intervals = [*(step.interval_ms for step in self.steps), self.oldest_interval_ms]
        ages = [step.age_ms for step in self.steps]
        if min(*intervals, *ages, 1) < 1 or any(
            older <= younger for younger, older in pairwise(ages)
        ):
            raise ValueError("each age has to be greater than the one before")
        if any(longer == shorter or longer % shorter for shorter, longer in pairwise(intervals)):
            raise ValueError("each interval has to be a multiple of the one before")

    def interval_ms(self, age_ms: int) -> int:
        """The interval of records of an age."""
        return next(
            (step.interval_ms for step in self.steps if age_ms < step.age_ms),
            self.oldest_interval_ms,
        )


@dataclass(frozen=True, slots=True)
class CommitSampling:
    """The intervals of one read; ages are measured to `read_at_ms`.

    `zones` has, from the youngest, the first timestamp of a zone and the interval in it. Each zone
    begins where an interval of the next, older one ends.
    """

    zones: tuple[tuple[int, int], ...]

    @classmethod
    def at(
        cls, read_at_ms: int, resolution: HistoryResolution = HistoryResolution()
    ) -> CommitSampling:
        """The intervals of records that are read at a time."""
        steps, oldest_ms = resolution.steps, resolution.oldest_interval_ms
        intervals = [*(step.interval_ms for step in steps), oldest_ms]
        zones = [
            ((read_at_ms - step.age_ms) // older_ms * older_ms, step.interval_ms)
            for step, older_ms in zip(steps, intervals[1:], strict=True)
        ]
        return cls((*zones, (LEAST_TIMESTAMP_MS, oldest_ms)))

    def interval(self, timestamp_ms: int) -> tuple[int, int]:
        """The interval of a record: its first timestamp, and the first one after it."""
        interval_ms = next(ms for begin_ms, ms in self.zones if timestamp_ms >= begin_ms)
        start_ms = timestamp_ms // interval_ms * interval_ms
        return start_ms, start_ms + interval_ms

    def intervals_between(self, first_ms: int, last_ms: int) -> int:
        """The number of intervals from the one of a timestamp to that of a later one."""
        count, until_ms = 1, last_ms
        for begin_ms, interval_ms in self.zones:
            since_ms = max(begin_ms, first_ms)
            if until_ms > since_ms:
                count += -((since_ms - until_ms) // interval_ms)
                until_ms = since_ms
        return count
