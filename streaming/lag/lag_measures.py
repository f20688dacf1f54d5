"""The columns of `group_lag` that come from offset samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import GONE, TOO_OLD, UNKNOWN, Bools, Int64s, Lags, LogHistories

_OF_LOG: Final = ("log_start_offset", "last_stable_offset", "log_end_offset")


@dataclass(frozen=True, slots=True)
class Measures:
    """Values by row, `UNKNOWN` at first; rows are filled as their samples are found."""

    offsets: dict[str, Int64s]
    topic_state: Any
    time_lag_unknown: Any

    @classmethod
    def unknown(cls, size: int) -> Measures:
        names = (*_OF_LOG, "sampled_at_ms", *Lags.__slots__)
        offsets = {name: np.full(size, UNKNOWN, np.int64) for name in names}
        return cls(offsets, np.full(size, None, object), np.full(size, None, object))

    def measure(
        self,
        rows: Int64s,
        logs: LogHistories,
        log: Int64s,
        committed: Int64s,
        now_ms: int,
        delivered: Int64s | None,
    ) -> None:
        """Fill rows from the samples of their logs."""
        self.topic_state[rows] = logs.state[log]
        for name in (*_OF_LOG, "sampled_at_ms"):
            self.offsets[name][rows] = getattr(logs.newest, name)[log]
        lags = logs.lags(log, committed, now_ms, delivered)
        for name in Lags.__slots__:
            self.offsets[name][rows] = getattr(lags, name)
        why = logs.unknown[log]
        why[logs.is_known[log] & (lags.time_lag_ms == UNKNOWN)] = TOO_OLD
        self.time_lag_unknown[rows] = why

    def forget(self, rows: Bools, reason: str) -> None:
        """Make the lags of rows unknown, for a reason other than their samples."""
        for name in Lags.__slots__:
            self.offsets[name][rows] = UNKNOWN
        self.time_lag_unknown[rows & (self.topic_state != GONE)] = reason

    def end_time_lags(self, unwritten_ms: int) -> None:
        """Measure time lags to the last write of the tables: they do not grow with its age."""
        for name in ("time_lag_ms", "time_lag_at_least_ms"):
            age_ms = self.offsets[name]
            age_ms[:] = np.where(age_ms > 0, np.maximum(age_ms - unwritten_ms, 0), age_ms)

    def is_beyond_end(self, committed: Int64s) -> Bools:
        """Whether each offset is past the sampled log end."""
        end = self.offsets["log_end_offset"]
        return (end != UNKNOWN) & (committed > end)

    def raise_log_ends(self, rows: Bools, committed: Int64s) -> None:
        """Raise the log ends of rows to their committed offsets."""
        end, stable = self.offsets["log_end_offset"], self.offsets["last_stable_offset"]
        # Without an open transaction, both are the same.
        self.offsets["last_stable_offset"] = np.where(rows & (stable == end), committed, stable)
        self.offsets["log_end_offset"] = np.where(rows, committed, end)

    def columns(self) -> dict[str, pa.Array]:
        """The columns, with null for unknown values."""
        columns = {name: null_if_unknown(values) for name, values in self.offsets.items()}
        columns["sampled_at"] = pc.cast(columns.pop("sampled_at_ms"), pa.timestamp("ms", "UTC"))
        columns["topic_state"] = pa.array(self.topic_state, pa.string())
        columns["time_lag_unknown"] = pa.array(self.time_lag_unknown, pa.string())
        return columns


def null_if_unknown(values: Any) -> pa.Array:
    """A column of integers."""
    return pa.array(values, pa.int64(), mask=values == UNKNOWN)
