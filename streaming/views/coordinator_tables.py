"""The tables in Python: typed rows, and Arrow, pandas or Polars for those who compute with them.

from streaming import CoordinatorTables

tables = CoordinatorTables("tables")
for row in tables.status():
    print(row.group_id, row.status, row.reason)
tables.as_of("2026-11-21T03:14:00Z").lag("payments").to_pandas()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc

from streaming.errors import ConfigurationError
from streaming.kafka.offset_fetch import OffsetFetchAnswer
from streaming.lag.burrow_status import burrow_group_statuses, burrow_partition_statuses
from streaming.lag.expiring_offsets import expiring_offsets
from streaming.lag.group_lag import group_lag, lag_totals
from streaming.lag.group_status import group_statuses, partition_statuses
from streaming.tables import rows
from streaming.tables.reader import AsOf, TableReader, parse_as_of
from streaming.verify.verification import Verification
from streaming.verify.verify import verify_cluster
from streaming.views.offset_fetch import offset_fetch
from streaming.views.query import query
from streaming.views.snapshot import Snapshot

T = TypeVar("T")
GroupOrTopic = Literal["group", "topic"]
GroupOrPartition = Literal["group", "partition"]


class Rows(Sequence[T], Generic[T]):
    """Rows of one answer: a sequence of objects, and the Arrow table that they are made from."""

    def __init__(self, table: pa.Table, row_type: Callable[..., T]) -> None:
        self.arrow = table
        self._row_type = row_type

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __iter__(self) -> Iterator[T]:
        for batch in self.arrow.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield self._row_type(**row)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Rows[T]: ...
    def __getitem__(self, index: int | slice) -> T | Rows[T]:
        if isinstance(index, slice):
            return Rows(self.arrow.take(list(range(*index.indices(len(self))))), self._row_type)
        at = range(len(self))[index]
        return next(iter(Rows(self.arrow.slice(at, 1), self._row_type)))

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self.arrow.column_names)}>"

    def to_pandas(self) -> Any:
        """A pandas data frame.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        _needed("pandas")
        return self.arrow.to_pandas(maps_as_pydicts="strict")

    def to_polars(self) -> Any:
        """A Polars data frame.

        Raises:
            ConfigurationError: Polars is not installed.
        """
        return _needed("polars").from_arrow(self.arrow)


class CoordinatorTables:
    """The tables of a folder, all of them as of one micro-batch.

    It stays at the micro-batch that was the newest when it was made; `refreshed` gives the newest
    one. `group` in what follows leaves the rows of one group.

    Args:
        tables: the folder, or an address that delta-rs can open.
        as_of: a version of `load_progress`, or a time, as text too.
        consistent: where False, each table is as it is when it is read.

    Raises:
        ConfigurationError: no such folder, not a folder of this program, or nothing as old as
            `as_of`.
    """

    def __init__(
        self, tables: str | Path, *, as_of: AsOf | str | None = None, consistent: bool = True
    ) -> None:
        moment = parse_as_of(as_of) if isinstance(as_of, str) else as_of
        self.reader = TableReader(tables, as_of=moment, consistent=consistent)

    @cached_property
    def snapshot(self) -> Snapshot:
        """What SQL sees."""
        return Snapshot(self.reader)

    @property
    def version(self) -> int:
        """The version of `load_progress`: `as_of` takes it."""
        return self.reader.version

    @property
    def moment(self) -> datetime:
        """The moment that ages and time lags are measured to."""
        return self.reader.moment

    @property
    def cluster_id(self) -> str:
        """The Kafka cluster that the tables are of."""
        return self.reader.cluster_id

    def as_of(self, moment: AsOf | str) -> CoordinatorTables:
        """The tables as they were."""
        return CoordinatorTables(self.reader.tables, as_of=moment)

    def refreshed(self) -> CoordinatorTables:
        """The tables as they are by now."""
        return CoordinatorTables(self.reader.tables, consistent=self.reader.is_consistent)

    def groups(self, group: str | None = None) -> Rows[rows.GroupRow]:
        """Groups as their coordinator has them."""
        return self._table("groups", rows.GroupRow, group)

    def members(self, group: str | None = None) -> Rows[rows.MemberRow]:
        """Members of groups."""
        return self._table("group_members", rows.MemberRow, group)

    def offsets(self, group: str | None = None) -> Rows[rows.CommittedOffsetRow]:
        """Committed offsets as they are in the log; `offset_fetch` answers as a broker."""
        return self._table("group_offsets", rows.CommittedOffsetRow, group)

    def pending_offsets(self, group: str | None = None) -> Rows[rows.PendingOffsetRow]:
        """Offsets that wait for the end of a transaction."""
        return self._table("pending_offsets", rows.PendingOffsetRow, group)

    def history(self, group: str | None = None) -> Rows[rows.OffsetCommitRow]:
        """Every commit that the tables kept, applied or not."""
        return self._table("offset_commits", rows.OffsetCommitRow, group)

    def events(self, group: str | None = None) -> Rows[rows.GroupEventRow]:
        """What happened to groups and to their offsets."""
        return self._table("group_events", rows.GroupEventRow, group)

    def records(self, group: str | None = None) -> Rows[rows.CoordinatorRecordRow]:
        """The last record of each key, of the types that have no table of their own."""
        return self._table("coordinator_records", rows.CoordinatorRecordRow, group)

    def alerts(self, group: str | None = None) -> Rows[rows.AlertRow]:
        """What `alert run` found, as it is now."""
        return self._table("alerts", rows.AlertRow, group)

    def quarantine(self) -> Rows[rows.QuarantinedRecordRow]:
        """Records that could not be read."""
        return self._table("quarantine", rows.QuarantinedRecordRow)

    def progress(self) -> Rows[rows.LoadProgressRow]:
        """How far each log partition is materialised."""
        return self._table("load_progress", rows.LoadProgressRow)

    def log_samples(self) -> Rows[rows.LogSampleRow]:
        """The ends of topic partitions, as they were sampled."""
        return self._table("log_offsets", rows.LogSampleRow)

    def lag(self, group: str | None = None) -> Rows[rows.GroupLagRow]:
        """How far groups are behind in each partition."""
        return Rows(group_lag(self.reader, group_ids=_only(group)), rows.GroupLagRow)

    def lag_totals(
        self, by: GroupOrTopic = "group", group: str | None = None
    ) -> Rows[rows.LagTotalsRow]:
        """The same, put together by group, or by group and topic."""
        lags = group_lag(self.reader, group_ids=_only(group))
        return Rows(lag_totals(lags, by), rows.LagTotalsRow)

    def status(
        self, group: str | None = None, *, rules: Literal["default", "burrow"] = "default"
    ) -> Rows[rows.GroupStatusRow]:
        """In what state each group is, and why."""
        judged = burrow_group_statuses if rules == "burrow" else group_statuses
        return Rows(judged(self.reader, group_ids=_only(group)), rows.GroupStatusRow)

    def partition_status(
        self, group: str | None = None, *, rules: Literal["default", "burrow"] = "default"
    ) -> Rows[rows.PartitionStatusRow]:
        """In what state each group is with each partition, and why."""
        judged = burrow_partition_statuses if rules == "burrow" else partition_statuses
        return Rows(judged(self.reader, group_ids=_only(group)), rows.PartitionStatusRow)

    def expiring_offsets(
        self, group: str | None = None, *, retention: timedelta | None = None
    ) -> Rows[rows.ExpiringOffsetRow]:
        """When committed offsets expire, soonest first; `retention` in place of the cluster's."""
        retention_ms = None if retention is None else retention // timedelta(milliseconds=1)
        found = expiring_offsets(self.reader, retention_ms, group_ids=_only(group))
        return Rows(found, rows.ExpiringOffsetRow)

    def simple_groups(self, group: str | None = None) -> Rows[rows.SimpleGroupRow]:
        """Groups that only their offsets tell of: `assign()` without joining."""
        return self._view("simple_groups", rows.SimpleGroupRow, group)

    def hanging_transactions(self, group: str | None = None) -> Rows[rows.HangingTransactionRow]:
        """Transactions that have held offsets of a group back for more than 15 minutes."""
        return self._view("hanging_transactions", rows.HangingTransactionRow, group)

    def offset_fetch(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> list[OffsetFetchAnswer]:
        """What the group's coordinator would answer to OffsetFetch, errors included."""
        return offset_fetch(self.reader, group, partitions, require_stable=require_stable)

    def verify(
        self, bootstrap_servers: str, *, kafka: Mapping[str, str] | None = None
    ) -> Verification:
        """Compare the tables, as they are now, with the cluster's own answers."""
        return verify_cluster(bootstrap_servers, self.reader.tables, kafka=kafka)

    def sql(self, select: str) -> Rows[dict[str, Any]]:
        """The answer to a SELECT in DuckDB's SQL over all tables and views.

        Raises:
            ConfigurationError: it cannot be understood, or fails.
        """
        return Rows(query(select, self.snapshot), dict)

    def _view(self, name: str, row_type: Callable[..., T], group: str | None) -> Rows[T]:
        found: pa.Table = self.snapshot.queried(name)
        return Rows(
            found if group is None else found.filter(pc.field("group_id") == group), row_type
        )

    def _table(self, name: str, row_type: Callable[..., T], group: str | None = None) -> Rows[T]:
        filters = None if group is None else [("group_id", "=", group)]
        return Rows(self.reader.read(name, filters=filters), row_type)


def _needed(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        message = f"this needs {package}: pip install {package}"
        raise ConfigurationError(message) from error


def _only(group: str | None) -> list[str] | None:
    return None if group is None else [group]
