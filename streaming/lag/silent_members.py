"""Members with assigned partitions that have no row in `group_lag`: no sample has their log end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.group_placement import of_own_log_partition
from coordinator_state.insight.group_status import SilentMembers
from streaming.clock import moment_ms
from streaming.lag.owners import owners
from streaming.lag.recent_commits import KEY
from streaming.lag.uncommitted import assigned_at
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader

Row = dict[str, Any]


def silent_members(
    reader: TableReader, now: datetime, group_ids: Collection[str] | None, lags: pa.Table
) -> dict[str, list[Row]]:
    """The assigned partitions of each group that are not in `group_lag`, with their members.

    `lags` has `KEY` and `member_id` of the rows of `group_lag`. A row has `topic`, `partition`,
    `member_id` and `assigned_ms`, see `SilentMembers`.
    """
    wanted = of_groups(group_ids)
    assignments = reader.read("group_members", ["assignment"], wanted)["assignment"]
    with_member = len(lags) - lags["member_id"].null_count
    if with_member == (pc.sum(pc.list_value_length(assignments)).as_py() or 0):
        return {}
    silent = owners(reader, wanted).join(lags.select(KEY), KEY, join_type="left anti")
    silent = of_own_log_partition(silent, reader.log_partitions).combine_chunks()
    if not silent.num_rows:
        return {}
    changed = assigned_at(reader, pc.unique(silent["group_id"]).to_pylist())
    now_ms = moment_ms(now + reader.clock_skew)
    rows_by_group: dict[str, list[Row]] = defaultdict(list)
    for row in silent.select([*KEY, "member_id"]).to_pylist():
        group_id = row.pop("group_id")
        at = changed.get(group_id)
        assigned_ms = None if at is None else max(now_ms - moment_ms(at), 0)
        rows_by_group[group_id].append({**row, "assigned_ms": assigned_ms})
    return rows_by_group


def silent_facts(partitions: Sequence[Row]) -> SilentMembers:
    """The facts about partitions of one group."""
    assigned = [row["assigned_ms"] for row in partitions if row["assigned_ms"] is not None]
    return SilentMembers(
        members=len({row["member_id"] for row in partitions}),
        partitions=len(partitions),
        assigned_ms=min(assigned, default=None),
    )
