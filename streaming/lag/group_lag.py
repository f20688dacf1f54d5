"""How far every group is behind the logs that it reads: the view `group_lag`.

Offsets, groups and pending offsets are those of one snapshot; the logs are known by the samples of
`log_offsets` up to the same moment. Only groups in their own log partition count, as a coordinator
has them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.lag import NO_SAMPLE, TOO_OLD, UNKNOWN_MS, LogHistory, LogSamples
from coordinator_state.partitioner import partition_for
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TIMESTAMP

GROUP_LAG = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("group_type", pa.string()),
        ("group_state", pa.string()),
        ("topic_state", pa.string()),
        ("committed_offset", pa.int64()),
        ("pending_offset", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("lag", pa.int64()),
        ("lag_to_last_stable", pa.int64()),
        ("data_lost", pa.int64()),
        ("time_lag_ms", pa.int64()),
        ("time_lag_unknown", pa.string()),
        ("commit_timestamp", TIMESTAMP),
        ("commit_age_ms", pa.int64()),
        ("sampled_at", TIMESTAMP),
    ]
)
"""`lag` and what is computed beside it is null where the log is not known; `time_lag_unknown` says
why `time_lag_ms` is null. `topic_state` is that of the newest sample, null where there is none."""

DEFAULT_HISTORY = timedelta(days=7)
# Most groups wait for little: samples that are older are read for the logs of the others only.
_WINDOWS = (timedelta(minutes=10), timedelta(hours=6))
_KEY = ["group_id", "topic", "partition"]
_LOG = ["topic", "partition"]
_NO_OFFSET = -1


def group_lag(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    history: timedelta = DEFAULT_HISTORY,
) -> pa.Table:
    """A row for each committed offset, by group, topic and partition.

    Args:
        reader: the snapshot.
        at: the moment, in place of now; samples and ages are as of then.
        group_ids: only these groups.
        history: how far back samples are looked at; what waits longer has no time lag.
    """
    now = at or datetime.now(timezone.utc)
    committed = _committed(reader, group_ids)
    now_ms = round(now.timestamp() * 1000)
    columns = {name: np.full(committed.num_rows, _NO_OFFSET, np.int64) for name in _MEASURED}
    texts = {
        name: np.full(committed.num_rows, None, object)
        for name in ("topic_state", "time_lag_unknown")
    }
    offsets = committed["committed_offset"].to_numpy()
    left = committed
    for window in (*(window for window in _WINDOWS if window < history), history):
        logs = _samples(reader, left, now, now - window)
        places = left.group_by(_LOG, use_threads=False).aggregate([("row", "list")])
        for topic, partition, rows in zip(
            *(places[name] for name in (*_LOG, "row_list")), strict=True
        ):
            found = rows.values.to_numpy()
            samples = logs.get((topic.as_py(), partition.as_py()))
            log = _NOT_SAMPLED if samples is None else LogHistory(samples)
            _measure(log, found, offsets[found], now_ms, columns, texts)
        why = texts["time_lag_unknown"]
        left = committed.filter(pa.array((why == TOO_OLD) | (why == NO_SAMPLE)))
        if not left.num_rows:
            break
    arrays = {
        **{name: committed[name] for name in committed.column_names if name != "row"},
        **{name: _nullable(values) for name, values in columns.items()},
        **{name: pa.array(values, pa.string()) for name, values in texts.items()},
    }
    arrays["sampled_at"] = pc.cast(arrays.pop("sampled_at_ms"), pa.timestamp("ms", "UTC"))
    age = pc.subtract(now_ms, pc.cast(_ms(committed["commit_timestamp"]), pa.int64()))
    arrays["commit_age_ms"] = age
    return pa.table([pc.cast(arrays[f.name], f.type) for f in GROUP_LAG], schema=GROUP_LAG)


_MEASURED = (
    *("log_start_offset", "last_stable_offset", "log_end_offset", "sampled_at_ms"),
    *("lag", "lag_to_last_stable", "data_lost", "time_lag_ms"),
)


def _measure(
    log: LogHistory,
    rows: Any,
    committed_offsets: Any,
    now_ms: int,
    columns: dict[str, Any],
    texts: dict[str, Any],
) -> None:
    """Fill the rows of one topic partition."""
    texts["topic_state"][rows] = log.state
    texts["time_lag_unknown"][rows] = log.unknown
    if log.newest is None:
        return
    for name in ("log_start_offset", "last_stable_offset", "log_end_offset", "sampled_at_ms"):
        columns[name][rows] = getattr(log.samples, name)[log.newest]
    lags = log.lags(committed_offsets, now_ms)
    for name in ("lag", "lag_to_last_stable", "data_lost", "time_lag_ms"):
        columns[name][rows] = getattr(lags, name)
    texts["time_lag_unknown"][rows[lags.time_lag_ms == UNKNOWN_MS]] = TOO_OLD


def _committed(reader: TableReader, group_ids: Collection[str] | None) -> pa.Table:
    """Committed offsets of groups that are there, with the group and what is pending."""
    wanted = None if group_ids is None else pc.field("group_id").isin(pa.array(sorted(group_ids)))
    groups = reader.read("groups", ["log_partition", "group_id", "group_type", "state"], wanted)
    count = reader.log_partitions
    own = [partition_for(group_id, count) for group_id in groups["group_id"].to_pylist()]
    groups = groups.filter(pc.equal(groups["log_partition"], pa.array(own, pa.int32())))
    groups = groups.rename_columns(["log_partition", "group_id", "group_type", "group_state"])
    columns = ["log_partition", *_KEY, "committed_offset", "commit_timestamp"]
    offsets = reader.read("group_offsets", columns, wanted)
    waiting = reader.read("pending_offsets", ["log_partition", *_KEY, "committed_offset"], wanted)
    waiting = waiting.group_by(["log_partition", *_KEY]).aggregate([("committed_offset", "max")])
    waiting = waiting.rename_columns(["log_partition", *_KEY, "pending_offset"])
    found = offsets.join(groups, ["log_partition", "group_id"], join_type="inner")
    found = found.join(waiting, ["log_partition", *_KEY], join_type="left outer")
    found = found.sort_by([(name, "ascending") for name in _KEY]).combine_chunks()
    return found.append_column("row", pa.array(np.arange(found.num_rows)))


def _samples(
    reader: TableReader, committed: pa.Table, now: datetime, since: datetime
) -> dict[tuple[str, int], LogSamples]:
    """The samples of each log, by topic and partition."""
    condition = (
        (pc.field("sampled_at") <= pa.scalar(now, TIMESTAMP))
        & (pc.field("sampled_at") >= pa.scalar(since, TIMESTAMP))
        & (pc.field("day") >= pa.scalar(since.date()))
        & pc.field("topic").isin(pc.unique(committed["topic"]))
    )
    names = ["log_start_offset", "log_end_offset", "last_stable_offset"]
    columns = [*_LOG, "sampled_at", "state", "topic_id", *names]
    samples = reader.read("log_offsets", columns, condition)
    samples = samples.sort_by([(name, "ascending") for name in (*_LOG, "sampled_at")])
    if not samples.num_rows:
        return {}
    topics = samples["topic"].to_numpy()
    partitions = samples["partition"].to_numpy()
    is_new = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    bounds = [0, *(np.flatnonzero(is_new) + 1).tolist(), samples.num_rows]
    times = _ms(samples["sampled_at"]).to_numpy()
    texts = {name: samples[name].to_numpy() for name in ("state", "topic_id")}
    offsets = {name: pc.fill_null(samples[name], _NO_OFFSET).to_numpy() for name in names}
    found = {}
    for first, last in pairwise(bounds):
        of_log = slice(first, last)
        one = LogSamples(
            sampled_at_ms=times[of_log],
            **{name: values[of_log] for name, values in {**texts, **offsets}.items()},
        )
        found[topics[first], int(partitions[first])] = one
    return found


_NOT_SAMPLED = LogHistory(
    LogSamples(
        **{
            field.name: np.array([], object if field.name in ("state", "topic_id") else np.int64)
            for field in fields(LogSamples)
        }
    )
)


def _ms(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.cast(times, pa.timestamp("ms", "UTC"), safe=False), pa.int64())


def _nullable(values: Any) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == _NO_OFFSET)
