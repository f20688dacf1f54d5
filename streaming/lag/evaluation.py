"""The evaluation: lag, status and trend of every group at one moment, as columns.

`run` keeps its rows in the tables `group_lag` and `group_status`. The reasons are texts with
numbers, which take longest, so they are made only of the rows that are asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP, columns_of, nullable, with_columns
from coordinator_state.insight.group_status import StatusRules, Verdict
from coordinator_state.insight.lag import Int64s
from coordinator_state.insight.lag_trend import Floats, Trend, without_noise
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import group_lag
from streaming.lag.group_status import judged_groups, judged_partitions
from streaming.lag.judged_groups import JudgedGroups, Reason
from streaming.lag.judged_partitions import JudgedPartitions, floats_of
from streaming.lag.rows import PartitionStatusRow
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS

GROUP_LAG_ROW = nullable(GROUP_LAG.schema)
GROUP_STATUS_ROW = nullable(GROUP_STATUS.schema)
KEPT_FOR: Final = timedelta(minutes=2)
"""`run` evaluates at least every minute, and writes rows that only became older once a minute."""
_OF_PARTITION = [field.name for field in fields(PartitionStatusRow)]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The lag and status of groups at a moment.

    Attributes:
        at: the moment.
        stale: the verdict about all groups if the tables are stale.
        lags: the rows of `group_lag` (`GROUP_LAG_ROW`), sorted by its key, maybe without reasons:
            the method `group_lag` adds them.
        statuses: the rows of `group_status` (`GROUP_STATUS_ROW`), sorted by group, maybe without
            reasons and their topics and partitions: the method `group_status` adds them.

    `status_since` is null unless the rows are those that `run` keeps.
    """

    at: datetime
    stale: Verdict | None
    lags: pa.Table
    statuses: pa.Table
    _partitions: JudgedPartitions | None = None
    _groups: JudgedGroups | None = None

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
        rules, at = rules or reader.status_rules, at or reader.moment
        lags = group_lag(reader, at=at, group_ids=group_ids)
        partitions = judged_partitions(reader, at, group_ids, rules, lags)
        groups = judged_groups(reader, at, group_ids, rules, partitions)
        return cls(
            at,
            partitions.stale,
            _evaluated(_with_trends(lags, partitions), at, GROUP_LAG_ROW),
            _evaluated(_of_groups(groups.table), at, GROUP_STATUS_ROW),
            partitions,
            groups,
        )

    @classmethod
    def read(
        cls,
        reader: TableReader,
        *,
        at: datetime | None = None,
        group_ids: Collection[str] | None = None,
        rules: StatusRules | None = None,
    ) -> Evaluation:
        """The evaluation that `run` keeps in the tables, or else a new one.

        The kept one is of another moment if the snapshot is not the newest, or if `run` has not
        evaluated for `KEPT_FOR`. It is also not used while the tables are stale, or with other
        limits than those of `run`.
        """
        at = at or reader.moment
        if reader.is_newest and at == reader.moment and rules in (None, reader.status_rules):
            kept = _kept(reader, at, group_ids)
            if kept is not None:
                return kept
        return cls.of(reader, at=at, group_ids=group_ids, rules=rules)

    @property
    def is_kept(self) -> bool:
        """Whether `run` evaluated, so that `status_since` is known."""
        return self._groups is None

    def group_lag(self, numbers: Int64s | None = None) -> pa.Table:
        """The rows of `group_lag` with these numbers, by default all, with their reasons."""
        numbers = np.arange(self.lags.num_rows) if numbers is None else numbers
        rows = self.lags.take(pa.array(numbers))
        if self._partitions is None:
            return rows
        return with_columns(rows, {"reason": self._partitions.reasons(numbers)})

    def group_status(self, numbers: Int64s | None = None) -> pa.Table:
        """The rows of `group_status` with these numbers, by default all, with their reasons."""
        numbers = np.arange(self.statuses.num_rows) if numbers is None else numbers
        rows = self.statuses.take(pa.array(numbers))
        if self._groups is None:
            return rows
        reasons = self._groups.reasons(numbers)
        types = {name: rows.schema.field(name).type for name in Reason._fields}
        return with_columns(
            rows,
            {
                name: pa.array([getattr(reason, name) for reason in reasons], data_type)
                for name, data_type in types.items()
            },
        )

    def partition_status(self) -> pa.Table:
        """The view `partition_status`: some columns of `group_lag`."""
        return self.group_lag().select(_OF_PARTITION)


def _kept(
    reader: TableReader, at: datetime, group_ids: Collection[str] | None
) -> Evaluation | None:
    """The rows of the tables; None if they are not of this moment."""
    if Freshness.of(reader, at).verdict(reader.status_rules) is not None:
        return None
    tables = (GROUP_STATUS, GROUP_LAG)
    statuses, lags = (reader.read(table.name, filters=of_groups(group_ids)) for table in tables)
    evaluated_at = pc.max(statuses["evaluated_at"]).as_py()
    if evaluated_at is None or not at - KEPT_FOR <= evaluated_at <= at:
        return None
    # `run` writes one table after the other.
    lags = lags.filter(pc.is_in(lags["group_id"], statuses["group_id"].combine_chunks()))
    lags, statuses = (
        rows.cast(nullable(table.schema)).sort_by([(name, "ascending") for name in table.key])
        for table, rows in ((GROUP_LAG, lags), (GROUP_STATUS, statuses))
    )
    return Evaluation(evaluated_at, None, lags, statuses)


def _with_trends(lags: pa.Table, partitions: JudgedPartitions) -> pa.Table:
    trends = partitions.trends
    names = ("lag", "commit_rate_per_s", "produce_rate_per_s")
    growth = without_noise(
        floats_of(trends["growth_per_s"]), *(floats_of(lags[name]) for name in names)
    )
    columns = {
        "status": partitions.statuses,
        "growth_per_s": trends["growth_per_s"],
        "trend": _trends(growth),
    }
    return with_columns(lags, columns)


def _of_groups(groups: pa.Table) -> pa.Table:
    return groups.append_column("trend", _trends(floats_of(groups["growth_per_s"])))


def _evaluated(rows: pa.Table, at: datetime, schema: pa.Schema) -> pa.Table:
    evaluated_at = pa.repeat(pa.scalar(at, TIMESTAMP), rows.num_rows)
    return columns_of(rows.append_column("evaluated_at", evaluated_at), schema)


def _trends(growth_per_s: Floats) -> pa.Array:
    """The trend of each growth without noise; null if it is unknown."""
    signs = np.sign(np.nan_to_num(growth_per_s)).astype(np.int64) + 1
    names = pa.array([Trend.of(sign).value for sign in (-1, 0, 1)])
    return names.take(pa.array(signs, mask=np.isnan(growth_per_s)))
