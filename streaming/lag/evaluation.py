"""The evaluation: lag, status and trend of every group at one moment, as columns.

`run` keeps its rows in the tables `group_lag` and `group_status`. The reasons are texts with
numbers, which take longest, so they are made only of the rows that are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from threading import RLock
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import Dataset, dataset

from coordinator_state.apply.columns import TIMESTAMP, columns_of, nullable, with_columns
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.lag import Int64s
from coordinator_state.insight.lag_trend import Floats, Trend, without_noise
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import group_lag
from streaming.lag.group_status import judged_groups, judged_partitions
from streaming.lag.judged_groups import JudgedGroups
from streaming.lag.judged_partitions import JudgedPartitions, floats_of
from streaming.lag.paces import KnownPaces
from streaming.lag.rows import PartitionStatusRow
from streaming.once import once
from streaming.tables import delta
from streaming.tables.filters import of_groups
from streaming.tables.properties import limits_of
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS, Table

GROUP_LAG_ROW = nullable(GROUP_LAG.schema)
GROUP_STATUS_ROW = nullable(GROUP_STATUS.schema)
KEPT_FOR: Final = timedelta(minutes=2)
"""`run` evaluates at least every minute, and then writes some rows, even if none has changed."""
_MOST_NEW: Final = 1_000
"""Groups that are evaluated beside the kept rows; if more are new, all are evaluated."""
_NUMBER: Final = "number"
_OF_PARTITION = [field.name for field in fields(PartitionStatusRow)]


@dataclass(frozen=True, slots=True)
class KeptLags:
    """The rows of `group_lag` that `run` keeps, at one version; they are read when asked for.

    Attributes:
        opened: the table at the version.
        tables: the tables folder.
        group_ids: the groups to read; all if None.
        known: the groups that `run` has evaluated, and that still exist.
        is_all: whether these are all groups of the table.
        new_lags: the rows of groups that `run` has not evaluated.
    """

    opened: DeltaTable
    tables: str
    group_ids: Collection[str] | None
    known: pa.Array
    is_all: bool
    new_lags: pa.Table

    @property
    def dataset(self) -> Dataset:
        """All rows for an engine that selects rows and columns itself."""
        is_whole = self.group_ids is None and self.is_all and not self.new_lags.num_rows
        if is_whole and delta.has_plain_files(self.opened):
            return delta.files_of(self.opened, self.tables, GROUP_LAG)
        return dataset(self.read(GROUP_LAG_ROW.names))

    def read(self, names: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Some columns of the rows for which a condition holds, among them `group_id`.

        Raises:
            ConfigurationError: the rows cannot be read.
        """
        groups = of_groups(self.group_ids)
        wanted = where if groups is None else groups if where is None else groups & where
        rows = delta.rows_of(self.opened, self.tables, GROUP_LAG, names, where=wanted)
        rows = rows.cast(nullable(rows.schema))
        # `run` writes one table after the other, and a group may be deleted since.
        rows = rows.filter(pc.is_in(rows["group_id"], self.known))
        new = self.new_lags if where is None else self.new_lags.filter(where)
        return pa.concat_tables([rows, new.select(names)])


class Evaluation:
    """The lag and status of groups at a moment.

    `status_since` is null unless the rows are those that `run` keeps.

    Attributes:
        at: the moment.
        rules: the limits of the statuses.
        stale: the verdict about all groups if the tables are stale.
        statuses: the rows of `group_status` (`GROUP_STATUS_ROW`), sorted by group, maybe without
            reasons and their topics and partitions: the method `group_status` adds them.
    """

    def __init__(
        self,
        at: datetime,
        rules: StatusRules,
        statuses: pa.Table,
        lags: pa.Table | KeptLags,
        judged: tuple[JudgedPartitions, JudgedGroups] | None = None,
    ) -> None:
        self.lock = RLock()
        self.at = at
        self.rules = rules
        self.statuses = statuses
        self._is_scanned = False
        self._lags = lags
        self._judged = judged
        self.stale = None if judged is None else judged[0].stale

    @once
    def lags(self) -> pa.Table:
        """The rows of `group_lag` (`GROUP_LAG_ROW`), maybe without reasons.

        The method `group_lag` adds them. Kept rows are in any order, others in that of the key.
        """
        return self._lag_rows(GROUP_LAG_ROW.names)

    def lag_columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of `lags`, among them `group_id`; the others are not read."""
        is_read = "lags" in self.__dict__
        return self.lags.select(names) if is_read else self._lag_rows(names)

    def lags_where(self, condition: pc.Expression) -> pa.Table:
        """The rows of `group_lag` for which a condition holds, with reasons, sorted by the key.

        The first time it reads only these of the kept rows; later, all are read once.
        """
        is_read = "lags" in self.__dict__ or self._is_scanned
        if isinstance(self._lags, KeptLags) and not is_read:
            self._is_scanned = True
            return _sorted(self._lags.read(GROUP_LAG_ROW.names, condition), GROUP_LAG)
        numbers = np.arange(self.lags.num_rows)
        selected = self.lags.append_column(_NUMBER, pa.array(numbers)).filter(condition)
        return _sorted(self.group_lag(selected[_NUMBER].to_numpy()), GROUP_LAG)

    def queried_lags(self) -> pa.Table | Dataset:
        """All rows of `group_lag` for an engine that selects rows and columns itself."""
        return self.group_lag() if isinstance(self._lags, pa.Table) else self._lags.dataset

    @once
    def topics(self) -> pa.Array:
        """The topics of all rows, in the order of their names."""
        names = pc.unique(self.lag_columns(["group_id", "topic"])["topic"])
        return names.take(pc.sort_indices(names))

    def _lag_rows(self, names: Sequence[str]) -> pa.Table:
        if isinstance(self._lags, pa.Table):
            return self._lags.select(names)
        return self._lags.read(names)

    @classmethod
    def of(
        cls,
        reader: TableReader,
        *,
        at: datetime | None = None,
        group_ids: Collection[str] | None = None,
        rules: StatusRules | None = None,
        known: KnownPaces | None = None,
    ) -> Evaluation:
        """Evaluate the groups of a snapshot, by default all of them at its moment.

        Who evaluates again and again passes the same `known`, so that less is read.
        """
        rules, at = rules or reader.status_rules, at or reader.moment
        known = known or KnownPaces()
        lags = group_lag(reader, at=at, group_ids=group_ids, known=known.logs)
        partitions = judged_partitions(reader, at, group_ids, rules, lags, known)
        groups = judged_groups(reader, at, group_ids, rules, partitions)
        return cls(
            at,
            rules,
            _evaluated(_of_groups(groups.table), at, GROUP_STATUS_ROW),
            _evaluated(_with_trends(lags, partitions), at, GROUP_LAG_ROW),
            (partitions, groups),
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

        A snapshot that is not the newest, or not consistent, is evaluated.
        """
        at = at or reader.moment
        is_newest = reader.is_newest and reader.is_consistent and at == reader.moment
        kept = cls.kept(reader, at=at, group_ids=group_ids, rules=rules) if is_newest else None
        return kept or cls.of(reader, at=at, group_ids=group_ids, rules=rules)

    @classmethod
    def kept(
        cls,
        reader: TableReader,
        *,
        at: datetime,
        group_ids: Collection[str] | None = None,
        rules: StatusRules | None = None,
    ) -> Evaluation | None:
        """The evaluation that `run` keeps in the tables; None if it is not of this moment.

        It is not if `run` has not evaluated for `KEPT_FOR`, if the tables are stale, or if `run`
        evaluated by other limits. Groups that are new since are evaluated, and deleted ones are
        left out.
        """
        is_other = rules not in (None, reader.status_rules)
        if is_other or Freshness.of(reader, at).verdict(reader.status_rules) is not None:
            return None
        tables = (GROUP_STATUS, GROUP_LAG)
        if not all(DeltaTable.is_deltatable(table.path(reader.tables)) for table in tables):
            return None
        status_table, lag_table = (
            delta.open_version(table.path(reader.tables), reader.tables) for table in tables
        )
        if limits_of(status_table.metadata().configuration) != reader.status_rules:
            return None
        statuses = delta.rows_of(
            status_table, reader.tables, GROUP_STATUS, where=of_groups(group_ids)
        ).cast(GROUP_STATUS_ROW)
        evaluated_at = pc.max(statuses["evaluated_at"]).as_py()
        # A reader of a snapshot from a moment ago takes the rows of now.
        if evaluated_at is None or abs(at - evaluated_at) > KEPT_FOR:
            return None
        existing = reader.own("groups", ["group_id"], group_ids)["group_id"].combine_chunks()
        is_existing = pc.is_in(statuses["group_id"], existing)
        statuses = statuses.filter(is_existing)
        known = statuses["group_id"].combine_chunks()
        new = existing.filter(pc.invert(pc.is_in(existing, known)))
        if len(new) > _MOST_NEW:
            return None
        new_groups = None
        if len(new):
            new_groups = cls.of(reader, at=at, group_ids=new.to_pylist(), rules=rules)
            statuses = pa.concat_tables([statuses, new_groups.group_status()])
        new_lags = GROUP_LAG_ROW.empty_table() if new_groups is None else new_groups.group_lag()
        is_all = len(known) == len(is_existing)
        lags = KeptLags(lag_table, reader.tables, group_ids, known, is_all, new_lags)
        return cls(evaluated_at, reader.status_rules, _sorted(statuses, GROUP_STATUS), lags)

    def numbers(self, group_ids: Sequence[str]) -> Int64s:
        """The numbers of the rows of those groups that exist, in this order."""
        places = pc.index_in(pa.array(group_ids, pa.string()), self.statuses["group_id"])
        numbers: Int64s = places.drop_null().to_numpy().astype(np.int64)
        return numbers

    @property
    def is_kept(self) -> bool:
        """Whether `run` evaluated, so that `status_since` is known."""
        return self._judged is None

    def group_lag(self, numbers: Int64s | None = None) -> pa.Table:
        """The rows of `group_lag` with these numbers, by default all, with their reasons.

        All rows are sorted by the key, others are in the order of the numbers.
        """
        if self._judged is None:
            is_all = numbers is None
            return _sorted(self.lags, GROUP_LAG) if is_all else self.lags.take(pa.array(numbers))
        numbers = np.arange(self.lags.num_rows) if numbers is None else numbers
        rows = self.lags.take(pa.array(numbers))
        return with_columns(rows, {"reason": self._judged[0].reasons(numbers)})

    def group_status(self, numbers: Int64s | None = None) -> pa.Table:
        """The rows of `group_status` with these numbers, by default all, with their reasons."""
        numbers = np.arange(self.statuses.num_rows) if numbers is None else numbers
        rows = self.statuses.take(pa.array(numbers))
        if self._judged is None:
            return rows
        reasons = self._judged[1].reasons(numbers)
        return with_columns(rows, {name: reasons[name] for name in reasons.column_names})

    def partition_status(self) -> pa.Table:
        """The view `partition_status`: some columns of `group_lag`."""
        return self.group_lag().select(_OF_PARTITION)


def _sorted(rows: pa.Table, table: Table) -> pa.Table:
    rows = rows.cast(nullable(rows.schema))
    return rows.sort_by([(name, "ascending") for name in table.key])


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
        **{name: partitions.usual(name) for name in ("usual_commit_ms", "usual_move_ms")},
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
