"""The lag of every group in each partition: the view `group_lag`.

Offsets, groups, members and pending offsets are those of one snapshot. Log ends come from the
samples in `log_offsets` up to the same time. Rates compare with the snapshot and the samples some
minutes earlier. Only groups in their own log partition count, as a coordinator has them.

The rows of share groups come from `share_partitions`; `streaming.lag.share_offsets` has their
rules.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import (
    NOWHERE,
    TIMESTAMP,
    nullable,
    positions,
    schema_of,
    with_matches,
)
from coordinator_state.insight.lag import (
    GONE,
    NO_DELIVERY_COUNT,
    NO_SAMPLE,
    NO_START_OFFSET,
    PRESENT,
    TOO_OLD,
    UNKNOWN,
    Bools,
    Int64s,
    Lags,
    LogHistories,
)
from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator_state.replay.groups import EMPTY, EXTERNAL, NO_RECORD_OFFSET, SHARE
from streaming.lag.deleted_topics import KnownTopics, gone_since_ms, recreated_at_ms
from streaming.lag.last_writes import last_micro_batch, newest_sample
from streaming.lag.offset_samples import Logs, null_if_unknown, to_ms
from streaming.lag.owners import owners
from streaming.lag.sample_runs import MAX_SAMPLE_AGE
from streaming.lag.share_offsets import (
    NO_LOG_PARTITION,
    ShareRows,
    share_offsets,
    share_progress,
    start_offsets,
)
from streaming.lag.uncommitted import KnownBeginnings, uncommitted_partitions
from streaming.tables.clock import moment_ms
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.tables.rows import LagRow
from streaming.tables.schemas import STATE_CURRENT

LAG_ROW = nullable(schema_of(LagRow))
"""`lag` and the columns derived from the log end are null if the log end is unknown.

The committed offset of a share group is its start offset, null if that is not initialized. The lag
is unknown without a delivery complete count.

A partition that a group reads without a committed offset has the records since `uncommitted_since`
as its lag, see `streaming.lag.uncommitted`. Its commit rate is 0, and nothing of it is lost.

`time_lag_unknown` is the reason why `time_lag_ms` is null. `time_lag_at_least_ms` is a lower bound
then, if any sample exists. While nothing is written, both end at the last write. The log end is
at least an offset that was committed after the last sample. `pending_producer_id` and
`pending_client_id` are those of the oldest pending commit.
`topic_state` is that of the newest sample, null without a sample.

The rates are the growth of the committed offset and of the log end over the last minutes, in
offsets per second. They are null if the tables do not reach back that far. `time_to_catch_up_ms` is
null unless the committed offset grows faster than the log end, or the lag is 0. The member is the
one to which the partition is assigned.

`known_until` is the time up to which the tables have the commits of the group's log partition. It
is null if the end of that log partition is unknown, or if the tables were already behind its first
sample."""


@dataclass(slots=True)
class KnownLogs:
    """What earlier evaluations have found in the samples of days."""

    beginnings: KnownBeginnings = field(default_factory=KnownBeginnings)
    topics: KnownTopics = field(default_factory=KnownTopics)


DEFAULT_HISTORY = timedelta(days=7)
RATE_WINDOWS = (timedelta(minutes=5), timedelta(minutes=1))
"""Rates are over the first of these windows that the tables reach back to."""

# Most groups have a small time lag, so older samples are read only for the logs of the others.
_WINDOWS = (MAX_SAMPLE_AGE, timedelta(minutes=10), timedelta(hours=6))
_CLOCK_ERROR_MS: Final = 8_000
"""So well is the skew of the brokers' clock known."""
_KEY = ["group_id", "topic", "partition"]
_LOG = ["topic", "partition"]
_OF_LOG: Final = ("log_start_offset", "last_stable_offset", "log_end_offset")


def group_lag(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    history: timedelta = DEFAULT_HISTORY,
    known: KnownLogs | None = None,
) -> pa.Table:
    """The lag of groups in the partitions that they read, sorted by group, topic and partition.

    Args:
        reader: the snapshot.
        at: the time of samples and ages; by default that of the snapshot.
        group_ids: only these groups.
        history: how far back samples are read; a longer time lag is null.
        known: what an earlier evaluation has found.
    """
    now, known = at or reader.moment, known or KnownLogs()
    committed = _committed(reader, now, group_ids, known.beginnings)
    shares = ShareRows.of(committed)
    # The lag of the tables behind `__consumer_offsets` is measured in the same way.
    progress = _progress(reader, with_shares=shares is not None)
    logs = Logs.of(pa.concat_tables([committed.select(_LOG), progress.select(_LOG)]))
    first, *further = (*(window for window in _WINDOWS if window < history), history)
    histories = logs.histories(reader, since=now - first, until=now)
    sampled_at_ms = histories.sampled_at_ms
    read_logs, own_logs = np.split(logs.of_rows, [committed.num_rows])
    known_until = _known_until(reader, histories, own_logs, progress, moment_ms(now))
    measures = _Measures.unknown(committed.num_rows)
    offsets, delivered = committed["committed_offset"].fill_null(UNKNOWN).to_numpy(), None
    if shares is not None:
        offsets, delivered = shares.first_undelivered, shares.delivered
    unread_from = committed["unread_from"].fill_null(UNKNOWN).to_numpy()
    is_uncommitted = pc.is_valid(committed["unread_from"]).to_numpy()
    # Deleted records were perhaps read before.
    unread_from = np.maximum(unread_from, histories.newest.log_start_offset[read_logs])
    offsets = np.where(is_uncommitted, unread_from, offsets)
    is_left = committed["is_left"].fill_null(False).to_numpy()

    def measure(rows: Int64s, samples: LogHistories, log: Int64s) -> None:
        counts = None if delivered is None else delivered[rows]
        measures.measure(rows, samples, log, offsets[rows], moment_ms(now), counts, is_left[rows])

    measure(np.arange(committed.num_rows), histories, read_logs)
    if shares is not None:
        measures.forget(shares.has_no_count & ~shares.has_no_start, NO_DELIVERY_COUNT)
        measures.forget(shares.has_no_start & ~is_uncommitted, NO_START_OFFSET)
    # The times of external groups are of the clock of `run`.
    times = committed["commit_timestamp"]
    times = pc.if_else(pc.equal(committed["group_type"], EXTERNAL), times, reader.own_times(times))
    committed_ms = to_ms(times)
    recreated_ms = _recreated_at_ms(
        reader, now, committed, committed_ms, histories, read_logs, measures, known.topics
    )
    is_of_old = recreated_ms != UNKNOWN
    if is_of_old.any():
        rows = np.flatnonzero(is_of_old)
        offsets[rows] = histories.newest.log_start_offset[read_logs[rows]]
        measure(rows, histories, read_logs[rows])
    is_uncommitted |= is_of_old
    for window in further:
        why = measures.time_lag_unknown
        rows = np.flatnonzero((why == TOO_OLD) | (why == NO_SAMPLE))
        if not rows.size:
            break
        remaining = Logs.of(committed.take(rows))
        histories = remaining.histories(reader, since=now - window, until=now, of_all=False)
        measure(rows, histories, remaining.of_rows)
    if sampled_at_ms is None:
        measures.end_time_lags(_unwritten_ms(reader, now))
    read_up_to = offsets if delivered is None else offsets + delivered
    beyond = measures.is_beyond_end(read_up_to)
    if beyond.any():
        # The log had grown when the group read it, unless the end was sampled after the commit.
        is_share = pc.equal(committed["group_type"], SHARE).to_numpy()
        latest_ms = committed_ms.fill_null(UNKNOWN).to_numpy() + np.where(
            is_share, 0, _CLOCK_ERROR_MS
        )
        # The last known end of a log that cannot be sampled now is from before the commit.
        is_later = (latest_ms > (sampled_at_ms or 0)) | (measures.topic_state != PRESENT)
        measures.raise_log_ends(beyond & is_later, read_up_to)
    arrays = {
        "known_until": _of_rows(known_until, committed, progress, shares),
        **{name: committed[name] for name in committed.column_names if name in LAG_ROW.names},
        **measures.columns(),
        **_rates(
            *(reader, now, of_groups(group_ids), committed, logs, measures),
            *(shares, is_uncommitted),
        ),
        "commit_age_ms": pc.max_element_wise(
            pc.subtract(moment_ms(now), committed_ms), 0, skip_nulls=False
        ),
    }
    since = pc.if_else(
        pa.array(is_of_old),
        pa.array(recreated_ms).cast(pa.timestamp("ms", "UTC")).cast(TIMESTAMP),
        committed["uncommitted_since"],
    )
    is_recreated = pc.or_(committed["is_recreated"].fill_null(False), pa.array(is_of_old))
    arrays["uncommitted_since"] = since
    arrays["recreated_at"] = pc.if_else(is_recreated, since, None)
    arrays["gone_since"] = _gone_since(reader, now, committed, measures, known.topics)
    is_lag_known = pc.is_valid(arrays["lag"])
    arrays["is_lag_lower_bound"] = pc.if_else(
        is_lag_known, committed["is_lag_lower_bound"].fill_null(False), None
    )
    if shares is not None:
        arrays["committed_offset"] = pc.if_else(
            pa.array(shares.has_no_start), None, committed["committed_offset"]
        )
    return pa.table([pc.cast(arrays[f.name], f.type) for f in LAG_ROW], schema=LAG_ROW)


def _recreated_at_ms(
    reader: TableReader,
    now: datetime,
    committed: pa.Table,
    committed_ms: Any,
    histories: LogHistories,
    log: Int64s,
    measures: _Measures,
    known: KnownTopics,
) -> Int64s:
    """The time at which the topic of each committed offset was created again; or `UNKNOWN`."""
    topic_ids = histories.newest.topic_id[log]
    is_committed = pc.and_not(
        pc.greater_equal(committed["committed_offset"], 0).fill_null(False),
        pc.equal(committed["group_type"], SHARE),
    ).to_numpy()
    times_ms = committed_ms.fill_null(UNKNOWN).to_numpy()
    is_suspect = (measures.offsets["lag"] > 0) | measures.is_beyond_end(
        committed["committed_offset"].fill_null(UNKNOWN).to_numpy()
    )
    # A recreation since then is among the samples that were read.
    is_suspect &= times_ms < moment_ms(now - MAX_SAMPLE_AGE)
    is_suspect |= histories.recreated_at_ms[log] != UNKNOWN
    of_commits = committed["topic_id"]
    if of_commits.null_count < len(of_commits):
        known_ids = pa.array(topic_ids, pa.string(), mask=topic_ids == UNKNOWN)
        is_suspect |= pc.not_equal(of_commits, known_ids).fill_null(False).to_numpy()
    is_suspect &= is_committed & (times_ms < histories.newest.sampled_at_ms[log])
    rows = committed.select(["topic", "partition", "committed_offset", "topic_id"])
    rows = rows.append_column("committed_ms", pa.array(times_ms))
    return recreated_at_ms(reader, now, rows, topic_ids, is_suspect, known)


def _gone_since(
    reader: TableReader,
    now: datetime,
    committed: pa.Table,
    measures: _Measures,
    known: KnownTopics,
) -> pa.Array:
    """The time since which the topic of each row is gone; null if it exists, or if unknown."""
    topics = committed["topic"].filter(pa.array(measures.topic_state == GONE))
    times = gone_since_ms(reader, now, pc.unique(topics).to_pylist(), known)
    names, times_ms = pa.array([*times], pa.string()), null_if_unknown(np.array([*times.values()]))
    at_ms = times_ms.take(pc.index_in(committed["topic"], names).combine_chunks())
    return at_ms.cast(pa.timestamp("ms", "UTC"))


@dataclass(frozen=True, slots=True)
class _Measures:
    """Values by row, `UNKNOWN` at first; rows are filled as their samples are found."""

    offsets: dict[str, Int64s]
    topic_state: Any
    time_lag_unknown: Any

    @classmethod
    def unknown(cls, size: int) -> _Measures:
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
        is_left: Bools,
    ) -> None:
        """Fill rows from the samples of their logs."""
        self.topic_state[rows] = logs.state[log]
        for name in (*_OF_LOG, "sampled_at_ms"):
            self.offsets[name][rows] = getattr(logs.newest, name)[log]
        lags = logs.lags(log, committed, now_ms, delivered, is_left)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LagTotalsRow:
    """A row of `lag_totals`; the columns of a group lack `topic`."""

    group_id: str
    topic: str | None = None
    group_state: str
    partitions: int
    partitions_unknown: int
    is_lag_lower_bound: bool | None
    lag: int | None
    max_lag: int | None
    data_lost: int | None
    lag_to_last_stable: int | None
    max_time_lag_ms: int | None
    max_time_lag_at_least_ms: int | None
    min_retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    max_time_to_catch_up_ms: int | None
    last_commit_timestamp: datetime | None
    min_commit_age_ms: int | None


TOTALS_BY = {"group": ("group_id",), "topic": ("group_id", "topic")}
_TOTALS = (
    *(("partitions", "partition", "count"), ("partitions_unknown", "is_unknown", "sum")),
    *(("is_lag_lower_bound", "is_lag_lower_bound", "max"),),
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
    totals = rows.group_by(key).aggregate([(source, function) for _, source, function in _TOTALS])
    totals = totals.rename_columns([*key, *(name for name, _, _ in _TOTALS)])
    totals = totals.add_column(len(key), "group_state", state["group_state_min"])
    return totals.sort_by([(name, "ascending") for name in key])


def _unwritten_ms(reader: TableReader, now: datetime) -> int:
    """The time since the last micro-batch or sample."""
    writes = last_micro_batch(reader, now), newest_sample(reader, now)
    written_at = max(filter(None, writes), default=now)
    return max(moment_ms(now) - moment_ms(written_at), 0)


def tables_known_until(reader: TableReader, at: datetime | None = None) -> pa.Table:
    """Log partitions with `known_until`, the time up to which the tables have their records.

    If the newest samples are not enough, samples of up to six hours are read. `is_sampled` says
    whether the log partition has a recent sample.
    """
    now = at or reader.moment
    progress = _progress(reader)
    logs = Logs.of(progress)
    is_sampled = None
    for window in _WINDOWS:
        histories = logs.histories(reader, since=now - window, until=now)
        is_sampled = histories.is_known[logs.of_rows] if is_sampled is None else is_sampled
        moments = _known_until(reader, histories, logs.of_rows, progress, moment_ms(now))
        # Older samples only help log partitions that have recent samples and are behind.
        if not (pc.is_null(moments).to_numpy() & is_sampled).any():
            break
    rows = progress.select(["partition"]).rename_columns(["log_partition"])
    rows = rows.append_column("known_until", moments)
    return rows.append_column("is_sampled", pa.array(is_sampled))


def _progress(reader: TableReader, *, with_shares: bool = False) -> pa.Table:
    """`topic`, `partition` and `next_offset` of each log partition of `__consumer_offsets`.

    With shares, those of `__share_group_state` follow.
    """
    progress_by_topic = {
        OFFSETS_TOPIC: reader.read("load_progress", ["log_partition", "next_offset"])
    }
    if with_shares:
        progress_by_topic[SHARE_STATE_TOPIC] = share_progress(reader)
    return pa.concat_tables(
        pa.table(
            [
                pa.repeat(pa.scalar(topic), rows.num_rows),
                *(rows[name] for name in ("log_partition", "next_offset")),
            ],
            names=[*_LOG, "next_offset"],
        )
        for topic, rows in progress_by_topic.items()
    ).combine_chunks()


def _of_rows(
    known_until: pa.ChunkedArray, committed: pa.Table, progress: pa.Table, shares: ShareRows | None
) -> Any:
    """The time of the row of `_progress` that has each committed offset; null without one."""
    is_share = pc.equal(progress["topic"], SHARE_STATE_TOPIC)
    own = progress.filter(pc.invert(is_share))["partition"].combine_chunks()
    places = pc.index_in(committed["log_partition"], own)
    if shares is None:
        return known_until.take(places)
    of_shares = progress.filter(is_share)["partition"].combine_chunks()
    after_own = pc.add(pc.index_in(committed["log_partition"], of_shares), len(own))
    places = pc.if_else(pa.array(shares.is_share), after_own, places)
    # The state of a share partition without a record may come in any of them.
    first = pc.min(known_until.filter(is_share), skip_nulls=False)
    is_anywhere = pc.equal(committed["log_partition"], NO_LOG_PARTITION)
    return pc.if_else(is_anywhere, first, known_until.take(places))


def _known_until(
    reader: TableReader, logs: LogHistories, log: Int64s, progress: pa.Table, now_ms: int
) -> pa.ChunkedArray:
    """The time up to which the tables have each log partition; null if unknown.

    Rebuilt tables have every record up to their moment, whenever `run` read it.
    """
    behind = logs.lags(log, progress["next_offset"].to_numpy(), now_ms)
    sampled_at_ms = UNKNOWN if logs.sampled_at_ms is None else logs.sampled_at_ms
    moments = np.where(behind.lag == 0, sampled_at_ms, now_ms - behind.time_lag_ms)
    is_unknown = behind.lag == UNKNOWN
    if reader.rebuilt_from is None:
        is_unknown |= behind.time_lag_ms == UNKNOWN
    else:
        # A marker at the end of a log partition counts as lag here, and may be hours old.
        moments[:] = now_ms
    moments[is_unknown] = UNKNOWN
    return pa.chunked_array([pc.cast(null_if_unknown(moments), pa.timestamp("ms", "UTC"))])


_OF_PENDING = ("producer_id", "client_id")
_PENDING = ("pending_offset", "pending_since", *(f"pending_{name}" for name in _OF_PENDING))


def _committed(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    known: KnownBeginnings,
) -> pa.Table:
    """Committed offsets of existing groups, with the group, the owner and the pending offset.

    Partitions that a group reads without a committed offset follow, with the columns of
    `UNCOMMITTED`, which are null for the others. The rows of share groups are their
    `share_offsets`. A column `delivered` exists only with them.
    """
    wanted = of_groups(group_ids)
    own_groups = reader.own("groups", [*_OF_GROUP, "record_offset"], group_ids)
    all_groups = own_groups.select([*_OF_GROUP])
    groups = all_groups.select(["log_partition", "group_id", "group_type", "state"])
    groups = groups.rename_columns(["log_partition", "group_id", "group_type", "group_state"])
    is_share = pc.equal(groups["group_type"], SHARE)
    share_groups = groups.filter(is_share)
    columns = ["log_partition", *_KEY, "committed_offset", "commit_timestamp"]
    offsets = reader.read("group_offsets", [*columns, "topic_id"], wanted)
    # OffsetFetch answers a negative offset as none, as clients commit it for "no position".
    offsets = offsets.filter(pc.greater_equal(offsets["committed_offset"], 0))
    pending = reader.read("pending_offsets", [*columns, *_OF_PENDING], wanted)
    pending = pending.sort_by("commit_timestamp").group_by(columns[:4], use_threads=False)
    pending = pending.aggregate(
        [
            *(("committed_offset", "max"), ("commit_timestamp", "min")),
            *((name, "first") for name in _OF_PENDING),
        ]
    )
    pending = pending.rename_columns([*columns[:4], *_PENDING])
    # A share group has no committed offsets; an earlier group of its name may have left some.
    # A simple group has no members, and may read on.
    has_record = pc.not_equal(own_groups["record_offset"], NO_RECORD_OFFSET)
    is_left = pc.and_(pc.equal(groups["group_state"], EMPTY), has_record)
    groups = groups.append_column("is_left", is_left)
    readers = groups.filter(pc.invert(is_share)) if share_groups.num_rows else groups
    committed = _of_groups(offsets, readers)
    shared = share_offsets(reader, share_groups) if share_groups.num_rows else None
    assigned = owners(reader, wanted)
    names = [*columns[:4], "committed_offset", "commit_timestamp"]
    parts = [committed] if shared is None else [committed, shared]
    uncommitted = uncommitted_partitions(
        reader,
        now,
        all_groups,
        pa.concat_tables([part.select(names) for part in parts], promote_options="permissive"),
        assigned,
        known,
    )
    new = _of_groups(uncommitted, readers)
    committed = pa.concat_tables([committed, new], promote_options="default")
    place = ["log_partition", *_KEY]
    committed = with_matches(with_matches(committed, pending, place), assigned, place)
    if shared is not None and shared.num_rows:
        shared = with_matches(shared, uncommitted.drop_columns("log_partition"), _KEY)
        committed = pa.concat_tables([committed, shared], promote_options="default")
    return committed.sort_by([(name, "ascending") for name in _KEY]).combine_chunks()


_OF_GROUP: Final = (
    *("log_partition", "group_id", "group_type", "state", "protocol_type", "member_count"),
    "subscribed_topics",
)


def _of_groups(offsets: pa.Table, groups: pa.Table) -> pa.Table:
    """The offsets of existing groups, with their type and state."""
    rows = with_matches(offsets, groups, ["log_partition", "group_id"])
    return rows.filter(pc.is_valid(rows["group_type"]))


def _rates(
    reader: TableReader,
    now: datetime,
    wanted: pc.Expression | None,
    committed: pa.Table,
    logs: Logs,
    measures: _Measures,
    shares: ShareRows | None,
    is_uncommitted: Bools,
) -> dict[str, pa.Array]:
    """The growth rates of committed offsets and log ends, and the time to catch up."""
    commit_rate = np.full(committed.num_rows, np.nan)
    produce_rate = commit_rate.copy()
    for window in RATE_WINDOWS:
        before = reader.before(now - window)
        if before is None:
            continue
        then = _committed_in(before, wanted, committed, shares)
        commit_rate = (committed["committed_offset"].to_numpy() - then) / window.total_seconds()
        commit_rate[is_uncommitted] = 0
        ends = logs.histories(reader, since=now - window - MAX_SAMPLE_AGE, until=now - window)
        read_logs = logs.of_rows[: committed.num_rows]
        grown = measures.offsets["log_end_offset"] - ends.newest.log_end_offset[read_logs]
        took_ms = measures.offsets["sampled_at_ms"] - ends.newest.sampled_at_ms[read_logs]
        is_known = ends.is_known[read_logs] & (measures.offsets["sampled_at_ms"] != UNKNOWN)
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
        "time_to_catch_up_ms": null_if_unknown(catch_up_ms),
    }


def _committed_in(
    before: TableReader,
    wanted: pc.Expression | None,
    committed: pa.Table,
    shares: ShareRows | None,
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The committed offsets of the same keys in an earlier snapshot; NaN if it has none."""
    key = ["log_partition", *_KEY]
    loaded = [p for p, log in before.load_states.items() if log.state == STATE_CURRENT]
    then = before.read("group_offsets", [*key, "committed_offset"], wanted)
    then = then.filter(pc.is_in(then["log_partition"], pa.array(loaded, pa.int32())))
    rows = committed.select(key).append_column("row", pa.array(np.arange(committed.num_rows)))
    offsets = np.full(committed.num_rows, np.nan)
    _fill(offsets, rows, then)
    if shares is not None:
        offsets[shares.is_share] = np.nan
        has_start = pa.array(shares.is_share & ~shares.has_no_start)
        shared = rows.filter(has_start)
        _fill(offsets, shared, start_offsets(before, pc.unique(shared["group_id"]).to_pylist()))
    return offsets


def _fill(offsets: Any, rows: pa.Table, then: pa.Table) -> None:
    """Set the offsets of numbered rows to those of their keys."""
    key = ["log_partition", *_KEY]
    place = positions(rows.select(key), then.select(key))
    matched = np.flatnonzero(place != NOWHERE)
    committed = then["committed_offset"].to_numpy()
    offsets[rows["row"].to_numpy()[matched]] = committed[place[matched]]
