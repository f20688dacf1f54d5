"""Reads of the tables without Spark, all at the same snapshot.

A micro-batch writes the tables one after the other and `load_progress` last, with the Delta version
of each table. A reader reads `load_progress` first, and each other table at the version it names.
While a micro-batch is being applied, a reader therefore sees the snapshot before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.dataset import Dataset, dataset
from pyarrow.parquet import filters_to_expression

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.tables import delta
from streaming.tables.creation import snapshot_retention
from streaming.tables.format_version import require_current
from streaming.tables.locations import local_path
from streaming.tables.schemas import (
    ALERTS,
    ALL_TABLES,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    PROPERTY_CLUSTER_ID,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
    PROPERTY_TOPIC_ID,
    Table,
)

AsOf: TypeAlias = datetime | int
Filters: TypeAlias = "pc.Expression | list[tuple[str, str, Any]]"
_TABLES: Mapping[str, Table] = {table.name: table for table in (*ALL_TABLES, ALERTS)}
_LOAD_STATE_COLUMNS = ["log_partition", "state", "next_offset", "high_watermark"]
_LOAD_STATE_COLUMNS += ["reload_reason", "reloaded_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState:
    """The progress of one log partition.

    During a reload its rows are those before the reload.
    """

    log_partition: int
    state: str
    next_offset: int
    high_watermark: int
    is_reloading: bool = False


class TableReader:
    """The tables of a folder at the newest snapshot, or at an earlier one.

    Args:
        tables: the folder, or an address that delta-rs can open.
        as_of: a version of `load_progress`, or a time (without a zone: UTC); both also as text.
        consistent: if False, each table is read at its newest version, even if a micro-batch is
            half written.
        any_format: whether to accept any format version; a migration needs this.

    Raises:
        ConfigurationError: the folder does not exist, has no tables of this program, has another
            format version, or has no snapshot as old as `as_of`.
    """

    def __init__(
        self,
        tables: str | Path,
        *,
        as_of: AsOf | str | None = None,
        consistent: bool = True,
        any_format: bool = False,
    ) -> None:
        moment = parse_as_of(as_of) if isinstance(as_of, str) else as_of
        if moment is not None and not consistent:
            raise ConfigurationError(
                "--as-of reads a snapshot, whose tables are consistent: leave out --newest"
            )
        self.tables = str(tables)
        progress = _open(LOAD_PROGRESS.path(self.tables), self.tables)
        # The current properties, even with `as_of`: the schema is current, too, and columns that a
        # migration added are null in earlier versions.
        self._properties = progress.metadata().configuration
        if not any_format:
            require_current(self.tables, self.format_version)
        moment = _in_utc(moment) if isinstance(moment, datetime) else moment
        if moment is not None:
            _load_as_of(progress, moment, self.tables)
        self.version = progress.version()
        """The version of `load_progress`; as `as_of` it gives this snapshot again."""
        self._progress = _rows_as_of(progress, moment, self.tables)
        if isinstance(moment, datetime):
            self._require_reaches_back_to(progress, moment)
        self._as_of = moment
        self.is_consistent = consistent
        """Whether all tables are read at one snapshot."""
        self._opened_at = datetime.now(timezone.utc)
        self._open_tables: dict[str, DeltaTable] = {}

    @property
    def format_version(self) -> str:
        """The format version of the tables, see `streaming.tables.migration`."""
        return self._property(PROPERTY_FORMAT_VERSION)

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster that the tables were loaded from."""
        return self._property(PROPERTY_CLUSTER_ID)

    @property
    def topic_id(self) -> str:
        """The topic id of `__consumer_offsets`; it changes when the topic is recreated."""
        return self._property(PROPERTY_TOPIC_ID)

    @property
    def log_partitions(self) -> int:
        """The number of partitions of `__consumer_offsets`; `partition_for` needs it."""
        return int(self._property(PROPERTY_LOG_PARTITIONS))

    @property
    def semantics(self) -> str:
        """The semantics: `coordinator` or `scala`."""
        return self._property(PROPERTY_SEMANTICS)

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` of the cluster in milliseconds, as the last run read it."""
        return int(self._property(PROPERTY_OFFSETS_RETENTION_MS))

    @cached_property
    def load_states(self) -> dict[int, LoadState]:
        """The progress of each log partition of the tables."""
        return {
            row["log_partition"]: LoadState(
                log_partition=row["log_partition"],
                state=row["state"],
                next_offset=row["next_offset"],
                high_watermark=row["high_watermark"],
                is_reloading=is_reloading(row["reload_reason"], row["reloaded_at"]),
            )
            for row in self._progress.select(_LOAD_STATE_COLUMNS).to_pylist()
        }

    @cached_property
    def table_versions(self) -> dict[str, int]:
        """The Delta version of each table in this snapshot."""
        return pinned_versions(self._progress)

    @property
    def moment(self) -> datetime:
        """The time to which ages and time lags of the snapshot are measured.

        It is a time given as `as_of`, or when the version given as `as_of` was written, or else
        when the snapshot was opened.
        """
        if isinstance(self._as_of, datetime):
            return self._as_of
        written_at: datetime | None = pc.max(self._progress["updated_at"]).as_py()
        return self._opened_at if self._as_of is None else written_at or self._opened_at

    def commits(self, most: int) -> list[tuple[int, datetime]]:
        """The last `most` versions of `load_progress`, newest first, and when each was written."""
        opened = _open(LOAD_PROGRESS.path(self.tables), self.tables, version=self.version)
        return [
            (commit["version"], datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc))
            for commit in opened.history(most)
        ]

    @property
    def begins_at(self) -> datetime:
        """The earliest time for which the tables are sure to have a snapshot."""
        progress = _open(LOAD_PROGRESS.path(self.tables), self.tables)
        times = [commit["timestamp"] for commit in progress.history()]
        first, newest = (datetime.fromtimestamp(f(times) / 1000, timezone.utc) for f in (min, max))
        retention = snapshot_retention(self._properties)
        if retention is None:
            return first
        # Versions that were replaced within the retention are kept, and so is the newest version.
        return max(first, min(datetime.now(timezone.utc) - retention, newest))

    def before(self, moment: datetime) -> TableReader | None:
        """The newest snapshot at a time; None if the tables do not reach back to it."""
        try:
            found = TableReader(self.tables, as_of=moment)
        except ConfigurationError:
            return None
        return found if found.load_states else None

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> pa.Table:
        """One table of the snapshot, with the columns and types of `streaming.tables.schemas`.

        `filters` is a pyarrow expression or a list of `(column, operator, value)`, all of which
        must hold. With a list, files are skipped whose statistics exclude all rows. A table that
        no micro-batch has written is empty. `log_offsets` and `alerts` belong to no snapshot and
        are read at their newest version.
        """
        table = _TABLES[name]
        wanted = list(columns) if columns is not None else table.schema.names
        files = None
        condition = filters
        if isinstance(filters, list):
            condition = filters_to_expression(filters)
            # pyarrow accepts both "=" and "==", delta-rs only "=".
            files = [(name, "=" if op == "==" else op, value) for name, op, value in filters]
        if table is LOAD_PROGRESS:
            found = self._progress if condition is None else self._progress.filter(condition)
            return found.select(wanted)
        opened = self._opened(table)
        if opened is None:
            return table.schema.empty_table().select(wanted)
        return delta.rows_of(opened, self.tables, table, wanted, where=condition, pruned=files)

    def dataset(self, name: str) -> Dataset:
        """One table of the snapshot for an engine that selects rows and columns itself."""
        table = _TABLES[name]
        opened = None if table is LOAD_PROGRESS else self._opened(table)
        if opened is None or delta.has_change_data_feed(opened):
            return dataset(self.read(name))
        return delta.files_of(opened, self.tables, table)

    def _opened(self, table: Table) -> DeltaTable | None:
        """Open a table at the version of the snapshot; None if the snapshot lacks the table."""
        path = table.path(self.tables)
        if not self.is_consistent:
            return _open(path, self.tables) if DeltaTable.is_deltatable(path) else None
        version = self.table_versions.get(table.name)
        if table is ALERTS:
            return _open(path, self.tables) if DeltaTable.is_deltatable(path) else None
        if table is LOG_OFFSETS:
            return _open(path, self.tables)
        if version is not None and table.name not in self._open_tables:
            # Opening a version reads the Delta log, which takes longer than a small read.
            self._open_tables[table.name] = _open(path, self.tables, version=version)
        return self._open_tables.get(table.name)

    def own(
        self, name: str, columns: Sequence[str], group_ids: Collection[str] | None = None
    ) -> pa.Table:
        """Rows of groups in the group's own log partition, as the coordinator has them.

        After `__consumer_offsets` gets more partitions, a group may leave orphaned rows in its old
        log partition. The result has `log_partition` besides the given columns.
        """
        wanted = list(dict.fromkeys([*columns, "group_id", "log_partition"]))
        found = self.read(name, wanted, of_groups(group_ids))
        groups = pc.unique(found["group_id"])
        number = self.log_partitions
        own = [partition_for(group, number) for group in groups.to_pylist()]
        log_partitions = pa.array(own, pa.int32()).take(pc.index_in(found["group_id"], groups))
        return found.filter(pc.equal(found["log_partition"], log_partitions))

    def _property(self, name: str) -> str:
        value: str | None = self._properties.get(name)
        if value is None:
            raise ConfigurationError(
                f"load_progress in {self.tables} has no property {name}, so it was not created by "
                "coordinator-state: name another folder with --tables"
            )
        return value

    def _require_reaches_back_to(self, progress: DeltaTable, as_of: datetime) -> None:
        """Refuse a time before the first version: delta-rs opens the first version for it.

        The times of all commits are read only if the opened version was written after `as_of`:
        delta-rs reads every file of the log for them, even with a limit.
        """
        written_at = pc.max(self._progress["updated_at"]).as_py()
        if written_at is not None and written_at <= as_of:
            return
        first = _begins_at(progress)
        if as_of < first:
            raise ConfigurationError(
                f"{self.tables} has no snapshot as of {as_of}: its tables begin at "
                f"{first.isoformat()}"
            )


def is_reloading(reload_reason: str | None, reloaded_at: datetime | None) -> bool:
    """Whether a log partition is being reloaded, by its row of `load_progress`."""
    return reload_reason is not None and reloaded_at is None


def pinned_versions(progress: pa.Table) -> dict[str, int]:
    """The Delta version of each table in a snapshot, from the rows of its `load_progress`.

    A table that no row names is empty. Each row has the versions of the last micro-batch that wrote
    the row, and versions only grow.
    """
    versions: dict[str, int] = {}
    for pairs in progress["table_versions"].to_pylist():
        for name, version in pairs or ():
            versions[name] = max(version, versions.get(name, version))
    return versions


def of_groups(group_ids: Collection[str] | None) -> pc.Expression | None:
    """The filter for these groups; None (no filter) for None."""
    if group_ids is None:
        return None
    return pc.field("group_id").isin(pa.array(sorted(group_ids), pa.string()))


def parse_as_of(text: str) -> AsOf:
    """Parse a version of `load_progress` or an ISO 8601 time.

    >>> parse_as_of("17")
    17
    >>> parse_as_of("2026-11-21T03:14Z").isoformat()
    '2026-11-21T03:14:00+00:00'

    Raises:
        ConfigurationError: the text is neither.
    """
    try:
        if text.isdecimal():
            return int(text)
        # Python 3.10 does not parse the Z.
        return _in_utc(datetime.fromisoformat(text.replace("Z", "+00:00")))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text[:40]!r} is neither a version nor a time such as 2026-11-21T03:14:00Z"
        ) from error


def _in_utc(moment: datetime) -> datetime:
    """A time in UTC, as the `day` of rows is."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)


def _open(path: str, tables: str, version: int | None = None) -> DeltaTable:
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError as error:
        folder = local_path(tables)
        if folder is not None and not folder.exists():
            message = f"there is no folder {tables}: coordinator-state run creates it"
        else:
            message = f"{path} is no Delta table: {tables} has no tables of coordinator-state"
        raise ConfigurationError(message) from error
    except (DeltaError, OSError) as error:
        raise ConfigurationError(f"cannot read {path}: {delta.error_text(error)}") from error


def _load_as_of(progress: DeltaTable, as_of: AsOf, tables: str) -> None:
    newest = progress.version()
    if isinstance(as_of, int) and as_of > newest:
        raise ConfigurationError(
            f"{tables} has no snapshot as of {as_of}: the newest version is {newest}"
        )
    try:
        progress.load_as_version(as_of)
    except (DeltaError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"{tables} has no snapshot as of {as_of}: {delta.error_text(error)}"
        ) from error


def _rows_as_of(progress: DeltaTable, as_of: AsOf | None, tables: str) -> pa.Table:
    try:
        return delta.rows_of(progress, tables, LOAD_PROGRESS)
    except ConfigurationError as error:
        if as_of is None:
            raise
        raise ConfigurationError(
            f"{tables} has no snapshot as of {as_of} any more: `run --snapshot-retention` sets how "
            "long snapshots are kept"
        ) from error


def _begins_at(progress: DeltaTable) -> datetime:
    first_ms = min(commit["timestamp"] for commit in progress.history())
    return datetime.fromtimestamp(first_ms / 1000, tz=timezone.utc)
