"""All groups of a snapshot: as columns, and as rows of those groups that are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import Int64s
from streaming.lag.evaluation import Evaluation
from streaming.lag.judged_partitions import ranks_of, rows_of

Row = dict[str, Any]


class GroupList:
    """Rows of `group_status` in the order of the groups, with `rank` and `members`.

    A row has its reason, which is made when the row is asked for.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._statuses = _ranked(evaluation.statuses)

    def __len__(self) -> int:
        return self._statuses.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all groups, but for those of the reasons."""
        return self._statuses[name]

    def rows(self, numbers: Int64s) -> Sequence[Row]:
        """The rows with these numbers, in this order."""
        return rows_of(_ranked(self._evaluation.group_status(numbers)))

    def numbers(self, group_ids: Sequence[str]) -> Int64s:
        """The numbers of those groups that exist."""
        places = pc.index_in(pa.array(group_ids, pa.string()), self._statuses["group_id"])
        numbers: Int64s = places.drop_null().to_numpy().astype("int64")
        return numbers

    def of_groups(self, group_ids: Sequence[str]) -> Mapping[str, Row]:
        """The rows of those groups that exist, by group."""
        return {row["group_id"]: row for row in self.rows(self.numbers(group_ids))}

    def worst(self, healthy: Collection[Status]) -> Mapping[str, str]:
        """The status of each group, worst first, without those with a healthy status."""
        groups = self._statuses.select(["group_id", "status", "rank"])
        is_healthy = pc.is_in(groups["status"], pa.array([status.value for status in healthy]))
        groups = groups.filter(pc.invert(is_healthy))
        groups = groups.take(pc.sort_indices(groups, sort_keys=[("rank", "descending")]))
        columns = groups["group_id"].to_pylist(), groups["status"].to_pylist()
        return dict(zip(*columns, strict=True))


def _ranked(statuses: pa.Table) -> pa.Table:
    ranks = pa.array(ranks_of(statuses["status"]))
    names = ["members" if name == "member_count" else name for name in statuses.column_names]
    return statuses.rename_columns(names).append_column("rank", ranks)
