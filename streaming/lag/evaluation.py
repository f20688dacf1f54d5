"""The evaluation: lag, status and trend of every group at one moment, as columns.

`run` keeps its rows in the tables `group_lag` and `group_status`. The reasons are texts with
numbers, which take longest, so they are made only of the rows that are asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime

import numpy as np
import pyarrow as pa

from coordinator_state.apply.columns import columns_of, nullable, with_columns
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.lag import Int64s
from coordinator_state.insight.lag_trend import Floats, Trend, without_noise
from streaming.lag.group_lag import group_lag
from streaming.lag.group_status import judged_groups, judged_partitions
from streaming.lag.judged_groups import JudgedGroups, Reason
from streaming.lag.judged_partitions import JudgedPartitions, floats_of
from streaming.lag.rows import PartitionStatusRow
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS

GROUP_LAG_ROW = nullable(GROUP_LAG.schema)
GROUP_STATUS_ROW = nullable(GROUP_STATUS.schema)
_OF_PARTITION = [field.name for field in fields(PartitionStatusRow)]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The lag and status of groups at a moment.

    Attributes:
        at: the moment.
        lags: the rows of `streaming.lag.group_lag.group_lag`.
        partitions: their statuses.
        groups: the statuses of the groups.
    """

    at: datetime
    lags: pa.Table
    partitions: JudgedPartitions
    groups: JudgedGroups

    @classmethod
    def of(
        cls,
        reader: TableReader,
        *,
        at: datetime | None = None,
        group_ids: Collection[str] | None = None,
        rules: StatusRules | None = None,
    ) -> Evaluation:
        """Evaluate the groups of a snapshot, by default all of them at its moment."""
        rules, at = rules or StatusRules(), at or reader.moment
        lags = group_lag(reader, at=at, group_ids=group_ids)
        partitions = judged_partitions(reader, at, group_ids, rules, lags)
        return cls(at, lags, partitions, judged_groups(reader, at, group_ids, rules, partitions))

    def group_lag(self, *, with_reasons: bool = False) -> pa.Table:
        """The columns of `group_lag`, without reasons unless they are wanted (`GROUP_LAG_ROW`).

        `status_since` is null.
        """
        trends = self.partitions.trends
        names = ("lag", "commit_rate_per_s", "produce_rate_per_s")
        growth = without_noise(
            floats_of(trends["growth_per_s"]), *(floats_of(self.lags[name]) for name in names)
        )
        columns = {
            "status": self.partitions.statuses,
            "growth_per_s": trends["growth_per_s"],
            "trend": _trends(growth),
        }
        rows = self._evaluated(with_columns(self.lags, columns), GROUP_LAG_ROW)
        return self.with_reasons(rows, np.arange(rows.num_rows)) if with_reasons else rows

    def group_status(self, *, with_reasons: bool = False) -> pa.Table:
        """The columns of `group_status` (`GROUP_STATUS_ROW`).

        The reasons, and the topics and partitions that they are about, are null unless they are
        wanted. `status_since` is null.
        """
        table = self.groups.table
        trends = _trends(floats_of(table["growth_per_s"]))
        rows = self._evaluated(table.append_column("trend", trends), GROUP_STATUS_ROW)
        return self.with_group_reasons(rows, np.arange(rows.num_rows)) if with_reasons else rows

    def partition_status(self) -> pa.Table:
        """The view `partition_status`: some columns of `group_lag`."""
        return self.group_lag(with_reasons=True).select(_OF_PARTITION)

    def with_reasons(self, lags: pa.Table, numbers: Int64s) -> pa.Table:
        """The rows of `group_lag` with these numbers, with their reasons."""
        rows = lags.take(pa.array(numbers))
        return with_columns(rows, {"reason": self.partitions.reasons(numbers)})

    def with_group_reasons(self, statuses: pa.Table, numbers: Int64s) -> pa.Table:
        """The rows of `group_status` with these numbers, with their reasons."""
        rows = statuses.take(pa.array(numbers))
        reasons = self.groups.reasons(numbers)
        types = {name: rows.schema.field(name).type for name in Reason._fields}
        return with_columns(
            rows,
            {
                name: pa.array([getattr(reason, name) for reason in reasons], data_type)
                for name, data_type in types.items()
            },
        )

    def _evaluated(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        evaluated_at = pa.repeat(pa.scalar(self.at, pa.timestamp("us", "UTC")), rows.num_rows)
        return columns_of(rows.append_column("evaluated_at", evaluated_at), schema)


def _trends(growth_per_s: Floats) -> pa.Array:
    """The trend of each growth without noise; null if it is unknown."""
    signs = np.sign(np.nan_to_num(growth_per_s)).astype(np.int64) + 1
    names = pa.array([Trend.of(sign).value for sign in (-1, 0, 1)])
    return names.take(pa.array(signs, mask=np.isnan(growth_per_s)))
