"""The partitions of one group, with status: as columns, and as rows of those that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import Int64s
from streaming.lag.judged_partitions import STATUS_NAMES, ranks_of, rows_of
from streaming.served.snapshot import Row, ServedSnapshot


@dataclass(frozen=True, slots=True)
class GroupPartitions:
    """Rows of `group_lag` with `rank`."""

    columns: pa.Table

    @classmethod
    def of(cls, snapshot: ServedSnapshot, group_id: str) -> GroupPartitions:
        """The partitions of a group."""
        columns = snapshot.evaluation.lags_where(pc.field("group_id") == group_id)
        return cls(columns.append_column("rank", pa.array(ranks_of(columns["status"]))))

    def __len__(self) -> int:
        return self.columns.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all rows."""
        return self.columns[name]

    def rows(self, numbers: Int64s) -> Sequence[Row]:
        """The rows with these numbers, in this order."""
        return rows_of(self.columns.take(pa.array(numbers)))

    def where(self, **values: str) -> GroupPartitions:
        """The partitions with these values in columns of text."""
        columns = self.columns
        for name, value in values.items():
            columns = columns.filter(pc.field(name) == value)
        return GroupPartitions(columns)

    def by(self, name: Literal["topic", "member_id"]) -> list[Row]:
        """The sums and maxima of each topic or member, that with the greatest lag first.

        A member that has no partition has no row; partitions without a member have one.
        `share` is the part of the lag of all partitions, null if there is none.
        """
        found = self.columns.group_by(name).aggregate([(one, how) for one, how, _ in _TOTALS])
        found = found.rename_columns([name, *(label for _, _, label in _TOTALS)])
        rows = rows_of(found)
        total = sum(row["lag"] or 0 for row in rows)
        for row in rows:
            row["status"] = STATUS_NAMES[row.pop("rank")].as_py()
            row["share"] = (row["lag"] or 0) / total if total else None
        return sorted(rows, key=_worst_first)


_TOTALS: Final = (
    ("partition", "count", "partitions"),
    ("lag", "sum", "lag"),
    ("lag", "max", "max_lag"),
    ("time_lag_ms", "max", "max_time_lag_ms"),
    ("time_lag_at_least_ms", "max", "max_time_lag_at_least_ms"),
    ("rank", "max", "rank"),
)


def _worst_first(row: Row) -> tuple[Any, ...]:
    return -1 if row["lag"] is None else -row["lag"], -row["partitions"]
