"""How far committed offsets are behind their logs: in records, and in time.

Logs are known by samples. An offset was *produced* when it stopped being the log end: between the
last sample whose log end was not past it and the next one, the log is taken to have grown evenly,
so the error is at most the time between two samples. The *time lag* is the age of the first record
that is not committed and not deleted.

Where a log was deleted and created again (another topic id), or got shorter (an unclean election),
earlier samples say nothing of its records.

Many logs are looked at at once: samples and questions name their log by its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

PRESENT: Final = "present"
GONE: Final = "gone"

NO_SAMPLE: Final = "the log was not sampled yet"
TOPIC_GONE: Final = "the topic is gone"
TOO_OLD: Final = "no sample is as old as the first uncommitted record"

UNKNOWN: Final = -1

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSamples:
    """Samples by log and time; offsets are known where the state is "present"."""

    log: Int64s
    sampled_at_ms: Int64s
    state: Texts
    topic_id: Texts
    log_start_offset: Int64s
    log_end_offset: Int64s
    last_stable_offset: Int64s
    end_markers: Int64s

    def __len__(self) -> int:
        return self.log.size

    def only(self, wanted: Bools) -> LogSamples:
        """Some of the samples."""
        return LogSamples(**{name: getattr(self, name)[wanted] for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Lags of committed offsets, in their order; `UNKNOWN` where samples do not tell.

    `lag` counts the records from the committed offset to the log end, `lag_to_last_stable` those up
    to the last stable offset, all that a `read_committed` consumer can read now. Both are 0 where
    these are transaction markers and nothing else; `markers` counts them, `UNKNOWN` elsewhere.
    `data_lost` counts those that are deleted already. An offset past the newest sample has no lag.

    `retention_margin_ms` is the time until the first uncommitted record will be as old as records
    were when the log start last moved past them: unknown where all is committed, or where it did
    not move in the time that the samples tell of.
    """

    lag: Int64s
    lag_to_last_stable: Int64s
    markers: Int64s
    data_lost: Int64s
    time_lag_ms: Int64s
    retention_margin_ms: Int64s


class LogHistories:
    """What the samples say of `count` logs at the moment of the last of them, or later.

    `state` is that of each log's newest sample, None without any. `newest` has the newest one with
    offsets of each log that is not gone; where there is none, `unknown` says why. `sampled_at_ms`
    is the newest moment at which any log was sampled: those without a sample then had not changed.
    """

    def __init__(self, samples: LogSamples, count: int, sampled_at_ms: int | None = None) -> None:
        self.count = count
        self.sampled_at_ms = sampled_at_ms
        self.state = np.full(count, None, object)
        last = _last_of_each(samples.log)
        self.state[samples.log[last]] = samples.state[last]
        is_deleted = self.state == GONE
        self.unknown = np.full(count, None, object)
        self.unknown[:] = NO_SAMPLE
        self.unknown[is_deleted] = TOPIC_GONE
        is_present = (samples.state == PRESENT) & ~is_deleted[samples.log]
        present = samples if is_present.all() else samples.only(is_present)
        self.is_known = np.zeros(count, np.bool_)
        self.is_known[present.log] = True
        self.unknown[self.is_known] = None
        self._samples = _of_the_log_now(present)
        numbers = np.arange(count)
        self._first = np.searchsorted(self._samples.log, numbers, side="left")
        self._past = np.searchsorted(self._samples.log, numbers, side="right")
        self.newest = self._newest()
        self._deleted_at_age_ms = self._ages_of_deletion()

    def _newest(self) -> LogSamples:
        """A sample for each log, nothing but `UNKNOWN` where there is none."""
        known = self.is_known
        columns = {}
        for name in LogSamples.__slots__:
            values = getattr(self._samples, name)
            found = np.full(self.count, UNKNOWN, values.dtype)
            found[known] = values[self._past[known] - 1]
            columns[name] = found
        return LogSamples(**columns)

    def lags(self, log: Int64s, committed_offset: Int64s, now_ms: int) -> Lags:
        """The lags of offsets that are committed in these logs."""
        is_known = self.is_known[log]
        start = self.newest.log_start_offset[log]
        end = self.newest.log_end_offset[log]
        produced_at_ms = self._produced_at_ms(log, np.maximum(committed_offset, start))
        age_ms = np.where(produced_at_ms == UNKNOWN, UNKNOWN, now_ms - produced_at_ms)
        markers = np.maximum(self.newest.end_markers[log], 0)
        is_at_markers = (committed_offset < end) & (committed_offset >= end - markers)
        is_behind = (committed_offset < end) & ~is_at_markers
        until_age_ms = self._deleted_at_age_ms[log]
        has_margin = is_behind & (age_ms != UNKNOWN) & (until_age_ms != UNKNOWN)
        margin_ms = np.where(has_margin, np.maximum(until_age_ms - age_ms, 0), UNKNOWN)

        def behind(offset: Int64s) -> Int64s:
            return np.where(is_known, np.maximum(offset - committed_offset, 0), UNKNOWN)

        return Lags(
            lag=np.where(is_at_markers, 0, behind(end)),
            lag_to_last_stable=np.where(
                is_at_markers, 0, behind(self.newest.last_stable_offset[log])
            ),
            markers=np.where(is_at_markers, end - committed_offset, UNKNOWN),
            data_lost=behind(start),
            time_lag_ms=np.where(is_known & ~is_behind, 0, age_ms),
            retention_margin_ms=margin_ms,
        )

    def log_ends_at(self, log: Int64s, at_ms: Int64s) -> Int64s:
        """The log end by the newest sample up to a moment, `UNKNOWN` where there is none."""
        times = self._samples.sampled_at_ms
        before = _first_past(times, self._first[log], self._past[log], at_ms) - 1
        is_known = before >= self._first[log]
        if not times.size:
            return np.full(log.size, UNKNOWN)
        return np.where(is_known, self._samples.log_end_offset[np.maximum(before, 0)], UNKNOWN)

    def _produced_at_ms(self, log: Int64s, offset: Int64s) -> Int64s:
        """When offsets stopped being the log end, where samples before and after that are known."""
        ends, times = self._samples.log_end_offset, self._samples.sampled_at_ms
        after = _first_past(ends, self._first[log], self._past[log], offset)
        is_told = (after > self._first[log]) & (after < self._past[log])
        after = np.where(is_told, after, 1)
        if ends.size < 2:
            return np.full(log.size, UNKNOWN)
        grown = np.maximum(ends[after] - ends[after - 1], 1)
        share = (offset - ends[after - 1]) / grown
        at_ms = times[after - 1] + share * (times[after] - times[after - 1])
        return np.where(is_told, at_ms, UNKNOWN).astype(np.int64)

    def _ages_of_deletion(self) -> Int64s:
        """The age at which the oldest record that is left saw those before it deleted, by log.

        They were deleted after the sample before the one that shows it.
        """
        found = np.full(self.count, UNKNOWN)
        log, start = self._samples.log, self._samples.log_start_offset
        moved = 1 + np.flatnonzero((log[1:] == log[:-1]) & (start[1:] > start[:-1]))
        last = moved[_last_of_each(log[moved])]
        produced_at_ms = self._produced_at_ms(log[last], start[last])
        age_ms = self._samples.sampled_at_ms[last - 1] - produced_at_ms
        found[log[last]] = np.where(produced_at_ms == UNKNOWN, UNKNOWN, np.maximum(age_ms, 0))
        return found


def _last_of_each(log: Int64s) -> Int64s:
    """Indices of the last of each run of equal numbers."""
    return np.flatnonzero(np.append(log[1:] != log[:-1], True)) if log.size else log


def _of_the_log_now(present: LogSamples) -> LogSamples:
    """The samples of the same log as the newest one, from where it got shorter last."""
    last = _last_of_each(present.log)
    sizes = np.diff(last, prepend=-1)
    is_same = present.topic_id == np.repeat(present.topic_id[last], sizes)
    same = present if is_same.all() else present.only(is_same)
    is_shorter = np.zeros(len(same), np.bool_)
    is_shorter[1:] = (same.log_end_offset[1:] < same.log_end_offset[:-1]) & (
        same.log[1:] == same.log[:-1]
    )
    if not is_shorter.any():
        return same
    shortened = np.cumsum(is_shorter)
    last = _last_of_each(same.log)
    return same.only(shortened == np.repeat(shortened[last], np.diff(last, prepend=-1)))


def _first_past(sorted_values: Int64s, first: Int64s, past: Int64s, value: Int64s) -> Int64s:
    """Where, from `first` up to `past`, the first greater value is: a binary search of each row."""
    low, high = first.copy(), past.copy()
    while (is_open := low < high).any():
        middle = (low + high) // 2
        is_greater = sorted_values[np.where(is_open, middle, 0)] > value
        high = np.where(is_open & is_greater, middle, high)
        low = np.where(is_open & ~is_greater, middle + 1, low)
    return low
