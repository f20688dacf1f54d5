"""Reading the tables without Spark, all of them as of one micro-batch.

Tables are written one after the other, `load_progress` last, with the Delta version that each
table had then. So `load_progress` is read first and every other table at the version it names:
whoever reads while a micro-batch is being applied sees the micro-batch before it, whole.
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
from streaming.tables.file_systems import local_path
from streaming.tables.format_version import require_current
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState:
    """How far one log partition is materialised.

    Where it is being loaded again, its rows are those of before.
    """

    log_partition: int
    state: str
    next_offset: int
    high_watermark: int
    is_reloading: bool = False


class TableReader:
    """The tables of a folder as of its newest finished micro-batch, or as of an earlier one.

    Args:
        tables: the folder, or an address that delta-rs can open.
        as_of: a version of `load_progress`, or a time (without a zone: UTC).
        consistent: where False, each table is read as it is when it is read, be a micro-batch half
            written.
        any_format: also tables of another format version, for who migrates them.

    Raises:
        ConfigurationError: no such folder, not a folder of this program, another format version, or
            nothing as old as `as_of`.
    """

    def __init__(
        self,
        tables: str | Path,
        *,
        as_of: AsOf | None = None,
        consistent: bool = True,
        any_format: bool = False,
    ) -> None:
        if as_of is not None and not consistent:
            raise ConfigurationError("tables as they were are always those of one micro-batch")
        self.tables = str(tables)
        progress = _open(LOAD_PROGRESS.path(self.tables), self.tables)
        # Of now, whatever `as_of` is: columns that came with a migration are null before it.
        self._properties = progress.metadata().configuration
        if not any_format:
            require_current(self.tables, self.format_version)
        as_of = _in_utc(as_of) if isinstance(as_of, datetime) else as_of
        if as_of is not None:
            _go_back(progress, as_of, self.tables)
        self.version = progress.version()
        """The version of `load_progress`: what `as_of` takes to get this snapshot again."""
        self._progress = _rows_as_of(progress, as_of, self.tables)
        if isinstance(as_of, datetime):
            self._check_begun(progress, as_of)
        self._as_of = as_of
        self.is_consistent = consistent
        """Whether all tables are of one micro-batch."""
        self._opened_at = datetime.now(timezone.utc)

    @property
    def format_version(self) -> str:
        """What the tables are like, see `streaming.tables.migration`."""
        return self._property(PROPERTY_FORMAT_VERSION)

    @property
    def cluster_id(self) -> str:
        """The Kafka cluster the tables were made from."""
        return self._property(PROPERTY_CLUSTER_ID)

    @property
    def topic_id(self) -> str:
        """The id of its `__consumer_offsets`: another one means that the topic was recreated."""
        return self._property(PROPERTY_TOPIC_ID)

    @property
    def log_partitions(self) -> int:
        """How many partitions `__consumer_offsets` has: what `partition_for` needs."""
        return int(self._property(PROPERTY_LOG_PARTITIONS))

    @property
    def semantics(self) -> str:
        """The replay rules: `coordinator` or `scala`."""
        return self._property(PROPERTY_SEMANTICS)

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` of the cluster, as it told the last run."""
        return int(self._property(PROPERTY_OFFSETS_RETENTION_MS))

    @cached_property
    def load_states(self) -> dict[int, LoadState]:
        """The materialised log partitions."""
        return {
            row["log_partition"]: LoadState(
                log_partition=row["log_partition"],
                state=row["state"],
                next_offset=row["next_offset"],
                high_watermark=row["high_watermark"],
                is_reloading=is_reloading(row["reload_reason"], row["reloaded_at"]),
            )
            for row in self._progress.to_pylist()
        }

    @cached_property
    def table_versions(self) -> dict[str, int]:
        """The Delta version of each table in this snapshot."""
        return pinned_versions(self._progress)

    @property
    def moment(self) -> datetime:
        """The moment that the snapshot is looked at: what ages and time lags are measured to.

        Without `as_of` it is when the snapshot was opened, with a version when that was written.
        """
        if isinstance(self._as_of, datetime):
            return self._as_of
        written_at: datetime | None = pc.max(self._progress["updated_at"]).as_py()
        return self._opened_at if self._as_of is None else written_at or self._opened_at

    def commits(self, most: int) -> list[tuple[int, datetime]]:
        """The last versions of `load_progress`, newest first, and when each was written."""
        opened = _open(LOAD_PROGRESS.path(self.tables), self.tables, version=self.version)
        return [
            (commit["version"], datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc))
            for commit in opened.history(most)
        ]

    @property
    def begins_at(self) -> datetime:
        """The earliest moment that the tables surely reach back to."""
        progress = _open(LOAD_PROGRESS.path(self.tables), self.tables)
        times = [commit["timestamp"] for commit in progress.history()]
        first, newest = (datetime.fromtimestamp(f(times) / 1000, timezone.utc) for f in (min, max))
        retention = snapshot_retention(self._properties)
        if retention is None:
            return first
        # What was replaced since then is kept, and what nobody replaced.
        return max(first, min(datetime.now(timezone.utc) - retention, newest))

    def before(self, moment: datetime) -> TableReader | None:
        """The snapshot that was the newest one at a moment, None where the tables begin later."""
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
        must hold; files of which a list's values tell that no row fits are not even opened. A table
        that no finished micro-batch knows of is empty. `log_offsets` and `alerts` belong to no
        snapshot and are given as they are now.
        """
        table = _TABLES[name]
        wanted = list(columns) if columns is not None else table.schema.names
        files = None
        condition = filters
        if isinstance(filters, list):
            condition = filters_to_expression(filters)
            # delta-rs has one name for it, pyarrow two.
            files = [(name, "=" if op == "==" else op, value) for name, op, value in filters]
        if table is LOAD_PROGRESS:
            found = self._progress if condition is None else self._progress.filter(condition)
            return found.select(wanted)
        opened = self._opened(table)
        if opened is None:
            return table.schema.empty_table().select(wanted)
        return delta.rows_of(opened, self.tables, table, wanted, where=condition, pruned=files)

    def dataset(self, name: str) -> Dataset:
        """One table of the snapshot for an engine that chooses rows and columns by itself."""
        table = _TABLES[name]
        opened = None if table is LOAD_PROGRESS else self._opened(table)
        if opened is None or delta.has_change_data_feed(opened):
            return dataset(self.read(name))
        return delta.files_of(opened, self.tables, table)

    def _opened(self, table: Table) -> DeltaTable | None:
        """A table at the version of the snapshot, None where there is none."""
        path = table.path(self.tables)
        if not self.is_consistent:
            return _open(path, self.tables) if DeltaTable.is_deltatable(path) else None
        version = self.table_versions.get(table.name)
        is_missing = version is None and table is not LOG_OFFSETS
        if table is ALERTS:
            is_missing = not DeltaTable.is_deltatable(path)
        return None if is_missing else _open(path, self.tables, version=version)

    def own(
        self, name: str, columns: Sequence[str], group_ids: Collection[str] | None = None
    ) -> pa.Table:
        """Rows of groups that are in the group's own log partition, as a coordinator has them.

        After `__consumer_offsets` was expanded, a group leaves an orphan in its old one.
        `log_partition` comes with the columns asked for.
        """
        wanted = list(dict.fromkeys([*columns, "group_id", "log_partition"]))
        found = self.read(name, wanted, of_groups(group_ids))
        groups = pc.unique(found["group_id"])
        own = [partition_for(group, self.log_partitions) for group in groups.to_pylist()]
        log_partitions = pa.array(own, pa.int32()).take(pc.index_in(found["group_id"], groups))
        return found.filter(pc.equal(found["log_partition"], log_partitions))

    def _property(self, name: str) -> str:
        value: str | None = self._properties.get(name)
        if value is None:
            raise ConfigurationError(
                f"{self.tables}: load_progress has no property {name}: these are not tables of "
                "coordinator-state"
            )
        return value

    def _check_begun(self, progress: DeltaTable, as_of: datetime) -> None:
        """delta-rs takes the first version for a time before it.

        The times of all commits are asked for only where what was read is from after `as_of`: they
        are read from every file of the log, and delta-rs takes no heed of a limit here.
        """
        written_at = pc.max(self._progress["updated_at"]).as_py()
        if written_at is not None and written_at <= as_of:
            return
        first = _begins_at(progress)
        if as_of < first:
            raise ConfigurationError(
                f"{self.tables} has nothing as of {as_of}: it begins at {first.isoformat()}"
            )


def is_reloading(reload_reason: str | None, reloaded_at: datetime | None) -> bool:
    """Whether a log partition is being reloaded, by its row of `load_progress`."""
    return reload_reason is not None and reloaded_at is None


def pinned_versions(progress: pa.Table) -> dict[str, int]:
    """The Delta version of each table in a snapshot, by the rows of its `load_progress`.

    A table that no row names was empty then. A row keeps the versions of the last micro-batch that
    wrote it, and versions only grow.
    """
    versions: dict[str, int] = {}
    for pairs in progress["table_versions"].to_pylist():
        for name, version in pairs or ():
            versions[name] = max(version, versions.get(name, version))
    return versions


def of_groups(group_ids: Collection[str] | None) -> pc.Expression | None:
    """The filter that leaves these groups, of all where None."""
    if group_ids is None:
        return None
    return pc.field("group_id").isin(pa.array(sorted(group_ids), pa.string()))


def parse_as_of(text: str) -> AsOf:
    """A version of `load_progress` or an ISO 8601 time, as on the command line.

    >>> parse_as_of("17")
    17
    >>> parse_as_of("2026-11-21T03:14Z").isoformat()
    '2026-11-21T03:14:00+00:00'

    Raises:
        ConfigurationError: neither.
    """
    try:
        if text.isdecimal():
            return int(text)
        # Python 3.10 does not read the Z.
        return _in_utc(datetime.fromisoformat(text.replace("Z", "+00:00")))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text[:40]!r} is neither a version nor a time such as 2026-11-21T03:14:00Z"
        ) from error


def _in_utc(moment: datetime) -> datetime:
    """Days of rows are those of UTC, so moments are too."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)


def _open(path: str, tables: str, version: int | None = None) -> DeltaTable:
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError as error:
        folder = local_path(tables)
        if folder is not None and not folder.exists():
            message = f"there is no folder {tables}: coordinator-state run makes it"
        else:
            message = f"{path} is no Delta table: {tables} holds no tables of coordinator-state"
        raise ConfigurationError(message) from error
    except (DeltaError, OSError) as error:
        raise ConfigurationError(f"cannot read {path}: {delta.said(error)}") from error


def _go_back(progress: DeltaTable, as_of: AsOf, tables: str) -> None:
    newest = progress.version()
    if isinstance(as_of, int) and as_of > newest:
        raise ConfigurationError(
            f"{tables} has nothing as of {as_of}: the newest version is {newest}"
        )
    try:
        progress.load_as_version(as_of)
    except (DeltaError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"{tables} has nothing as of {as_of}: {delta.said(error)}"
        ) from error


def _rows_as_of(progress: DeltaTable, as_of: AsOf | None, tables: str) -> pa.Table:
    try:
        return delta.rows_of(progress, tables, LOAD_PROGRESS)
    except ConfigurationError as error:
        if as_of is None:
            raise
        raise ConfigurationError(
            f"{tables} has nothing as of {as_of} any more: `run --snapshot-retention` says how "
            "long the tables can be read as they were"
        ) from error


def _begins_at(progress: DeltaTable) -> datetime:
    first_ms = min(commit["timestamp"] for commit in progress.history())
    return datetime.fromtimestamp(first_ms / 1000, tz=timezone.utc)
