"""The history of one log, without that of a log that had the same record offsets before or later.

A log partition that was truncated, or recreated with its topic, has other records at the same
record offsets afterwards. Its reload gives rows of history the outcome `lost` if the log no longer
has their records. For readers of an earlier moment these rows are right, and later rows are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import Mask, epoch_us, numbers, per_row, time_of
from coordinator_state.apply.past import LOST, PLACE, HistoryAfter

_LAST: int = np.iinfo(np.int64).max
_FIRST: int = np.iinfo(np.int64).min
_RECORD = ("record_offset", "record_timestamp")
_OUTCOME = ("outcome_record_offset", "outcome_timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLog:
    """The history that follows a base in the log that the base was loaded from.

    Attributes:
        history: the rows of that log.
        until: the time of the first record of a later log; None without such a record.
        lost: the log partitions that lost records later. Transactions that were open then, and
            outcomes of lost transactional commits, are not known.
    """

    history: HistoryAfter
    until: datetime | None = None
    lost: frozenset[int] = frozenset()


def of_one_log(
    history: HistoryAfter, reloaded_at: Mapping[int, datetime], reloading: Collection[int] = ()
) -> OneLog:
    """The history of the log that a base was loaded from.

    Args:
        history: the history after the base.
        reloaded_at: for log partitions of the base, the end of the last reload before it. Records
            that were lost earlier belong to an earlier log.
        reloading: the log partitions that are being reloaded; their newest pending offsets are
            those before the reload.
    """
    since = {p: epoch_us(at) for p, at in reloaded_at.items()}
    commits = _without_earlier_logs(history.commits, _OUTCOME, since)
    records = _without_earlier_logs(history.group_records, _RECORD, since)
    first, last = _ranges((commits, *_OUTCOME), (records, *_RECORD))
    if not first:
        return OneLog(history=replace(history, commits=commits, group_records=records))

    def is_later(rows: pa.Table, offset: str, timestamp: str) -> Mask:
        is_behind = numbers(rows[offset]) >= per_row(rows, first, _LAST)
        is_after = _times(rows[timestamp]) > per_row(rows, last, _LAST)
        later: Mask = ~_is_lost(rows) & (is_behind | is_after)
        return later

    is_frozen = pc.is_in(history.pending["log_partition"], pa.array(list(reloading), pa.int32()))
    pending, frozen = (history.pending.filter(mask) for mask in (pc.invert(is_frozen), is_frozen))
    of_rows = [
        (rows, timestamp, is_later(rows, offset, timestamp))
        for rows, (offset, timestamp) in (
            (commits, _RECORD),
            (commits, _OUTCOME),
            (records, _RECORD),
            (pending, _RECORD),
        )
    ]
    starts = [_times(rows[timestamp])[mask] for rows, timestamp, mask in of_rows]
    # A record offset that was lost twice: which of the two logs had it when is not known.
    starts += [
        _times(rows["record_timestamp"])[_is_lost_twice(rows)] for rows in (commits, records)
    ]
    times = np.concatenate(starts)
    times = times[times > _FIRST]
    later_record, later_outcome, later_group_record, later_pending = (mask for *_, mask in of_rows)
    commits = commits.filter(pa.array(~(later_record | later_outcome)))
    pending = pa.concat_tables([pending.filter(pa.array(~later_pending)), frozen])
    return OneLog(
        history=HistoryAfter(
            commits=commits,
            group_records=records.filter(pa.array(~later_group_record)),
            # A commit whose marker was lost is pending again.
            pending=pending.join(commits.select(PLACE), PLACE, join_type="left anti")
            .select(pending.column_names)
            .cast(pending.schema),
        ),
        until=time_of(int(times.min())) if len(times) else None,
        lost=frozenset(first),
    )


def _without_earlier_logs(
    rows: pa.Table, effect: tuple[str, str], since_us: Mapping[int, int]
) -> pa.Table:
    is_earlier = _is_lost(rows) & (_times(rows[effect[1]]) <= per_row(rows, since_us, _FIRST))
    return rows.filter(pa.array(~is_earlier)) if is_earlier.any() else rows


def _ranges(*effects: tuple[pa.Table, str, str]) -> tuple[dict[int, int], dict[int, int]]:
    """For each log partition, the first lost record offset and the time of the last lost record."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for rows, offset, timestamp in effects:
        lost = rows.filter(pa.array(_is_lost(rows))).group_by("log_partition")
        for row in lost.aggregate([(offset, "min"), (timestamp, "max")]).to_pylist():
            p, at, time = row["log_partition"], row[f"{offset}_min"], row[f"{timestamp}_max"]
            time_us = _FIRST if time is None else epoch_us(time)
            first[p] = min(at, first.get(p, at))
            last[p] = max(time_us, last.get(p, time_us))
    return first, last


def _is_lost(rows: pa.Table) -> Mask:
    if "outcome" not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    mask: Mask = numbers(pc.fill_null(pc.equal(rows["outcome"], LOST), False))
    return mask


def _is_lost_twice(rows: pa.Table) -> Mask:
    """The lost rows whose record offset another lost row has, too."""
    mask = np.zeros(rows.num_rows, np.bool_)
    lost = np.flatnonzero(_is_lost(rows))
    places = np.column_stack([numbers(rows[name])[lost] for name in PLACE]).astype(np.int64)
    _, index, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    mask[lost] = counts[index.reshape(-1)] > 1
    return mask


def _times(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Times in microseconds; a row without a time is before all others."""
    times_us: npt.NDArray[np.int64] = pc.fill_null(pc.cast(column, pa.int64()), _FIRST).to_numpy()
    return times_us
