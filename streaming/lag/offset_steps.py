"""Committed offsets and log ends over time, by group and partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.insight.lag import UNKNOWN, Int64s
from coordinator_state.replay.offsets import Outcome
from streaming.lag.offset_samples import Logs, epoch_ms
from streaming.lag.sample_runs import CONFIRM_EVERY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS, LOG_OFFSETS, OFFSET_COMMITS

Floats: TypeAlias = npt.NDArray[np.float64]

_KNOWN_FOR: Final = 2 * CONFIRM_EVERY
"""The log end counts as unknown after this time without a sample."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Values that hold until the next one, in the order of time; NaN if there is none."""

    at_ms: Floats
    values: Floats

    def at(self, grid: Floats) -> Floats:
        """The last value at or before each point of a grid."""
        indices = np.searchsorted(self.at_ms, grid, side="right") - 1
        return np.where(indices < 0, np.nan, self.values[np.maximum(indices, 0)])


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Samples of a log end, and of the number of offsets without a record right before it."""

    ends: Steps
    markers: Steps

    def at(self, grid: Floats) -> Floats:
        """The log end at each point of a grid, interpolated between two samples.

        It is unknown between a sample without it and the samples beside that one.
        """
        times = self.ends.at_ms
        log_ends = np.interp(grid, times, self.ends.values, left=np.nan)
        log_ends[grid > times[-1] + _KNOWN_FOR / timedelta(milliseconds=1)] = np.nan
        return log_ends


@dataclass(frozen=True, slots=True)
class PartitionSteps:
    """The committed offsets of a group in a partition, and the log ends; None without samples."""

    committed: Steps
    log: LogEnds | None

    def log_end(self, grid: Floats) -> Floats:
        """The log end at each point of a grid."""
        return np.full(grid.size, np.nan) if self.log is None else self.log.at(grid)

    def lag(self, grid: Floats) -> Floats:
        """The lag at each point of a grid."""
        markers = 0.0 if self.log is None else np.nan_to_num(self.log.markers.at(grid))
        return np.maximum(self.log_end(grid) - markers - self.committed.at(grid), 0)


def partition_steps(
    reader: TableReader, group_ids: Collection[str], since: datetime, until: datetime
) -> Mapping[str, list[PartitionSteps]]:
    """The partitions of each group with committed offsets in a period; reads each table once."""
    rows = _committed(reader, group_ids, since, until)
    logs = Logs.of(rows)
    log_ends = dict(_log_ends(reader, logs, since, until))
    groups = rows["group_id"].combine_chunks().dictionary_encode()
    keys = groups.indices.to_numpy().astype(np.int64) * len(logs) + logs.of_rows
    steps_by_group: dict[str, list[PartitionSteps]] = {
        name: [] for name in groups.dictionary.to_pylist()
    }
    names = list(steps_by_group)
    for key, (at_ms, offsets) in _by_key(keys, epoch_ms(rows["at"]), _floats(rows["offset"])):
        group, log = divmod(key, len(logs))
        steps_by_group[names[group]].append(
            PartitionSteps(Steps(at_ms, offsets), log_ends.get(log))
        )
    return steps_by_group


def _committed(
    reader: TableReader, group_ids: Collection[str], since: datetime, until: datetime
) -> pa.Table:
    """Committed offsets at the begin of a period, in it, and at its end; null if deleted."""
    columns = ["topic", "partition", "committed_offset"]
    # The snapshot before the period may lack commits that `run` read later.
    first = since - _KNOWN_FOR
    history = reader.read(
        OFFSET_COMMITS.name,
        [*columns, "group_id", "record_timestamp", "is_tombstone"],
        [
            *(("day", ">=", first.date()), ("record_timestamp", ">=", first)),
            *(("record_timestamp", "<=", until), ("outcome", "=", Outcome.COMMITTED.value)),
            ("group_id", "in", sorted(group_ids)),
        ],
    )
    nothing = pa.scalar(None, pa.int64())
    offsets = pc.if_else(history["is_tombstone"], nothing, history["committed_offset"])
    rows = [_rows(history, history["record_timestamp"], offsets)]
    for snapshot in (reader.before(since), reader):
        if snapshot is not None:
            state = snapshot.own(GROUP_OFFSETS.name, [*columns, "commit_timestamp"], group_ids)
            rows.append(_rows(state, state["commit_timestamp"], state["committed_offset"]))
    return pa.concat_tables(rows)


_ROWS: Final = pa.schema(
    [
        *(("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())),
        *(("at", TIMESTAMP), ("offset", pa.int64())),
    ]
)


def _rows(rows: pa.Table, at: Any, offset: Any) -> pa.Table:
    keys = [rows[name] for name in ("group_id", "topic", "partition")]
    return pa.table([*keys, at, offset], schema=_ROWS)


def _log_ends(
    reader: TableReader, logs: Logs, since: datetime, until: datetime
) -> Iterator[tuple[int, LogEnds]]:
    """The number of each partition with samples, and its log ends."""
    first = since - _KNOWN_FOR
    rows = reader.read(
        LOG_OFFSETS.name,
        ["topic", "partition", "sampled_at", "log_end_offset", "end_markers"],
        [
            *(("day", ">=", first.date()), ("day", "<=", until.date())),
            *(("sampled_at", ">=", first), ("sampled_at", "<=", until)),
            ("topic", "in", logs.topics.to_pylist() or [""]),
        ],
    )
    numbers = logs.numbers(rows)
    is_wanted = numbers != UNKNOWN
    rows, numbers = rows.filter(pa.array(is_wanted)), numbers[is_wanted]
    values = [_floats(rows[name]) for name in ("log_end_offset", "end_markers")]
    for number, (at_ms, ends, markers) in _by_key(numbers, epoch_ms(rows["sampled_at"]), *values):
        yield number, LogEnds(Steps(at_ms, ends), Steps(at_ms, markers))


def _by_key(keys: Int64s, *columns: Any) -> Iterator[tuple[int, list[Floats]]]:
    """The rows of each key, in the order of the first column."""
    order = np.lexsort((columns[0], keys))
    unique_keys, firsts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    for key, first, count in zip(unique_keys, firsts, counts, strict=True):
        rows = order[first : first + count]
        yield int(key), [column[rows].astype(np.float64) for column in columns]


def _floats(column: Any) -> Floats:
    # An offset beyond 2^53 is rounded, as clients may commit any number.
    floats: Floats = pc.cast(column, pa.float64(), safe=False).to_numpy().astype(np.float64)
    return floats
