"""The lag and the rates of groups over time, for charts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Final

import numpy as np

from coordinator_state.insight.group_facts import LagHistory
from streaming.lag.offset_steps import Floats, PartitionSteps, partition_steps
from streaming.lag.sample_runs import CONFIRM_EVERY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS

_SHORTEST: Final = timedelta(seconds=10)
"""A history that begins with its data is at least this long."""


def reader_of_groups(
    reader: TableReader,
    group_ids: Collection[str],
    since: datetime,
    until: datetime,
    *,
    is_past: bool,
) -> TableReader:
    """The reader from which `lag_histories` of few groups takes the least time.

    `is_past` says whether `reader` is of a past moment. Then the tables are rebuilt again, with the
    rows of these groups only.
    """
    with_history = reader.with_history(since=since, group_ids=group_ids, keeps=[OFFSET_COMMITS])
    return (with_history.before(until) or reader) if is_past else with_history


def lag_histories(
    reader: TableReader,
    group_ids: Collection[str],
    *,
    since: datetime,
    until: datetime,
    points: int = 120,
    every: timedelta | None = None,
    begins_with_data: bool = False,
) -> Mapping[str, LagHistory]:
    """The lag of each group at `points` evenly spaced points from `since` to `until`.

    A committed offset holds until the next commit (`--history sampled` keeps the last commit of
    each micro-batch). The log end is interpolated between two samples. Each table is read once for
    all groups.

    Args:
        reader: the tables; see `reader_of_groups`.
        group_ids: the groups; the values of unknown groups are unknown.
        since: the first point.
        until: the last point.
        points: the number of points.
        every: if given, the points are at whole multiples of it since the epoch, and at `until`,
            so that they are the same for another `until`.
        begins_with_data: whether the history of a group begins with its first sample or commit, if
            that is later than `since`.
    """
    partitions = partition_steps(reader, group_ids, since, until)
    histories = {}
    for group_id in group_ids:
        of_group = partitions.get(group_id, [])
        begin = _first_data(of_group, since, until) if begins_with_data else since
        histories[group_id] = _history(of_group, _grid(begin, until, points, every))
    return histories


def _first_data(partitions: Sequence[PartitionSteps], since: datetime, until: datetime) -> datetime:
    """The time of the first sample or commit of a period; its begin if there is none."""
    since_ms = since.timestamp() * 1000
    commits = [partition.committed.at_ms for partition in partitions]
    # With samples right before the period, the log end is known from its begin.
    firsts = [partition.log.ends.at_ms[0] for partition in partitions if partition.log is not None]
    firsts += [at_ms[at_ms >= since_ms][0] for at_ms in commits if at_ms[-1] >= since_ms]
    if not firsts:
        return since
    first = datetime.fromtimestamp(float(min(firsts)) / 1000, tz=timezone.utc)
    return max(since, min(first, until - _SHORTEST))


def _grid(since: datetime, until: datetime, points: int, every: timedelta | None) -> Floats:
    grid = np.linspace(since.timestamp() * 1000, until.timestamp() * 1000, points)
    if every is not None:
        step_ms = every / timedelta(milliseconds=1)
        grid = np.append(np.arange(grid[0] // step_ms * step_ms, grid[-1], step_ms), grid[-1])
    return grid


def _history(partitions: Sequence[PartitionSteps], grid: Floats) -> LagHistory:
    committed = [partition.committed.at(grid) for partition in partitions]
    is_known = grid <= _known_until_ms(partitions)

    def known(values: Floats) -> list[float | None]:
        return _listed(np.where(is_known, values, np.nan))

    return LagHistory(
        at=[datetime.fromtimestamp(ms / 1000, tz=timezone.utc) for ms in grid],
        lag=known(_sum([partition.lag(grid) for partition in partitions], grid)),
        commit_rate_per_s=known(_rate(committed, grid)),
        produce_rate_per_s=known(
            _rate([partition.log_end(grid) for partition in partitions], grid)
        ),
        consumed=known(_sum([_counted(offsets) for offsets in committed], grid)),
    )


def _known_until_ms(partitions: Sequence[PartitionSteps]) -> float:
    """The time after which nothing is known, because neither samples nor commits were written.

    Each log is confirmed every `CONFIRM_EVERY`, so the samples of all partitions end together.
    """
    sampled = [
        partition.log.ends.at_ms[-1] for partition in partitions if partition.log is not None
    ]
    if not sampled:
        return np.inf
    committed = max(partition.committed.at_ms[-1] for partition in partitions)
    return float(max(committed, max(sampled) + CONFIRM_EVERY / timedelta(milliseconds=1)))


def _counted(committed: Floats) -> Floats:
    """Committed offsets counted from the first one; while an offset is deleted, the last counts."""
    last = np.maximum.accumulate(np.where(np.isnan(committed), -1, np.arange(committed.size)))
    known = last[last >= 0]
    if not known.size:
        return committed
    return np.where(last < 0, np.nan, committed[last] - committed[known[0]])


def _rate(values: Sequence[Floats], grid: Floats) -> Floats:
    """The change per second over each step whose values at both ends are known."""
    per_s = [
        np.concatenate([[np.nan], np.diff(series) / np.diff(grid) * 1000]) for series in values
    ]
    return _sum(per_s, grid)


def _sum(values: Sequence[Floats], grid: Floats) -> Floats:
    if not values:
        return np.full(grid.size, np.nan)
    stacked = np.vstack(values)
    known = ~np.isnan(stacked)
    return np.where(known.any(axis=0), np.nansum(stacked, axis=0), np.nan)


def _listed(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
