"""Members that have never committed an offset of their assigned partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, nullable, positions
from coordinator_state.apply.group_placement import of_own_log_partition
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import SilentMembers
from coordinator_state.insight.lag import GONE, UNKNOWN, Int64s
from streaming.clock import moment_ms
from streaming.lag.offset_samples import Logs, to_ms
from streaming.lag.owners import owners
from streaming.lag.recent_commits import KEY
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS

Row = dict[str, Any]

_SAMPLED_WITHIN: Final = timedelta(minutes=10)
_DELETIONS: Final = [EventName.OFFSET_DELETED.value, EventName.OFFSET_EXPIRED.value]
_ASSIGNMENT_TYPES: Final = (2, 8, 14, 22)
"""Records whose change is a change of assignments: GroupMetadata, CurrentMemberAssignment."""


def silent_members(
    reader: TableReader, now: datetime, group_ids: Collection[str] | None, committed: pa.Table
) -> dict[str, list[Row]]:
    """The assigned partitions of each group without a committed offset, with their members.

    `committed` has `KEY`, `member_id` and `committed_offset` of the rows of `group_lag`. Of a share
    group, the offset is null until a record of the partition is acknowledged.
    A row has `topic`, `topic_state`, `partition`, `member_id`, `assigned_ms`, `records` and
    `waiting_ms`, see `SilentMembers`.
    """
    if committed["committed_offset"].null_count:
        committed = committed.filter(pc.is_valid(committed["committed_offset"]))
    wanted = of_groups(group_ids)
    assignments = reader.read("group_members", ["assignment"], wanted)["assignment"]
    with_member = len(committed) - committed["member_id"].null_count
    if with_member == (pc.sum(pc.list_value_length(assignments)).as_py() or 0):
        # Each of the assigned partitions has a committed offset.
        return {}
    assigned = owners(reader, wanted)
    silent = assigned.join(committed.select(KEY), KEY, join_type="left anti")
    silent = of_own_log_partition(silent, reader.log_partitions).combine_chunks()
    if not silent.num_rows:
        return {}
    changed = _assigned_at_ms(reader, pc.unique(silent["group_id"]).to_pylist())
    now_ms = moment_ms(now)
    at_ms = np.array([changed.get(group, UNKNOWN) for group in silent["group_id"].to_pylist()])
    at_ms = np.maximum(at_ms, _deleted_at_ms(reader, silent, now))
    logs = Logs.of(silent)
    samples = logs.histories(reader, since=now - _SAMPLED_WITHIN, until=now, of_all=False)
    first = samples.log_ends_from(logs.of_rows, at_ms.astype(np.int64))
    produced = samples.lags(logs.of_rows, first, now_ms)
    rows_by_group: dict[str, list[Row]] = defaultdict(list)
    columns = [silent[name].to_pylist() for name in (*KEY, "member_id")]
    for group_id, topic, partition, member_id, state, since_ms, end, lag, waiting_ms in zip(
        *columns,
        samples.state[logs.of_rows].tolist(),
        at_ms.tolist(),
        first.tolist(),
        produced.lag.tolist(),
        produced.time_lag_at_least_ms.tolist(),
        strict=True,
    ):
        rows_by_group[group_id].append(
            {
                **{"topic": topic, "partition": partition, "member_id": member_id},
                "topic_state": state,
                "assigned_ms": None if since_ms == UNKNOWN else max(now_ms - since_ms, 0),
                "records": None if end == UNKNOWN else lag,
                "waiting_ms": waiting_ms if end != UNKNOWN and lag > 0 else None,
            }
        )
    return rows_by_group


def silent_facts(partitions: Collection[Row]) -> SilentMembers:
    """The facts about partitions of one group."""
    records = [row["records"] for row in partitions if row["records"] is not None]
    assigned = [row["assigned_ms"] for row in partitions if row["assigned_ms"] is not None]
    waiting = [row["waiting_ms"] for row in partitions if row["waiting_ms"] is not None]
    return SilentMembers(
        members=len({row["member_id"] for row in partitions}),
        partitions=len(partitions),
        assigned_ms=min(assigned, default=None),
        gone=sorted({row["topic"] for row in partitions if row["topic_state"] == GONE}),
        records=sum(records) if records else None,
        waiting_ms=max(waiting, default=None),
        is_at_least=any(ms > _SAMPLED_WITHIN / timedelta(milliseconds=1) for ms in assigned),
    )


def _deleted_at_ms(reader: TableReader, silent: pa.Table, now: datetime) -> Int64s:
    """The time at which the offset of each row was deleted; `UNKNOWN` if it was not lately."""
    until = now + reader.clock_skew
    since = until - _SAMPLED_WITHIN
    during: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", until), ("event", "in", _DELETIONS)),
        ("group_id", "in", pc.unique(silent["group_id"]).to_pylist()),
    ]
    columns = [*KEY, "record_timestamp"]
    events = reader.read(GROUP_EVENTS.name, columns, during).select(columns)
    events = events.sort_by("record_timestamp").cast(nullable(events.schema))
    keys = silent.select(KEY)
    place = positions(keys.cast(nullable(keys.schema)), events.select(KEY))
    times = reader.own_times(events["record_timestamp"]).take(
        pa.array(place, mask=place == NOWHERE)
    )
    at_ms: Int64s = pc.fill_null(to_ms(times), UNKNOWN).to_numpy()
    return at_ms


def _assigned_at_ms(reader: TableReader, group_ids: Collection[str]) -> dict[str, int]:
    """The time of the last change of an assignment of each group, in ms since the epoch."""
    rows = reader.read(
        "coordinator_records",
        ["group_id", "record_timestamp"],
        [
            ("record_type", "in", list(_ASSIGNMENT_TYPES)),
            ("group_id", "in", sorted(group_ids)),
            ("is_tombstone", "=", False),
        ],
    )
    newest = rows.group_by("group_id").aggregate([("record_timestamp", "max")])
    return {
        row["group_id"]: moment_ms(row["record_timestamp_max"] - reader.clock_skew)
        for row in newest.to_pylist()
        if row["record_timestamp_max"] is not None
    }
