"""The lag of every group in each partition: the view `group_lag`.

Offsets, groups, members and pending offsets are those of one snapshot. Log ends come from the
samples in `log_offsets` up to the same time. Rates compare with the snapshot and the samples some
minutes earlier. Only groups in their own log partition count, as a coordinator has them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import nullable, schema_of
from coordinator_state.insight.lag import NO_SAMPLE, TOO_OLD, UNKNOWN, Int64s, Lags, LogHistories
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.lag.last_writes import last_micro_batch, newest_sample
from streaming.lag.offset_samples import Logs, epoch_ms
from streaming.lag.owners import owners
from streaming.lag.rows import GroupLagRow
from streaming.lag.sample_runs import CONFIRM_EVERY
from streaming.tables.reader import TableReader, of_groups
from streaming.tables.schemas import STATE_CURRENT

GROUP_LAG = nullable(schema_of(GroupLagRow))
"""`lag` and the columns derived from the log end are null if the log end is unknown.

`time_lag_unknown` is the reason why `time_lag_ms` is null. `time_lag_at_least_ms` is a lower bound
then, if any sample exists. While nothing is written, both end at the last write. The log end is
never below an offset that was committed after the sample. `pending_producer_id` and
`pending_client_id` are those of the oldest pending commit.
`topic_state` is that of the newest sample, null without a sample.

The rates are the growth of the committed offset and of the log end over the last minutes, in
offsets per second. They are null if the tables do not reach back that far. `time_to_catch_up_ms` is
null unless the committed offset grows faster than the log end, or the lag is 0. The member is the
one to which the partition is assigned.

`known_until` is the time up to which the tables have the commits of the group's log partition. It
is null if the end of that log partition is unknown, or if the tables were already behind its first
sample."""

DEFAULT_HISTORY = timedelta(days=7)
RATE_WINDOWS = (timedelta(minutes=5), timedelta(minutes=1))
"""Rates are over the first of these windows that the tables reach back to."""

# An unchanged log end is sampled again every CONFIRM_EVERY.
_MAX_SAMPLE_AGE = 1.5 * CONFIRM_EVERY
# Most groups have a small time lag, so older samples are read only for the logs of the others.
_WINDOWS = (_MAX_SAMPLE_AGE, timedelta(minutes=10), timedelta(hours=6))
_KEY = ["group_id", "topic", "partition"]
_LOG = ["topic", "partition"]


def group_lag(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    history: timedelta = DEFAULT_HISTORY,
) -> pa.Table:
    """The lag of each committed offset, sorted by group, topic and partition.

    Args:
        reader: the snapshot.
        at: the time of samples and ages; by default that of the snapshot.
        group_ids: only these groups.
        history: how far back samples are read; a longer time lag is null.
    """
    now = at or reader.moment
    committed = _committed(reader, group_ids)
    # The lag of the tables behind `__consumer_offsets` is measured in the same way.
    progress = reader.read("load_progress", ["log_partition", "next_offset"])
    logs = Logs.of(pa.concat_tables([committed.select(_LOG), _own_logs(progress)]))
    first, *further = (*(window for window in _WINDOWS if window < history), history)
    found = logs.histories(reader, since=now - first, until=now)
    is_sampled = found.sampled_at_ms is not None
    of_committed, of_own = np.split(logs.of_rows, [committed.num_rows])
    known_until = _known_until(reader, found, of_own, progress, _ms(now))
    measures = _Measures.unknown(committed.num_rows)
    offsets = committed["committed_offset"].to_numpy()
    measures.measure(np.arange(committed.num_rows), found, of_committed, offsets, _ms(now))
    for window in further:
        why = measures.time_lag_unknown
        rows = np.flatnonzero((why == TOO_OLD) | (why == NO_SAMPLE))
        if not rows.size:
            break
        remaining = Logs.of(committed.take(rows))
        found = remaining.histories(reader, since=now - window, until=now, of_all=False)
        measures.measure(rows, found, remaining.of_rows, offsets[rows], _ms(now))
    if not is_sampled:
        measures.end_time_lags(_unwritten_ms(reader, now))
    measures.raise_log_ends(offsets, epoch_ms(committed["commit_timestamp"]))
    places = pc.index_in(committed["log_partition"], progress["log_partition"])
    arrays = {
        "known_until": known_until.take(places),
        **{name: committed[name] for name in committed.column_names if name in GROUP_LAG.names},
        **measures.columns(),
        **_rates(reader, now, of_groups(group_ids), committed, logs, measures),
        "commit_age_ms": pa.array(_ms(now) - epoch_ms(committed["commit_timestamp"])),
    }
    return pa.table([pc.cast(arrays[f.name], f.type) for f in GROUP_LAG], schema=GROUP_LAG)


TOTALS_BY = {"group": ("group_id",), "topic": ("group_id", "topic")}
_TOTALS = (
    *(("partitions", "partition", "count"), ("partitions_unknown", "is_unknown", "sum")),
    *(("lag", "lag", "sum"), ("max_lag", "lag", "max"), ("data_lost", "data_lost", "sum")),
    *(("lag_to_last_stable", "lag_to_last_stable", "sum"),),
    *(("max_time_lag_ms", "time_lag_ms", "max"),),
    *(("max_time_lag_at_least_ms", "time_lag_at_least_ms", "max"),),
    *(("min_retention_margin_ms", "retention_margin_ms", "min"),),
    *(("commit_rate_per_s", "commit_rate_per_s", "sum"),),
    *(("produce_rate_per_s", "produce_rate_per_s", "sum"),),
    *(("max_time_to_catch_up_ms", "time_to_catch_up_ms", "max"),),
    *(("last_commit_timestamp", "commit_timestamp", "max"),),
    *(("min_commit_age_ms", "commit_age_ms", "min"),),
)


def lag_totals(lags: pa.Table, by: str) -> pa.Table:
    """Sums, maxima and minima of `group_lag` rows, by "group" or by group and "topic".

    A partition with unknown lag counts in `partitions_unknown` and not in the lag. A sum is null if
    all its values are unknown.
    """
    key = TOTALS_BY[by]
    state = lags.group_by(key).aggregate([("group_state", "min")])
    rows = lags.append_column("is_unknown", pc.cast(pc.is_null(lags["lag"]), pa.int64()))
    found = rows.group_by(key).aggregate([(source, function) for _, source, function in _TOTALS])
    found = found.rename_columns([*key, *(name for name, _, _ in _TOTALS)])
    found = found.add_column(len(key), "group_state", state["group_state_min"])
    return found.sort_by([(name, "ascending") for name in key])


@dataclass(frozen=True, slots=True)
class _Measures:
    """The columns that come from samples; rows are filled as their samples are found."""

    offsets: dict[str, Int64s]
    topic_state: Any
    time_lag_unknown: Any

    @classmethod
    def unknown(cls, size: int) -> _Measures:
        names = (*_OF_LOG, "sampled_at_ms", *Lags.__slots__)
        offsets = {name: np.full(size, UNKNOWN, np.int64) for name in names}
        return cls(offsets, np.full(size, None, object), np.full(size, None, object))

    def measure(
        self, rows: Int64s, logs: LogHistories, log: Int64s, committed: Int64s, now_ms: int
    ) -> None:
        """Fill rows from the samples of their logs."""
        self.topic_state[rows] = logs.state[log]
        for name in (*_OF_LOG, "sampled_at_ms"):
            self.offsets[name][rows] = getattr(logs.newest, name)[log]
        lags = logs.lags(log, committed, now_ms)
        for name in Lags.__slots__:
            self.offsets[name][rows] = getattr(lags, name)
        why = logs.unknown[log]
        why[logs.is_known[log] & (lags.time_lag_ms == UNKNOWN)] = TOO_OLD
        self.time_lag_unknown[rows] = why

    def end_time_lags(self, unwritten_ms: int) -> None:
        """Measure time lags to the last write of the tables: they do not grow with its age."""
        for name in ("time_lag_ms", "time_lag_at_least_ms"):
            age_ms = self.offsets[name]
            age_ms[:] = np.where(age_ms > 0, np.maximum(age_ms - unwritten_ms, 0), age_ms)

    def raise_log_ends(self, committed: Int64s, committed_at_ms: Int64s) -> None:
        """Raise log ends to the committed offsets that were committed after the sample."""
        end = self.offsets["log_end_offset"]
        is_newer = (end != UNKNOWN) & (committed_at_ms > self.offsets["sampled_at_ms"])
        proven = np.where(is_newer, np.maximum(end, committed), end)
        stable = self.offsets["last_stable_offset"]
        # Without an open transaction, both are the same.
        self.offsets["last_stable_offset"] = np.where(stable == end, proven, stable)
        self.offsets["log_end_offset"] = proven

    def columns(self) -> dict[str, pa.Array]:
        """The columns, with null for unknown values."""
        found = {name: _nullable(values) for name, values in self.offsets.items()}
        found["sampled_at"] = pc.cast(found.pop("sampled_at_ms"), pa.timestamp("ms", "UTC"))
        found["topic_state"] = pa.array(self.topic_state, pa.string())
        found["time_lag_unknown"] = pa.array(self.time_lag_unknown, pa.string())
        return found


def _unwritten_ms(reader: TableReader, now: datetime) -> int:
    """The time since the last micro-batch or sample."""
    writes = last_micro_batch(reader, now), newest_sample(reader, now)
    written_at = max(filter(None, writes), default=now)
    return max(_ms(now) - _ms(written_at), 0)


def tables_known_until(reader: TableReader, at: datetime | None = None) -> pa.Table:
    """Log partitions with `known_until`, the time up to which the tables have their records.

    If the newest samples are not enough, samples of up to six hours are read. `is_sampled` says
    whether the log partition has a recent sample.
    """
    now = at or reader.moment
    progress = reader.read("load_progress", ["log_partition", "next_offset"])
    logs = Logs.of(_own_logs(progress))
    is_sampled = None
    for window in _WINDOWS:
        found = logs.histories(reader, since=now - window, until=now)
        is_sampled = found.is_known[logs.of_rows] if is_sampled is None else is_sampled
        moments = _known_until(reader, found, logs.of_rows, progress, _ms(now))
        # Older samples only help log partitions that have recent samples and are behind.
        if not (pc.is_null(moments).to_numpy() & is_sampled).any():
            break
    rows = progress.select(["log_partition"]).append_column("known_until", moments)
    return rows.append_column("is_sampled", pa.array(is_sampled))


def _own_logs(progress: pa.Table) -> pa.Table:
    topic = pa.repeat(pa.scalar(OFFSETS_TOPIC), progress.num_rows)
    return pa.table([topic, progress["log_partition"]], names=_LOG)


def _known_until(
    reader: TableReader, logs: LogHistories, log: Int64s, progress: pa.Table, now_ms: int
) -> pa.ChunkedArray:
    """The time up to which the tables have each log partition; null if unknown.

    Rebuilt tables have every record up to their moment, whenever `run` read it.
    """
    behind = logs.lags(log, progress["next_offset"].to_numpy(), now_ms)
    sampled_at_ms = UNKNOWN if logs.sampled_at_ms is None else logs.sampled_at_ms
    moments = np.where(behind.lag == 0, sampled_at_ms, now_ms - behind.time_lag_ms)
    if reader.rebuilt_from is not None:
        moments[:] = now_ms
    moments[(behind.lag == UNKNOWN) | (behind.time_lag_ms == UNKNOWN)] = UNKNOWN
    return pa.chunked_array([pc.cast(_nullable(moments), pa.timestamp("ms", "UTC"))])


_OF_PENDING = ("producer_id", "client_id")
_PENDING = ("pending_offset", "pending_since", *(f"pending_{name}" for name in _OF_PENDING))
_OF_LOG = ("log_start_offset", "last_stable_offset", "log_end_offset")


def _committed(reader: TableReader, group_ids: Collection[str] | None) -> pa.Table:
    """Committed offsets of existing groups, with the group, the owner and the pending offset."""
    wanted = of_groups(group_ids)
    groups = reader.own("groups", ["log_partition", "group_id", "group_type", "state"], group_ids)
    groups = groups.rename_columns(["log_partition", "group_id", "group_type", "group_state"])
    columns = ["log_partition", *_KEY, "committed_offset", "commit_timestamp"]
    offsets = reader.read("group_offsets", columns, wanted)
    pending = reader.read("pending_offsets", [*columns, *_OF_PENDING], wanted)
    pending = pending.sort_by("commit_timestamp").group_by(columns[:4], use_threads=False)
    pending = pending.aggregate(
        [
            *(("committed_offset", "max"), ("commit_timestamp", "min")),
            *((name, "first") for name in _OF_PENDING),
        ]
    )
    pending = pending.rename_columns([*columns[:4], *_PENDING])
    found = offsets.join(groups, ["log_partition", "group_id"], join_type="inner")
    found = found.join(pending, ["log_partition", *_KEY], join_type="left outer")
    found = _with_owners(found, owners(reader, wanted))
    return found.sort_by([(name, "ascending") for name in _KEY]).combine_chunks()


def _with_owners(found: pa.Table, assigned: pa.Table) -> pa.Table:
    """The rows with the member of each partition.

    The join has only row numbers: one that carried the names took five times as long.
    """
    key = ["log_partition", *_KEY]
    numbered = assigned.select(key).append_column("owner", pa.array(np.arange(len(assigned))))
    found = found.join(numbered, key, join_type="left outer")
    of_rows = assigned.drop_columns(key).take(found["owner"])
    for name, column in zip(of_rows.column_names, of_rows.columns, strict=True):
        found = found.append_column(name, column)
    return found.drop_columns("owner")


def _rates(
    reader: TableReader,
    now: datetime,
    wanted: pc.Expression | None,
    committed: pa.Table,
    logs: Logs,
    measures: _Measures,
) -> dict[str, pa.Array]:
    """The growth rates of committed offsets and log ends, and the time to catch up."""
    commit_rate = np.full(committed.num_rows, np.nan)
    produce_rate = commit_rate.copy()
    for window in RATE_WINDOWS:
        before = reader.before(now - window)
        if before is None:
            continue
        moved = committed["committed_offset"].to_numpy() - _committed_in(before, wanted, committed)
        commit_rate = moved / window.total_seconds()
        then = logs.histories(reader, since=now - window - _MAX_SAMPLE_AGE, until=now - window)
        of_rows = logs.of_rows[: committed.num_rows]
        grown = measures.offsets["log_end_offset"] - then.newest.log_end_offset[of_rows]
        took_ms = measures.offsets["sampled_at_ms"] - then.newest.sampled_at_ms[of_rows]
        is_known = then.is_known[of_rows] & (measures.offsets["sampled_at_ms"] != UNKNOWN)
        is_known &= (grown >= 0) & (took_ms > 0)
        produce_rate[is_known] = 1000 * grown[is_known] / took_ms[is_known]
        break
    lag = measures.offsets["lag"]
    faster_by = commit_rate - produce_rate
    is_closing = (lag > 0) & (faster_by > 0)
    catch_up_ms = np.where(lag == 0, 0, UNKNOWN)
    catch_up_ms[is_closing] = 1000 * lag[is_closing] / faster_by[is_closing]
    return {
        "commit_rate_per_s": pa.array(commit_rate, from_pandas=True),
        "produce_rate_per_s": pa.array(produce_rate, from_pandas=True),
        "time_to_catch_up_ms": _nullable(catch_up_ms),
    }


def _committed_in(
    before: TableReader, wanted: pc.Expression | None, committed: pa.Table
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The committed offsets of the same keys in an earlier snapshot; NaN if it has none."""
    key = ["log_partition", *_KEY]
    loaded = [p for p, log in before.load_states.items() if log.state == STATE_CURRENT]
    then = before.read("group_offsets", [*key, "committed_offset"], wanted)
    then = then.filter(pc.is_in(then["log_partition"], pa.array(loaded, pa.int32())))
    then = then.rename_columns([*key, "then"])
    rows = committed.select(key).append_column("row", pa.array(np.arange(committed.num_rows)))
    found = rows.join(then, key, join_type="inner")
    offsets = np.full(committed.num_rows, np.nan)
    offsets[found["row"].to_numpy()] = found["then"].to_numpy()
    return offsets


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _nullable(values: Any) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == UNKNOWN)
