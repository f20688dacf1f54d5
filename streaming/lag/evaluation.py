"""The evaluation: lag, status and trend of every group at one moment, as columns.

`run` keeps its rows in the tables `group_lag` and `group_status`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import RLock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import Dataset, dataset

from coordinator_state.apply.columns import TIMESTAMP, columns_of, nullable
from coordinator_state.insight.group_status import StatusRules, Verdict
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import group_lag
from streaming.lag.group_statuses import group_statuses
from streaming.lag.paces import KnownPaces
from streaming.lag.partition_facts import partition_facts
from streaming.lag.partition_statuses import with_statuses
from streaming.tables import delta
from streaming.tables.filters import of_groups
from streaming.tables.once import once
from streaming.tables.properties import limits_of
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS, Table

GROUP_LAG_ROW = nullable(GROUP_LAG.schema)
GROUP_STATUS_ROW = nullable(GROUP_STATUS.schema)
KEPT_FOR: Final = timedelta(minutes=2)
"""`run` evaluates at least every minute, and then writes some rows, even if none has changed."""
_MOST_NEW: Final = 1_000
"""Groups that are evaluated beside the kept rows; if more are new, all are evaluated."""


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
        statuses: the rows of `group_status` (`GROUP_STATUS_ROW`), sorted by group.
        stale: the verdict about all groups if the tables are stale.
    """

    def __init__(
        self,
        at: datetime,
        rules: StatusRules,
        statuses: pa.Table,
        lags: pa.Table | KeptLags,
        stale: Verdict | None = None,
    ) -> None:
        self.lock = RLock()
        self.at = at
        self.rules = rules
        self.statuses = statuses
        self.stale = stale
        self._is_scanned = False
        self._lags = lags

    @property
    def is_kept(self) -> bool:
        """Whether `run` evaluated, so that `status_since` is known."""
        return isinstance(self._lags, KeptLags)

    @once
    def lags(self) -> pa.Table:
        """The rows of `group_lag` (`GROUP_LAG_ROW`): kept ones in any order, others by the key."""
        return self._lag_rows(GROUP_LAG_ROW.names)

    def group_lag(self) -> pa.Table:
        """The rows of `group_lag` in the order of the key."""
        return _sorted(self.lags, GROUP_LAG) if self.is_kept else self.lags

    def lag_columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of `lags`, among them `group_id`; the others are not read."""
        return self.lags.select(names) if self._is_read else self._lag_rows(names)

    def lags_where(self, condition: pc.Expression) -> pa.Table:
        """The rows of `group_lag` for which a condition holds, sorted by the key.

        The first time it reads only these of the kept rows; later, all are read once.
        """
        if isinstance(self._lags, KeptLags) and not (self._is_read or self._is_scanned):
            self._is_scanned = True
            return _sorted(self._lags.read(GROUP_LAG_ROW.names, condition), GROUP_LAG)
        return _sorted(self.lags.filter(condition), GROUP_LAG)

    def queried_lags(self) -> pa.Table | Dataset:
        """All rows of `group_lag` for an engine that selects rows and columns itself."""
        return self._lags.dataset if isinstance(self._lags, KeptLags) else self._lags

    @once
    def topics(self) -> pa.Array:
        """The topics of all rows, in the order of their names."""
        names = pc.unique(self.lag_columns(["group_id", "topic"])["topic"])
        return names.take(pc.sort_indices(names))

    @property
    def _is_read(self) -> bool:
        return "lags" in self.__dict__

    def _lag_rows(self, names: Sequence[str]) -> pa.Table:
        if isinstance(self._lags, KeptLags):
            return self._lags.read(names)
        return self._lags.select(names)

    @classmethod
    def of(
        cls,
        reader: TableReader,
        *,
        at: datetime | None = None,
        group_ids: Collection[str] | None = None,
        log_partitions: Collection[int] | None = None,
        rules: StatusRules | None = None,
        known: KnownPaces | None = None,
    ) -> Evaluation:
        """Evaluate the groups of a snapshot, by default all of them at its moment.

        A set of log partitions gives the same rows as each of them alone. Who evaluates again and
        again passes the same `known`, so that less is read.
        """
        rules, at = rules or reader.status_rules, at or reader.moment
        reader, known = reader.limited_to(log_partitions), known or KnownPaces()
        lags = group_lag(reader, at=at, group_ids=group_ids, known=known.logs)
        stale = Freshness.of(reader, at).verdict(rules)
        facts = partition_facts(reader, at, group_ids, rules, lags, known)
        partitions = with_statuses(lags, facts, rules, stale)
        statuses = group_statuses(reader, at, group_ids, rules, partitions, stale)
        return cls(
            at,
            rules,
            _evaluated(statuses, at, GROUP_STATUS_ROW),
            _evaluated(partitions, at, GROUP_LAG_ROW),
            stale,
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
            statuses = pa.concat_tables([statuses, new_groups.statuses])
        new_lags = GROUP_LAG_ROW.empty_table() if new_groups is None else new_groups.lags
        is_all = len(known) == len(is_existing)
        lags = KeptLags(lag_table, reader.tables, group_ids, known, is_all, new_lags)
        return cls(evaluated_at, reader.status_rules, _sorted(statuses, GROUP_STATUS), lags)


def _sorted(rows: pa.Table, table: Table) -> pa.Table:
    rows = rows.cast(nullable(rows.schema))
    return rows.sort_by([(name, "ascending") for name in table.key])


def _evaluated(rows: pa.Table, at: datetime, schema: pa.Schema) -> pa.Table:
    evaluated_at = pa.repeat(pa.scalar(at, TIMESTAMP), rows.num_rows)
    return columns_of(rows.append_column("evaluated_at", evaluated_at), schema)
