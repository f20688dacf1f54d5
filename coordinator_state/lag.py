"""How far a committed offset is behind its log: in records, and in time.

The log is known by samples. The *time lag* is the age of the first record that is not committed:
the time since its offset was the end of the log. Between the last sample whose log end was not past
it and the next one, the log is taken to have grown evenly, so the error is at most the time between
two samples.

Where a log was deleted and created again (another topic id), or got shorter (an unclean election),
earlier samples say nothing of its records.
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

UNKNOWN_MS: Final = -1

Int64s = NDArray[np.int64]
Texts = NDArray[np.object_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSamples:
    """Samples of one topic partition, oldest first; offsets are known where it is "present"."""

    sampled_at_ms: Int64s
    state: Texts
    topic_id: Texts
    log_start_offset: Int64s
    log_end_offset: Int64s
    last_stable_offset: Int64s

    def __len__(self) -> int:
        return self.sampled_at_ms.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """Lags of several committed offsets of one topic partition, in their order.

    `lag` counts the records from the committed offset to the log end, `data_lost` those of them
    that are deleted already, `lag_to_last_stable` those up to the last stable offset, all that a
    `read_committed` consumer can read now. An offset past the newest sample has no lag.
    `time_lag_ms` is `UNKNOWN_MS` where no sample is old enough.
    """

    lag: Int64s
    lag_to_last_stable: Int64s
    data_lost: Int64s
    time_lag_ms: Int64s


class LogHistory:
    """What the samples of one topic partition say at the moment of the last of them, or later.

    `newest` is the index of the newest sample that has offsets, None where there is none or the
    topic is gone.
    """

    def __init__(self, samples: LogSamples) -> None:
        self.samples = samples
        self.state = str(samples.state[-1]) if len(samples) else None
        present = np.flatnonzero(samples.state == PRESENT)
        self.newest = int(present[-1]) if present.size and self.state != GONE else None
        if self.newest is None:
            return
        same_log = present[samples.topic_id[present] == samples.topic_id[self.newest]]
        ends = samples.log_end_offset[same_log]
        shorter = np.flatnonzero(np.diff(ends) < 0)
        first = int(shorter[-1]) + 1 if shorter.size else 0
        self._times, self._ends = samples.sampled_at_ms[same_log][first:], ends[first:]

    @property
    def unknown(self) -> str | None:
        """Why there are no lags at all, None where there are."""
        if self.newest is not None:
            return None
        return TOPIC_GONE if self.state == GONE else NO_SAMPLE

    def lags(self, committed_offsets: Int64s, now_ms: int) -> Lags:
        """The lags at a moment; only where `unknown` is None."""
        if self.newest is None:
            raise ValueError(f"no lags: {self.unknown}")
        start = int(self.samples.log_start_offset[self.newest])
        stable = int(self.samples.last_stable_offset[self.newest])
        end = int(self._ends[-1])
        first_uncommitted = np.maximum(committed_offsets, start)
        # The first sample whose end is past it; the one before is the last whose end is not.
        after = np.searchsorted(self._ends, first_uncommitted, side="right")
        ends, times = self._ends, self._times
        end_before, end_after = ends.take(after - 1, mode="clip"), ends.take(after, mode="clip")
        before, past = times.take(after - 1, mode="clip"), times.take(after, mode="clip")
        share = (first_uncommitted - end_before) / np.maximum(end_after - end_before, 1)
        age_ms = now_ms - (before + share * (past - before))
        is_behind, is_known = after < ends.size, after > 0
        time_lag_ms = np.where(is_behind, np.where(is_known, age_ms, UNKNOWN_MS), 0)
        return Lags(
            lag=np.maximum(end - committed_offsets, 0),
            lag_to_last_stable=np.maximum(stable - committed_offsets, 0),
            data_lost=np.maximum(start - committed_offsets, 0),
            time_lag_ms=time_lag_ms.astype(np.int64),
        )
