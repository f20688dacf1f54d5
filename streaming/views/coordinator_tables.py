"""The tables in Python, as typed rows or as Arrow, pandas or Polars.

from coordinator_state import CoordinatorTables

tables = CoordinatorTables("tables")
for row in tables.status():
    print(row.group_id, row.status, row.reason)
tables.as_of("2026-11-21T03:14:00Z").lag("payments").to_pandas()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import columns_of
from coordinator_state.apply.rows import (
    CommittedOffsetRow,
    CoordinatorRecordRow,
    GroupEventRow,
    GroupRecordRow,
    GroupRow,
    MemberRow,
    OffsetCommitRow,
    PendingOffsetRow,
    QuarantinedRecordRow,
)
from coordinator_state.apply.topic_rows import (
    SharePartitionRow,
    TransactionEventRow,
    TransactionRow,
)
from coordinator_state.insight.explanation import Explanation
from streaming.errors import ConfigurationError
from streaming.kafka.offset_fetch import OffsetFetchAnswer
from streaming.lag.burrow_status import burrow_group_statuses, burrow_partition_statuses
from streaming.lag.evaluation import GROUP_STATUS_ROW, Evaluation
from streaming.lag.group_lag import LagTotalsRow, lag_totals
from streaming.tables.as_of import AsOf
from streaming.tables.reader import TableReader
from streaming.tables.rows import (
    AlertRow,
    ExternalOffsetRow,
    GroupLagRow,
    GroupStatusRow,
    LoadProgressRow,
    OffsetSampleRow,
    StatusChangeRow,
    TopicProgressRow,
)
from streaming.verify.verification import Verification
from streaming.views.definitions import (
    VIEWS,
    ExpiringOffsetRow,
    OpenTransactionRow,
    PartitionStatusRow,
    SimpleGroupRow,
    TopicRow,
)
from streaming.views.diagnosis import explained
from streaming.views.history import Moment, history
from streaming.views.offset_fetch import offset_fetch
from streaming.views.snapshot import Snapshot
from streaming.views.unknown_group import unknown_group

T = TypeVar("T")
GroupOrTopic = Literal["group", "topic"]


class Rows(Sequence[T], Generic[T]):
    """The rows of a result: a sequence of objects, backed by an Arrow table (`arrow`)."""

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
        _imported("pandas")
        return self.arrow.to_pandas(maps_as_pydicts="strict")

    def to_polars(self) -> Any:
        """A Polars data frame.

        Raises:
            ConfigurationError: Polars is not installed.
        """
        return _imported("polars").from_arrow(self.arrow)


class CoordinatorTables:
    """The tables of a folder, all of them as of one micro-batch.

    The object stays at the newest micro-batch of its creation; `refreshed` opens the current one.
    The argument `group` of the methods selects the rows of one group.

    Args:
        tables: the tables folder, or an address that delta-rs can open.
        as_of: a version of `load_progress`, or a time; both also as text.
        consistent: if False, each table is read at its newest version.

    Raises:
        ConfigurationError: the folder does not exist, is not a tables folder, or has no version
            as old as `as_of`.
    """

    def __init__(
        self, tables: str | Path, *, as_of: AsOf | str | None = None, consistent: bool = True
    ) -> None:
        self.reader = TableReader(tables, as_of=as_of, consistent=consistent)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The tables and views that `sql` reads."""
        return Snapshot(self.reader)

    @property
    def version(self) -> int:
        """The version of `load_progress`: `as_of` takes it. Of rebuilt tables it is the newest."""
        return self.reader.version

    @property
    def moment(self) -> datetime:
        """The end of all ages and time lags."""
        return self.reader.moment

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster that the tables belong to."""
        return self.reader.cluster_id

    def as_of(self, moment: AsOf | str) -> CoordinatorTables:
        """The tables as of an earlier version or time."""
        return CoordinatorTables(self.reader.tables, as_of=moment)

    def refreshed(self) -> CoordinatorTables:
        """The tables as of the newest micro-batch."""
        return CoordinatorTables(self.reader.tables, consistent=self.reader.is_consistent)

    def groups(self, group: str | None = None) -> Rows[GroupRow]:
        """Groups, as their coordinator has them."""
        return self._table("groups", GroupRow, group)

    def members(self, group: str | None = None) -> Rows[MemberRow]:
        """Members of groups."""
        return self._table("group_members", MemberRow, group)

    def offsets(self, group: str | None = None) -> Rows[CommittedOffsetRow]:
        """Committed offsets as in the log; `offset_fetch` answers as a broker."""
        return self._table("group_offsets", CommittedOffsetRow, group)

    def pending_offsets(self, group: str | None = None) -> Rows[PendingOffsetRow]:
        """Transactional commits whose marker is not read yet."""
        return self._table("pending_offsets", PendingOffsetRow, group)

    def history(
        self,
        group: str | None = None,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Rows[OffsetCommitRow]:
        """The history of offset commits, of every outcome, newest last; the arguments of `events`.

        Raises:
            ConfigurationError: a text is not a time.
        """
        commits = history(
            self.reader, "offset_commits", group=group, since=since, until=until, limit=limit
        )
        return Rows(commits.rows, OffsetCommitRow)

    def events(
        self,
        group: str | None = None,
        *,
        event: str | Collection[str] = (),
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Rows[GroupEventRow]:
        """The events of groups, members and offsets, newest last.

        Args:
            group: the group; all groups if None.
            event: one or more names of events; all if empty.
            since: the beginning of the period: a time, or a text as `as_of` takes.
            until: the end of the period.
            limit: return only this number of rows, the newest.

        Raises:
            ConfigurationError: a text is not a time, or a name is not an event.
        """
        events = history(
            self.reader,
            "group_events",
            group=group,
            events=[event] if isinstance(event, str) else event,
            since=since,
            until=until,
            limit=limit,
        )
        return Rows(events.rows, GroupEventRow)

    def records(self, group: str | None = None) -> Rows[CoordinatorRecordRow]:
        """The last record of each key, for record types without their own table."""
        return self._table("coordinator_records", CoordinatorRecordRow, group)

    def group_records(self, group: str | None = None) -> Rows[GroupRecordRow]:
        """The history of group records, from which earlier moments are rebuilt."""
        return self._table("group_records", GroupRecordRow, group)

    def transactions(self) -> Rows[TransactionRow]:
        """The transactional ids, as their transaction coordinators have them."""
        return self._table("transactions", TransactionRow)

    def transaction_events(self) -> Rows[TransactionEventRow]:
        """The beginnings and ends of transactions."""
        return self._table("transaction_events", TransactionEventRow)

    def share_partitions(self, group: str | None = None) -> Rows[SharePartitionRow]:
        """The partitions that share groups read, as their share coordinators have them."""
        return self._table("share_partitions", SharePartitionRow, group)

    def alerts(self, group: str | None = None) -> Rows[AlertRow]:
        """The alerts of `alert run`."""
        return self._table("alerts", AlertRow, group)

    def quarantine(self) -> Rows[QuarantinedRecordRow]:
        """Records that cannot be decoded."""
        return self._table("quarantine", QuarantinedRecordRow)

    def progress(self) -> Rows[LoadProgressRow]:
        """The progress row of each log partition."""
        return self._table("load_progress", LoadProgressRow)

    def topic_progress(self) -> Rows[TopicProgressRow]:
        """The progress row of each log partition of the other internal topics."""
        return self._table("topic_progress", TopicProgressRow)

    def offset_samples(self) -> Rows[OffsetSampleRow]:
        """The offset samples: log start and end of partitions over time."""
        return self._table("log_offsets", OffsetSampleRow)

    def external_offsets(self, group: str | None = None) -> Rows[ExternalOffsetRow]:
        """The offsets of external groups over time."""
        return self._table("external_offsets", ExternalOffsetRow, group)

    def lag(self, group: str | None = None) -> Rows[GroupLagRow]:
        """The lag, status and trend of groups in each partition."""
        evaluation = Evaluation.read(self.reader, group_ids=_only(group))
        return Rows(evaluation.group_lag(), GroupLagRow)

    def lag_totals(
        self, by: GroupOrTopic = "group", group: str | None = None
    ) -> Rows[LagTotalsRow]:
        """The lag of groups in total, or per topic."""
        lags = Evaluation.read(self.reader, group_ids=_only(group)).lags
        return Rows(lag_totals(lags, by), LagTotalsRow)

    def status(
        self, group: str | None = None, *, rules: Literal["default", "burrow"] = "default"
    ) -> Rows[GroupStatusRow]:
        """The status of each group, its reason and totals; Burrow's rules have no totals.

        Raises:
            ConfigurationError: there are no such rules.
        """
        judged = _of_rules(rules, default=_group_statuses, burrow=_burrow_group_statuses)
        return Rows(judged(self.reader, group_ids=_only(group)), GroupStatusRow)

    def status_changes(self, group: str | None = None) -> Rows[StatusChangeRow]:
        """The changes of status that `run` noticed."""
        return self._table("status_changes", StatusChangeRow, group)

    def explain(self, group: str) -> Explanation:
        """Why a group is behind, since when, and what changed just before.

        Raises:
            ConfigurationError: the tables know no such group.
        """
        explanation = explained(self.reader, group)
        if explanation is None:
            raise ConfigurationError(unknown_group(self.reader, group) or f"unknown group {group}")
        return explanation

    def partition_status(
        self, group: str | None = None, *, rules: Literal["default", "burrow"] = "default"
    ) -> Rows[PartitionStatusRow]:
        """The status of each group in each partition, and its reason.

        Raises:
            ConfigurationError: there are no such rules.
        """
        judged = _of_rules(rules, default=_partition_statuses, burrow=burrow_partition_statuses)
        return Rows(judged(self.reader, group_ids=_only(group)), PartitionStatusRow)

    def topics(self) -> Rows[TopicRow]:
        """The known topics, with the values of the groups that read them."""
        return self._view("topics", TopicRow, None)

    def expiring_offsets(
        self, group: str | None = None, *, retention: timedelta | None = None
    ) -> Rows[ExpiringOffsetRow]:
        """The expiry of committed offsets, soonest first; `retention` overrides the cluster's."""
        retention_ms = None if retention is None else retention // timedelta(milliseconds=1)
        offsets = self.snapshot.expiring_offsets(retention_ms, group_id=group)
        return Rows(offsets, ExpiringOffsetRow)

    def simple_groups(self, group: str | None = None) -> Rows[SimpleGroupRow]:
        """Groups known only from their offsets: consumers that use `assign()` and do not join."""
        return self._view("simple_groups", SimpleGroupRow, group)

    def open_transactions(self, group: str | None = None) -> Rows[OpenTransactionRow]:
        """Transactions with pending offsets of a group, and their owners."""
        return self._view("open_transactions", OpenTransactionRow, group)

    def hanging_transactions(self, group: str | None = None) -> Rows[OpenTransactionRow]:
        """Transactions whose offsets of a group are pending for more than 15 minutes."""
        return self._view("hanging_transactions", OpenTransactionRow, group)

    def offset_fetch(
        self,
        group: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> list[OffsetFetchAnswer]:
        """The answer of the group's coordinator to OffsetFetch, errors included."""
        return offset_fetch(self.reader, group, partitions, require_stable=require_stable)

    def verify(
        self, bootstrap_servers: str, *, kafka: Mapping[str, str] | None = None
    ) -> Verification:
        """Compare the newest tables with the answers of the cluster's coordinators."""
        from streaming.verify.verify import verify_cluster

        return verify_cluster(bootstrap_servers, self.reader.tables, kafka=kafka)

    def sql(self, select: str) -> Rows[dict[str, Any]]:
        """The answer to a SELECT in DuckDB's SQL over all tables and views.

        Raises:
            ConfigurationError: the query is not valid, is not a SELECT, or fails.
        """
        from streaming.views.query import query

        return Rows(query(select, self.snapshot), dict)

    def _view(self, name: str, row_type: Callable[..., T], group: str | None) -> Rows[T]:
        table: pa.Table = self.snapshot.queried(name)
        return Rows(
            table if group is None else table.filter(pc.field("group_id") == group), row_type
        )

    def _table(self, name: str, row_type: Callable[..., T], group: str | None = None) -> Rows[T]:
        filters = None if group is None else [("group_id", "=", group)]
        return Rows(self.reader.read(name, filters=filters), row_type)


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        message = f"this needs {package}: pip install {package}"
        raise ConfigurationError(message) from error


def _of_rules(rules: str, **judges: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
    if rules not in judges:
        raise ConfigurationError(f"unknown rules {rules!r}: the rules are {' and '.join(judges)}")
    return judges[rules]


def _partition_statuses(reader: TableReader, *, group_ids: list[str] | None) -> pa.Table:
    return (
        Evaluation.read(reader, group_ids=group_ids)
        .group_lag()
        .select(VIEWS["partition_status"].names)
    )


def _group_statuses(reader: TableReader, *, group_ids: list[str] | None) -> pa.Table:
    return Evaluation.read(reader, group_ids=group_ids).statuses


def _burrow_group_statuses(reader: TableReader, *, group_ids: list[str] | None) -> pa.Table:
    rows = burrow_group_statuses(reader, group_ids=group_ids)
    moments = pa.repeat(pa.scalar(reader.moment), rows.num_rows)
    return columns_of(rows.append_column("evaluated_at", moments), GROUP_STATUS_ROW)


def _only(group: str | None) -> list[str] | None:
    return None if group is None else [group]
