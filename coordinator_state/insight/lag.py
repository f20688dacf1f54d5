"""Lag and time lag of committed offsets, from offset samples of the logs.

An offset was *produced* when it stopped being the log end. That time is interpolated between the
last sample whose log end is not past the offset and the next sample, so the error is at most the
time between two samples. The *time lag* is the age of the first record that is neither committed
nor deleted.

Earlier samples are ignored if a log was deleted and created again (another topic id) or became
shorter (unclean election).

All functions process many logs at once; arrays refer to a log by its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

PRESENT: Final = "present"
GONE: Final = "gone"

NO_SAMPLE: Final = "the log was not sampled yet"
TOPIC_GONE: Final = "the cluster has no such topic"
TOO_OLD: Final = "the first uncommitted record is older than the first sample"
NO_START_OFFSET: Final = "the start offset is not initialized: no record was acknowledged yet"
NO_DELIVERY_COUNT: Final = "the delivery complete count is unknown: Kafka has it from 4.2 on"

UNKNOWN: Final = -1
_GROWS_WITHIN_MS: Final = 60_000

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSamples:
    """Offset samples in the order of log and time; they have offsets if the state is "present"."""

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
        """Return the selected samples."""
        return LogSamples(**{name: getattr(self, name)[wanted] for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Lags of committed offsets, in the order of the offsets; `UNKNOWN` without enough samples.

    Attributes:
        lag: the offsets from the committed one to the log end, without those right before the last
            stable offset that hold no record; 0 if the offset is past the newest sample.
        lag_to_last_stable: as `lag`, but up to the last stable offset, which limits what a
            `read_committed` consumer can read now.
        markers: the number of the offsets up to the log end if none has a record, otherwise
            `UNKNOWN`. They are markers and aborted records of transactions, and gaps of compaction.
        data_lost: the records that were deleted before they were committed.
        time_lag_ms: the age of the first uncommitted record, 0 without one.
        time_lag_at_least_ms: a lower bound of `time_lag_ms`, and equal to it where that is known.
            If the first uncommitted record is older than all samples, it is the age of the oldest
            sample. `UNKNOWN` only if the lag is.
        retention_margin_ms: the time until the first uncommitted record reaches the age at which
            the log start last moved past records. `UNKNOWN` if all records are committed, or if no
            sample shows that the log start moved.
    """

    lag: Int64s
    lag_to_last_stable: Int64s
    markers: Int64s
    data_lost: Int64s
    time_lag_ms: Int64s
    time_lag_at_least_ms: Int64s
    retention_margin_ms: Int64s


class LogHistories:
    """The samples of `count` logs, prepared for lags at or after the time of the last sample.

    Attributes:
        state: the state in each log's newest sample, None without a sample.
        newest: for each log that is not deleted, the newest sample with offsets.
        unknown: the reason if a log has no such sample.
        sampled_at_ms: the latest time at which any log was sampled. A log without a sample at that
            time had not changed.
        samples: those of the present log: after it was last created or became shorter.
        first_away_ms: the first time at which a log was there, but could not be sampled; the
            greatest integer without one.
        recreated_at_ms: the time of each log's first sample with its topic id, if earlier ones have
            another; `UNKNOWN` otherwise.
        replaced_ms: the time of the last of these earlier ones; `UNKNOWN` without any.
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
        is_away = (samples.state != PRESENT) & (samples.state != GONE)
        self.first_away_ms = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(self.first_away_ms, samples.log[is_away], samples.sampled_at_ms[is_away])
        is_present = (samples.state == PRESENT) & ~is_deleted[samples.log]
        present = samples if is_present.all() else samples.only(is_present)
        self.is_known = np.zeros(count, np.bool_)
        self.is_known[present.log] = True
        self.unknown[self.is_known] = None
        same = _of_current_topic(present)
        self.replaced_ms = _replaced_ms(present, count)
        self.recreated_at_ms = _recreated_at_ms(same, self.replaced_ms)
        self.samples = _since_shortened(same)
        numbers = np.arange(count)
        self._first = np.searchsorted(self.samples.log, numbers, side="left")
        self._past = np.searchsorted(self.samples.log, numbers, side="right")
        self.newest = self._newest()
        self._deleted_at_age_ms = self._deletion_ages()

    def _newest(self) -> LogSamples:
        """Return the newest sample of each log; all its values are `UNKNOWN` without a sample."""
        known = self.is_known
        columns = {}
        for name in LogSamples.__slots__:
            values = getattr(self.samples, name)
            column = np.full(self.count, UNKNOWN, values.dtype)
            column[known] = values[self._past[known] - 1]
            columns[name] = column
        return LogSamples(**columns)

    def lags(
        self,
        log: Int64s,
        committed_offset: Int64s,
        now_ms: int,
        delivered: Int64s | None = None,
        is_left: Bools | None = None,
    ) -> Lags:
        """Return the lags of committed offsets in these logs.

        Of a share group, the committed offset is that of the first record that is not delivered,
        and `delivered` is the number of later records that are. They may be anywhere, so
        `lag_to_last_stable` and `data_lost` are lower bounds: they count all of them as before the
        last stable offset or the log start.

        `is_left` are the offsets of groups that all members have left. Nobody knows whether these
        read aborted records, so they are behind these while the log grows.
        """
        read_up_to = committed_offset if delivered is None else committed_offset + delivered
        is_known = self.is_known[log]
        start = self.newest.log_start_offset[log]
        end = self.newest.log_end_offset[log]
        stable = self.newest.last_stable_offset[log]
        markers = np.maximum(self.newest.end_markers[log], 0)
        if is_left is not None:
            before = self.log_ends_at(log, np.full(log.size, now_ms - _GROWS_WITHIN_MS))
            markers[is_left & (before != UNKNOWN) & (before < end)] = 0
        # Between these markers and the last stable offset nothing is left to read.
        is_at_markers = (read_up_to < stable) & (read_up_to >= stable - markers)
        next_offset = np.where(is_at_markers, stable, committed_offset)
        produced_at_ms = self.produced_at_ms(log, np.maximum(next_offset, start))
        age_ms = np.where(produced_at_ms == UNKNOWN, UNKNOWN, now_ms - produced_at_ms)
        read_up_to = np.where(is_at_markers, stable, read_up_to)
        is_behind = read_up_to < end
        until_age_ms = self._deleted_at_age_ms[log]
        has_margin = is_behind & (age_ms != UNKNOWN) & (until_age_ms != UNKNOWN)
        margin_ms = np.where(has_margin, np.maximum(until_age_ms - age_ms, 0), UNKNOWN)
        time_lag_ms = np.where(is_known & ~is_behind, 0, age_ms)
        is_older = is_known & (time_lag_ms == UNKNOWN)

        def behind(offset: Int64s) -> Int64s:
            empty = np.clip(offset - (stable - markers), 0, markers)
            records = offset - read_up_to - np.where(read_up_to < stable, empty, 0)
            return np.where(is_known, np.maximum(records, 0), UNKNOWN)

        return Lags(
            lag=behind(end),
            lag_to_last_stable=behind(stable),
            markers=np.where(is_at_markers & ~is_behind, end - committed_offset, UNKNOWN),
            data_lost=behind(start),
            time_lag_ms=time_lag_ms,
            time_lag_at_least_ms=np.where(
                is_older, now_ms - self.sampled_since_ms(log), time_lag_ms
            ),
            retention_margin_ms=margin_ms,
        )

    def sampled_since_ms(self, log: Int64s) -> Int64s:
        """Return the time of the oldest sample of each log, 0 for a log without samples."""
        times = np.append(self.samples.sampled_at_ms, 0)
        return times[np.where(self.is_known[log], self._first[log], -1)]

    def log_ends_at(self, log: Int64s, at_ms: Int64s) -> Int64s:
        """Return the log end in the newest sample up to a time, `UNKNOWN` without such a sample."""
        times = self.samples.sampled_at_ms
        before = _first_past(times, self._first[log], self._past[log], at_ms) - 1
        is_known = before >= self._first[log]
        if not times.size:
            return np.full(log.size, UNKNOWN)
        return np.where(is_known, self.samples.log_end_offset[np.maximum(before, 0)], UNKNOWN)

    def offsets_from(self, log: Int64s, at_ms: Int64s) -> tuple[Int64s, Int64s]:
        """Return the log start and the log end in the newest sample up to a time.

        Without such a sample they are those of the first sample after it, or else `UNKNOWN`.
        """
        before = _first_past(self.samples.sampled_at_ms, self._first[log], self._past[log], at_ms)
        sample = np.where(self.is_known[log], np.maximum(before - 1, self._first[log]), -1)
        start, end = (
            np.append(offsets, UNKNOWN)[sample]
            for offsets in (self.samples.log_start_offset, self.samples.log_end_offset)
        )
        return start, end

    def produced_at_ms(self, log: Int64s, offset: Int64s) -> Int64s:
        """Return when offsets stopped being the log end; it needs a sample before and after."""
        ends, times = self.samples.log_end_offset, self.samples.sampled_at_ms
        after = _first_past(ends, self._first[log], self._past[log], offset)
        is_known = (after > self._first[log]) & (after < self._past[log])
        after = np.where(is_known, after, 1)
        if ends.size < 2:
            return np.full(log.size, UNKNOWN)
        grown = np.maximum(ends[after] - ends[after - 1], 1)
        share = (offset - ends[after - 1]) / grown
        at_ms = times[after - 1] + share * (times[after] - times[after - 1])
        return np.where(is_known, at_ms, UNKNOWN).astype(np.int64)

    def _deletion_ages(self) -> Int64s:
        """Return, by log, the age of the oldest remaining record at the last deletion before it.

        The time of the deletion is that of the last sample that does not show it.
        """
        ages_ms = np.full(self.count, UNKNOWN)
        log, start = self.samples.log, self.samples.log_start_offset
        moved = 1 + np.flatnonzero((log[1:] == log[:-1]) & (start[1:] > start[:-1]))
        last = moved[_last_of_each(log[moved])]
        produced_at_ms = self.produced_at_ms(log[last], start[last])
        age_ms = self.samples.sampled_at_ms[last - 1] - produced_at_ms
        ages_ms[log[last]] = np.where(produced_at_ms == UNKNOWN, UNKNOWN, np.maximum(age_ms, 0))
        return ages_ms


def _last_of_each(log: Int64s) -> Int64s:
    """Return the indices of the last element of each run of equal numbers."""
    return np.flatnonzero(np.append(log[1:] != log[:-1], True)) if log.size else log


def _is_current_topic(present: LogSamples) -> Bools:
    """Whether each sample has the newest topic id of its log."""
    last = _last_of_each(present.log)
    is_current: Bools = present.topic_id == np.repeat(
        present.topic_id[last], np.diff(last, prepend=-1)
    )
    return is_current


def _of_current_topic(present: LogSamples) -> LogSamples:
    is_same = _is_current_topic(present)
    return present if is_same.all() else present.only(is_same)


def _replaced_ms(present: LogSamples, count: int) -> Int64s:
    """Return the time of the last sample of each log with another topic id than the newest."""
    at_ms, is_other = np.full(count, UNKNOWN), ~_is_current_topic(present)
    # The last assignment of an index holds.
    at_ms[present.log[is_other]] = present.sampled_at_ms[is_other]
    return at_ms


def _recreated_at_ms(same: LogSamples, replaced_ms: Int64s) -> Int64s:
    """Return the time of the first sample of each log that has replaced another topic."""
    at_ms = np.full(replaced_ms.size, UNKNOWN)
    if (replaced_ms == UNKNOWN).all():
        return at_ms
    at_ms[same.log[::-1]] = same.sampled_at_ms[::-1]
    return np.where(replaced_ms == UNKNOWN, UNKNOWN, at_ms)


def _since_shortened(same: LogSamples) -> LogSamples:
    """Keep samples from the last time that the log became shorter."""
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
    """Return the index of the first greater value from `first` up to `past`, by binary search."""
    low: Int64s = first.copy()
    high: Int64s = past.copy()
    while (is_open := low < high).any():
        middle = (low + high) // 2
        is_greater = sorted_values[np.where(is_open, middle, 0)] > value
        high = np.where(is_open & is_greater, middle, high)
        low = np.where(is_open & ~is_greater, middle + 1, low)
    return low
