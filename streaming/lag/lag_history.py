"""The lag and the rates of a group over time, for a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.replay.offsets import Outcome
from streaming.lag.offset_samples import epoch_ms
from streaming.lag.sample_runs import CONFIRM_EVERY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS, OFFSET_COMMITS

Floats: TypeAlias = npt.NDArray[np.float64]
TopicPartition: TypeAlias = tuple[str, int]

_KNOWN_FOR = 2 * CONFIRM_EVERY
"""The log end counts as unknown after this time without a sample."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """Sums over the partitions of a group at points in time; None if all values are unknown.

    Rates are offsets per second since the previous point.
    """

    at: Sequence[datetime]
    lag: Sequence[float | None]
    commit_rate_per_s: Sequence[float | None]
    produce_rate_per_s: Sequence[float | None]


def lag_history(
    reader: TableReader,
    group_id: str,
    *,
    since: datetime,
    until: datetime,
    points: int = 120,
    every: timedelta | None = None,
) -> LagHistory:
    """The lag of a group at `points` evenly spaced points from `since` to `until`.

    With `every`, the points are at whole multiples of it since the epoch, and at `until`, so
    that they are the same for another `until`.

    A committed offset holds until the next commit (`--history sampled` keeps the last commit of
    each micro-batch). The log end is interpolated between two samples.
    """
    grid = np.linspace(since.timestamp() * 1000, until.timestamp() * 1000, points)
    if every is not None:
        step_ms = every / timedelta(milliseconds=1)
        grid = np.append(np.arange(grid[0] // step_ms * step_ms, grid[-1], step_ms), grid[-1])
    committed = _committed(reader, group_id, since, until, grid)
    ends = _ends(reader, set(committed), since, until, grid)
    lags = [_lag(committed[place], *ends[place]) for place in committed if place in ends]
    return LagHistory(
        at=[datetime.fromtimestamp(ms / 1000, tz=timezone.utc) for ms in grid],
        lag=_listed(_sum(lags, grid)),
        commit_rate_per_s=_listed(_rate(list(committed.values()), grid)),
        produce_rate_per_s=_listed(_rate([end for end, _ in ends.values()], grid)),
    )


def _committed(
    reader: TableReader, group_id: str, since: datetime, until: datetime, grid: Floats
) -> dict[TopicPartition, Floats]:
    """Committed offsets at the points of a grid; NaN while an offset is deleted."""
    columns, of_group = ["topic", "partition", "committed_offset"], [group_id]
    history = reader.read(
        OFFSET_COMMITS.name,
        [*columns, "record_timestamp", "is_tombstone"],
        [
            *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
            *(("record_timestamp", "<=", until), ("outcome", "=", Outcome.COMMITTED.value)),
            ("group_id", "=", group_id),
        ],
    )
    nothing = pa.scalar(None, pa.int64())
    offsets = pc.if_else(history["is_tombstone"], nothing, history["committed_offset"])
    rows = pa.concat_tables(
        [
            _steps(history, history["record_timestamp"], offsets),
            *(
                _steps(state, state["commit_timestamp"], state["committed_offset"])
                for one in (reader.before(since), reader)
                if one is not None
                for state in [one.own("group_offsets", [*columns, "commit_timestamp"], of_group)]
            ),
        ]
    )
    return {
        place: _step(of_place, "at", "offset", grid) for place, of_place in _by_place(rows, "at")
    }


_STEPS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("at", TIMESTAMP), ("offset", pa.int64())]
)


def _steps(rows: pa.Table, at: Any, offset: Any) -> pa.Table:
    return pa.table([rows["topic"], rows["partition"], at, offset], schema=_STEPS)


def _ends(
    reader: TableReader,
    places: set[TopicPartition],
    since: datetime,
    until: datetime,
    grid: Floats,
) -> dict[TopicPartition, tuple[Floats, Floats]]:
    """Log ends, and the markers right before them, at the points of a grid."""
    first = since - _KNOWN_FOR
    rows = reader.read(
        LOG_OFFSETS.name,
        ["topic", "partition", "sampled_at", "log_end_offset", "end_markers"],
        [
            *(("day", ">=", first.date()), ("day", "<=", until.date())),
            *(("sampled_at", ">=", first), ("sampled_at", "<=", until)),
            ("topic", "in", sorted({topic for topic, _ in places}) or [""]),
        ],
    )
    rows = _thinned(rows.filter(pc.is_valid(rows["log_end_offset"])), grid)
    found = {}
    for place, samples in _by_place(rows, "sampled_at"):
        if place in places:
            times = epoch_ms(samples["sampled_at"]).astype(np.float64)
            end = np.interp(grid, times, _floats(samples["log_end_offset"]), left=np.nan)
            end[grid > times[-1] + _KNOWN_FOR / timedelta(milliseconds=1)] = np.nan
            found[place] = end, _step(samples, "sampled_at", "end_markers", grid)
    return found


def _thinned(rows: pa.Table, grid: Floats) -> pa.Table:
    """The last sample of each partition between two points of a grid."""
    step_ms = max(grid[1] - grid[0], 1)
    bucket = pa.array((epoch_ms(rows["sampled_at"]) // step_ms).astype(np.int64))
    values = ("sampled_at", "log_end_offset", "end_markers")
    found = (
        rows.append_column("bucket", bucket)
        .sort_by("sampled_at")
        .group_by(["topic", "partition", "bucket"], use_threads=False)
        .aggregate([(name, "last") for name in values])
    )
    return found.rename_columns([name.removesuffix("_last") for name in found.column_names])


def _by_place(rows: pa.Table, time: str) -> Iterator[tuple[TopicPartition, pa.Table]]:
    """The rows of each partition, sorted by time."""
    rows = rows.sort_by([(name, "ascending") for name in ("topic", "partition", time)])
    places = list(zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True))
    first = 0
    for row in range(1, len(places) + 1):
        if row == len(places) or places[row] != places[first]:
            yield places[first], rows.slice(first, row - first)
            first = row


def _step(rows: pa.Table, time: str, value: str, grid: Floats) -> Floats:
    """The last value at or before each point of a grid."""
    at = np.searchsorted(epoch_ms(rows[time]), grid, side="right") - 1
    values = _floats(rows[value])
    return np.where(at < 0, np.nan, values[np.maximum(at, 0)])


def _lag(committed: Floats, end: Floats, markers: Floats) -> Floats:
    behind = np.maximum(end - committed, 0)
    # If only transaction markers are left to read, the lag is 0.
    return np.where(behind <= np.nan_to_num(markers), behind * 0, behind)


def _rate(values: Sequence[Floats], grid: Floats) -> Floats:
    """The change per second over each step whose values at both ends are known."""
    per_s = [np.concatenate([[np.nan], np.diff(one) / np.diff(grid) * 1000]) for one in values]
    return _sum(per_s, grid)


def _sum(values: Sequence[Floats], grid: Floats) -> Floats:
    if not values:
        return np.full(grid.size, np.nan)
    stacked = np.vstack(values)
    known = ~np.isnan(stacked)
    return np.where(known.any(axis=0), np.nansum(stacked, axis=0), np.nan)


def _floats(column: Any) -> Floats:
    found: Floats = pc.cast(column, pa.float64()).to_numpy().astype(np.float64)
    return found


def _listed(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
