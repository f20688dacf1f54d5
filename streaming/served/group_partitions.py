"""The partitions of one group, with status: as columns, and as rows of those that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import Int64s
from streaming.lag.judged_partitions import STATUS_NAMES, ranks_of, rows_of
from streaming.served.snapshot import Row, ServedSnapshot


@dataclass(frozen=True, slots=True)
class GroupPartitions:
    """Rows of `group_lag` with `rank`; rows that are made have their `reason`.

    `numbers` are those of the rows in the view.
    """

    snapshot: ServedSnapshot
    numbers: Int64s
    columns: pa.Table

    @classmethod
    def of(cls, snapshot: ServedSnapshot, group_id: str) -> GroupPartitions:
        """The partitions of a group."""
        is_own = pc.equal(snapshot.lags["group_id"], group_id)
        numbers = np.flatnonzero(is_own.to_numpy())
        columns = snapshot.lags.take(pa.array(numbers))
        ranks = pa.array(ranks_of(columns["status"]))
        return cls(snapshot, numbers, columns.append_column("rank", ranks))

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of all rows."""
        return self.columns[name]

    def rows(self, numbers: Int64s) -> Sequence[Row]:
        """The rows with these numbers, in this order."""
        reasons = self.snapshot.evaluation.group_lag(self.numbers[numbers])["reason"].to_pylist()
        found = rows_of(self.columns.take(pa.array(numbers)))
        return [row | {"reason": reason} for row, reason in zip(found, reasons, strict=True)]

    def where(self, **values: str) -> GroupPartitions:
        """The partitions with these values in columns of text."""
        is_wanted = np.ones(len(self), np.bool_)
        for name, value in values.items():
            is_wanted &= pc.equal(self.columns[name], value).fill_null(False).to_numpy()
        found = np.flatnonzero(is_wanted)
        return GroupPartitions(
            self.snapshot, self.numbers[found], self.columns.take(pa.array(found))
        )

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
