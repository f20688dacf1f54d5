"""The status of every group by Burrow's rules, from the tables instead of a poller.

Burrow collects its data while it runs; here it is read from the tables: the last commits of each
committed offset, the log end in the sample before each commit, and the log ends at the last ten
refreshes of ten seconds. Commits older than seven days (Burrow's `expire-group`) are ignored, and
`min-distance` is 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import nullable, schema_of
from coordinator_state.insight.burrow_rules import INTERVALS, Commit, group_status, partition_status
from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import UNKNOWN
from coordinator_state.replay.groups import SHARE
from streaming.lag.group_lag import group_lag
from streaming.lag.offset_samples import Logs, epoch_ms
from streaming.lag.recent_commits import KEY, by_key, recent_commits
from streaming.tables.clock import moment_ms
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.tables.rows import StatusRow
from streaming.tables.schemas import GROUP_LAG

EXPIRE_GROUP = timedelta(days=7)
OFFSET_REFRESH = timedelta(seconds=10)
# Most groups commit often, so older commits are read only if the newer ones are not enough.
_WINDOWS = (timedelta(minutes=10), timedelta(hours=6), EXPIRE_GROUP)

_PARTITION = nullable(
    pa.schema([GROUP_LAG.schema.field(name) for name in (*KEY, "status", "reason")])
)
_GROUP = nullable(schema_of(StatusRow))

Row = dict[str, Any]


def burrow_partition_statuses(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    allowed_lag: int = 0,
) -> pa.Table:
    """The status of each committed offset; OK if its log end is unknown, as in Burrow."""
    rows = burrow_partitions(reader, at, group_ids, allowed_lag)
    return pa.Table.from_pylist(rows, _PARTITION)


def burrow_group_statuses(
    reader: TableReader,
    *,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    allowed_lag: int = 0,
) -> pa.Table:
    """The status of each group with committed offsets, by its worst partition: OK, WARN or ERR."""
    partitions: dict[str, list[Row]] = defaultdict(list)
    for row in burrow_partitions(reader, at, group_ids, allowed_lag):
        partitions[row["group_id"]].append(row)
    rows = []
    for group_id, group_rows in sorted(partitions.items()):
        worst = max(group_rows, key=lambda row: Status(row["status"]).rank)
        rows.append(
            {
                **{name: worst[name] for name in _GROUP.names if name in worst},
                "group_id": group_id,
                "status": group_status(Status(row["status"]) for row in group_rows).value,
                "reason": f"{worst['status']}: {worst['reason']}",
                "partitions": len(group_rows),
                "partitions_not_ok": sum(row["status"] != Status.OK.value for row in group_rows),
                "lag": sum(row["lag"] or 0 for row in group_rows),
                **{f"max_{name}": _max(name, group_rows) for name in _TIME_LAGS},
            }
        )
    return pa.Table.from_pylist(rows, _GROUP)


_TIME_LAGS = ("time_lag_ms", "time_lag_at_least_ms")


def _max(name: str, rows: list[Row]) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)


def burrow_partitions(
    reader: TableReader,
    at: datetime | None = None,
    group_ids: Collection[str] | None = None,
    allowed_lag: int = 0,
    lags: pa.Table | None = None,
) -> list[Row]:
    """Rows of `group_lag` of each committed offset, with status, reason and `commits`.

    `commits` are the last `INTERVALS` at most, oldest first. `lags` is the result of `group_lag`
    for the same arguments, if the caller has it.
    """
    now = at or reader.moment
    if lags is None:
        lags = group_lag(reader, at=now, group_ids=group_ids)
    # Burrow sees commits only, and share groups have none.
    lags = lags.filter(
        pc.and_not(pc.is_valid(lags["committed_offset"]), pc.equal(lags["group_type"], SHARE))
    )
    if not lags.num_rows:
        return []
    commits, window = _last_commits(reader, now, of_groups(group_ids), lags)
    logs = Logs.of(lags)
    histories = logs.histories(reader, since=now - window, until=now)
    now_ms = moment_ms(now)
    known = _with_lags(commits, histories.log_ends_at(logs.numbers(commits), _ms(commits)))
    refreshes = [
        histories.log_ends_at(
            logs.of_rows, np.full(lags.num_rows, now_ms - round(ago * 1000 * _REFRESH_S))
        )
        for ago in range(INTERVALS - 1, -1, -1)
    ]
    ends = np.array(refreshes).T
    rows: list[Row] = lags.to_pylist()
    for row, log_ends in zip(rows, ends, strict=True):
        own = Commit(row["committed_offset"], now_ms - row["commit_age_ms"], None)
        row["commits"] = known.get(tuple(row[name] for name in KEY), [own])
        verdict = partition_status(
            row["commits"],
            log_ends[log_ends != UNKNOWN].tolist(),
            row["lag"] or 0,
            now_ms,
            allowed_lag,
        )
        row["status"], row["reason"] = verdict.status.value, verdict.reason
    return rows


_REFRESH_S = OFFSET_REFRESH.total_seconds()


def _last_commits(
    reader: TableReader, now: datetime, wanted: pc.Expression | None, lags: pa.Table
) -> tuple[pa.Table, timedelta]:
    """The last commits of each key, sorted by key and record offset, and the window they are in."""
    for window in _WINDOWS:
        commits, keys, _ = by_key(recent_commits(reader, now - window, now, wanted))
        counts = np.bincount(keys)
        if counts.size >= lags.num_rows and (counts >= INTERVALS).all():
            break
    # The number of commits from each one to the last of its key.
    left = np.cumsum(counts)[keys] - np.arange(keys.size)
    return commits.filter(pa.array(left <= INTERVALS)), window


def _with_lags(commits: pa.Table, log_ends: Any) -> dict[tuple[Any, ...], list[Commit]]:
    """Commits by key, each with the lag at its time."""
    commits_by_key: dict[tuple[Any, ...], list[Commit]] = defaultdict(list)
    columns = [commits[name].to_pylist() for name in (*KEY, "committed_offset")]
    for group_id, topic, partition, offset, at_ms, end in zip(
        *columns, _ms(commits).tolist(), log_ends.tolist(), strict=True
    ):
        lag = None if end == UNKNOWN else max(end - offset, 0)
        commits_by_key[group_id, topic, partition].append(Commit(offset, at_ms, lag))
    return commits_by_key


def _ms(commits: pa.Table) -> Any:
    return epoch_ms(commits["commit_timestamp"])
