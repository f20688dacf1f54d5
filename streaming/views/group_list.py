"""All groups of a snapshot: as columns, and as rows of those groups that are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import Int64s
from streaming.lag.judged_groups import JudgedGroups

Row = dict[str, Any]
_ADDED = {
    "members": "member_count",
    "rank": "rank",
    "min_retention_margin_ms": "min_retention_margin_ms",
    "commit_rate_per_s": "commit_rate_per_s",
    "produce_rate_per_s": "produce_rate_per_s",
    "growth_per_s": "growth_per_s",
    "time_to_catch_up_ms": "time_to_catch_up_ms",
}
"""The columns of a row that `group_status` does not have, and their names in `JudgedGroups`."""


class GroupList:
    """The groups in the order of their ids; a row is made when it is asked for."""

    def __init__(self, judged: JudgedGroups) -> None:
        self._judged = judged

    def __len__(self) -> int:
        return len(self._judged)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all groups."""
        return self._judged.table[_ADDED.get(name, name)]

    def rows(self, numbers: Int64s) -> Sequence[Row]:
        """The rows with these numbers, in this order: those of `group_status`, and more columns."""
        added = self._judged.table.select(list(_ADDED.values())).take(pa.array(numbers))
        columns = [column.to_pylist() for column in added.columns]
        return [
            row | dict(zip(_ADDED, values, strict=True))
            for row, *values in zip(self._judged.rows(numbers), *columns, strict=True)
        ]

    def of_groups(self, group_ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows of those groups that exist, by group."""
        return {row["group_id"]: row for row in self.rows(self._judged.numbers(group_ids))}

    def worst(self, healthy: Collection[Status]) -> Mapping[str, str]:
        """The status of each group, worst first, without those with a healthy status."""
        found = self._judged.table.select(["group_id", "status", "rank"])
        is_healthy = pc.is_in(found["status"], pa.array([status.value for status in healthy]))
        found = found.filter(pc.invert(is_healthy))
        found = found.take(pc.sort_indices(found, sort_keys=[("rank", "descending")]))
        columns = found["group_id"].to_pylist(), found["status"].to_pylist()
        return dict(zip(*columns, strict=True))
