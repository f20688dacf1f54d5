"""Reads of the tables without Spark, all at the same snapshot.

A micro-batch writes the tables one after the other and `load_progress` last, with the Delta version
of each table. A reader reads `load_progress` first, and each other table at the version it names.
While a micro-batch is being applied, a reader therefore sees the snapshot before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset, dataset
from pyarrow.parquet import filters_to_expression

from coordinator_state.apply.group_placement import of_own_log_partition
from streaming.clock import confirm, utc_now
from streaming.errors import ConfigurationError, MomentNotRebuilt
from streaming.tables import delta
from streaming.tables.as_of import AsOf, in_utc, parse_as_of
from streaming.tables.creation import snapshot_retention
from streaming.tables.external_offsets import UNITED, ExternalOffsets
from streaming.tables.filters import Filters, of_groups
from streaming.tables.format_version import require_current
from streaming.tables.load_state import LoadState, load_states, pinned_versions
from streaming.tables.locations import local_path, require_usable
from streaming.tables.moments import TIME, CommitMoments
from streaming.tables.properties import TableProperties
from streaming.tables.readable_moments import ReadableMoments
from streaming.tables.rebuilding import HISTORY_TIMES, Rebuilding, RebuiltTables
from streaming.tables.schemas import (
    ALERTS,
    ALL_TABLES,
    BESIDE_TABLES,
    HISTORY_OFF,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    PROPERTY_HISTORY,
    PROPERTY_HISTORY_RESOLUTION,
    PROPERTY_KAFKA_RELEASE,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_SEMANTICS,
    STATE_TABLES,
    TOPIC_PROGRESS,
    Table,
)

_OF_SNAPSHOT = (PROPERTY_SEMANTICS, PROPERTY_KAFKA_RELEASE)
_OF_BASE = (*_OF_SNAPSHOT, PROPERTY_LOG_PARTITIONS, PROPERTY_HISTORY, PROPERTY_HISTORY_RESOLUTION)
_SMALL_SKEW_MS = 5_000
_LIVE = timedelta(seconds=5)
"""A `run` that is never behind writes the next snapshot at most so long after one."""
_NOT_REBUILT = (*STATE_TABLES.values(), TOPIC_PROGRESS)
"""Tables without history: they are empty at moments before the oldest snapshot."""
_REACH_OF_RATES = timedelta(minutes=5)
_OF_NO_SNAPSHOT = frozenset({ALERTS, *BESIDE_TABLES} - {LOG_OFFSETS})
_TABLES: Mapping[str, Table] = {table.name: table for table in (*ALL_TABLES, ALERTS)}


class TableReader(TableProperties):
    """The tables of a folder at the newest snapshot, or at an earlier one.

    Moments before the oldest snapshot are rebuilt from a base and the history, see
    `streaming.tables.rebuilding`.

    Args:
        tables: the folder, or an address that delta-rs can open.
        as_of: a version of `load_progress`, or a time (without a zone: UTC); both also as text.
        consistent: if False, each table is read at its newest version, even if a micro-batch is
            half written.
        any_format: whether to accept any format version; a migration needs this.
        rebuilding: keeps the history of a span with the moment.
        leaves_late: whether a moment that `run` had not read then is rebuilt. It takes longer.

    Raises:
        ConfigurationError: the folder does not exist, has no tables of this program, has another
            format version, or has no snapshot as old as `as_of`.
    """

    with_external: bool = True
    """Whether tables of groups have the rows of external groups, see `of_kafka`."""
    _offsets: ExternalOffsets | None = None
    _rebuilding: Rebuilding | None = None
    _rebuilt: RebuiltTables | None = None

    def __init__(
        self,
        tables: str | Path,
        *,
        as_of: AsOf | str | None = None,
        consistent: bool = True,
        any_format: bool = False,
        rebuilding: Rebuilding | None = None,
        leaves_late: bool = True,
    ) -> None:
        moment = parse_as_of(as_of) if isinstance(as_of, str) else as_of
        if moment is not None and not consistent:
            raise ConfigurationError(
                "--as-of reads a snapshot, whose tables are consistent: leave out --newest"
            )
        self.tables = str(tables)
        require_usable(self.tables)
        self.began_at = utc_now()
        """Every version of a table from before this time was there to be read."""
        progress = delta.open_version(LOAD_PROGRESS.path(self.tables), self.tables)
        # The current properties, even with `as_of`, except for the loader's rules: the schema is
        # current, too, and columns that a migration added are null in earlier versions.
        self._properties = progress.metadata().configuration
        if not any_format:
            require_current(self.tables, self.format_version)
        moment = in_utc(moment) if isinstance(moment, datetime) else moment
        self._moments = CommitMoments(LOAD_PROGRESS.path(self.tables), progress.version())
        self._opened_at = utc_now()
        # The current retention also counts with `as_of`.
        retention = snapshot_retention(self._properties)
        self._readable = ReadableMoments(self.tables, self._moments, retention, self._opened_at)
        self._open_tables: dict[tuple[str, int | None], DeltaTable] = {}
        self._as_of = moment
        self._rebuilding = rebuilding
        self.is_consistent = consistent
        """Whether all tables are read at one snapshot."""
        if moment is not None and self._readable.is_before_snapshots(moment):
            self._rebuild(moment)
        if moment is not None and self._rebuilt is None:
            self._load_as_of(progress, moment)
        if self._rebuilt is None:
            self._progress = self._rows(progress)
        if isinstance(moment, datetime) and self._rebuilt is None and leaves_late:
            self._leave_late_snapshot(progress.version(), moment)
        self.version = progress.version() if self._rebuilt is None else self._moments.newest
        """The version of `load_progress`; of rebuilt tables the newest, see `as_of`."""
        written_at = pc.max(self._progress["updated_at"]).as_py() if moment is None else None
        if written_at is not None and written_at > self._opened_at:
            # A pause of this machine, which the clock does not know, looks like a jump.
            confirm(min(written_at, self.committed_at))
            self._opened_at = utc_now()
        folder = local_path(self.tables)
        if folder is not None and not any_format:
            self._require_tables(folder)

    def _require_tables(self, folder: Path) -> None:
        """Refuse a folder that lacks a table, also if nobody reads that one."""
        for name in self.table_versions:
            if not (folder / name).is_dir():
                raise delta.missing(folder / name, self.tables)

    @cached_property
    def load_states(self) -> dict[int, LoadState]:
        """The progress of each log partition of the tables."""
        return load_states(self._progress)

    @cached_property
    def clock_skew(self) -> timedelta:
        """How far the brokers' clock is ahead of that of `run`.

        It is 0 if it is unknown or small: records are some seconds old when they are read.
        """
        if "clock_skew_ms" not in self._progress.column_names:
            # A snapshot from before the migration.
            return timedelta()
        skew_ms = pc.max(self._progress["clock_skew_ms"]).as_py() or 0
        return timedelta(milliseconds=skew_ms if abs(skew_ms) > _SMALL_SKEW_MS else 0)

    def own_times(self, times: Any) -> Any:
        """Times by the brokers' clock, by the clock of `run`."""
        return pc.subtract(times, pa.scalar(self.clock_skew)) if self.clock_skew else times

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
        if self._as_of is None:
            return self._opened_at
        written_at: datetime | None = pc.max(self._progress["updated_at"]).as_py()
        return written_at or self.written_at

    @property
    def is_newest(self) -> bool:
        """Whether this is the newest snapshot, and not that of an earlier moment."""
        return self._as_of is None

    @property
    def written_at(self) -> datetime:
        """When the snapshot was written, by the commit of its `load_progress`."""
        return self._moments.of(self.version) or self._opened_at

    @property
    def committed_at(self) -> datetime:
        """When the snapshot was written, by the clock of the writer.

        It is earlier than `written_at` if the clock was set back: moments always grow.
        """
        return self._moments.committed_at(self.version) or self._opened_at

    def commits(self, most: int) -> list[tuple[int, datetime]]:
        """The last `most` versions of `load_progress`, newest first, and when each was written."""
        return list(islice(self._moments.newest_first(self.version), most))

    @property
    def as_of(self) -> AsOf:
        """The moment of rebuilt tables, or else the version; as `as_of` it gives them again."""
        return self.version if self._rebuilt is None else self._rebuilt.moment

    @property
    def rebuilt_from(self) -> str | None:
        """The sources and the precision of rebuilt tables; None for a snapshot."""
        if self._rebuilt is None:
            return None
        base, precision = self._rebuilt.base, self._rebuilt.precision
        return f"rebuilt from the base of {base:{TIME}} and the history; {precision}"

    def lacks(self, name: str) -> bool:
        """Whether a table is empty because the moment is rebuilt, and the table has no history."""
        return self._rebuilt is not None and _TABLES[name] in _NOT_REBUILT

    @property
    def begins_at(self) -> datetime:
        """The earliest time that can be read: that of the oldest base, or else snapshot."""
        return self._readable.begin_at

    def before(self, moment: datetime) -> TableReader | None:
        """The tables at an earlier time; None if they do not reach back to it."""
        rebuilding = self._rebuilding
        is_of_span = rebuilding is not None and moment >= rebuilding.since
        if rebuilding is not None and is_of_span and not self.reads_snapshot(moment, rebuilding):
            rebuilt = self.rebuilt(moment, rebuilding)
            if rebuilt is not None:
                return rebuilt
        try:
            # The rates of each evaluation compare with an earlier snapshot.
            reader = TableReader(
                self.tables,
                as_of=moment,
                rebuilding=rebuilding if is_of_span else None,
                leaves_late=is_of_span,
            )
        except ConfigurationError:
            return None
        reader.with_external = self.with_external
        return reader if reader.load_states else None

    def keep(self, rebuilding: Rebuilding) -> None:
        """Take the history of a span from a rebuilding that keeps it."""
        if self._rebuilt is None:
            self._rebuilding = rebuilding

    def reads_snapshot(self, moment: datetime, rebuilding: Rebuilding) -> bool:
        """Whether a moment of a span is read from its snapshot."""
        return rebuilding.prefers_snapshots and not self._readable.is_before_snapshots(moment)

    def rebuilt(self, moment: datetime, rebuilding: Rebuilding) -> TableReader | None:
        """The tables at a moment of a rebuilding's span; None if they cannot be rebuilt."""
        reader = copy(self)
        reader._rebuilding = rebuilding
        with suppress(MomentNotRebuilt):
            return reader if reader._rebuild(moment) else None
        return None

    def rebuilding(
        self, since: datetime, until: datetime, group_ids: Collection[str] | None = None
    ) -> Rebuilding:
        """The bases and the history of a time span, and of what rates at its start need."""
        return Rebuilding(
            tables=self.tables,
            since=since - _REACH_OF_RATES,
            until=until,
            where=of_groups(group_ids),
        )

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> pa.Table:
        """One table of the snapshot, with the columns and types of `streaming.tables.schemas`.

        `filters` is a pyarrow expression or a list of `(column, operator, value)`, all of which
        must hold. With a list, files are skipped whose statistics exclude all rows. A table that
        no micro-batch has written is empty, and so is one that cannot be rebuilt. `BESIDE_TABLES`
        and `alerts` belong to no snapshot and are read at their newest version.

        Tables of groups also have the rows of external groups; those are of the moment.
        """
        rows = self._of_tables(name, columns, filters)
        external = self._external(name, filters)
        return (
            rows
            if external is None
            else pa.concat_tables([rows, external.select(rows.column_names)])
        )

    def _of_tables(
        self, name: str, columns: Sequence[str] | None, filters: Filters | None
    ) -> pa.Table:
        table = _TABLES[name]
        wanted = list(columns) if columns is not None else table.schema.names
        files = None
        condition = filters
        if isinstance(filters, list):
            condition = filters_to_expression(filters)
            # pyarrow accepts both "=" and "==", delta-rs only "=".
            files = [(name, "=" if op == "==" else op, value) for name, op, value in filters]
        if table is LOAD_PROGRESS:
            rows = self._progress if condition is None else self._progress.filter(condition)
            return rows.select(wanted)
        if self._rebuilt is not None and name in self._rebuilt.rows:
            rows = self._rebuilt.rows[name]
            return (rows if condition is None else rows.filter(condition)).select(wanted)
        if self._rebuilding is not None and isinstance(filters, list):
            kept = self._rebuilding.kept_rows(table, wanted, filters, self.moment)
            if kept is not None:
                return kept.select(wanted)
        until = self._until(table)
        if until is not None:
            condition = until if condition is None else condition & until
        opened = self._opened(table)
        if opened is None:
            return table.schema.empty_table().select(wanted)
        return delta.rows_of(opened, self.tables, table, wanted, where=condition, pruned=files)

    def rows_by_day(self, table: Table) -> Mapping[date, int]:
        """The number of rows of a table of history by day; see `delta.rows_by_day`."""
        return delta.rows_by_day(table.path(self.tables))

    def file_ranges(self, table: Table, column: str) -> pa.Table:
        """The `least` and the `greatest` value of a column in each file of the newest version."""
        opened = delta.open_table(self.tables, table)
        files = pa.table(opened.get_add_actions(flatten=True))
        names = [f"{bound}.{column}" for bound in ("min", "max")]
        if not files.num_rows:
            kind = table.schema.field(column).type
            return pa.table([pa.array([], kind)] * len(names), names=["least", "greatest"])
        return files.select(names).rename_columns(["least", "greatest"])

    def dataset(self, name: str) -> Dataset:
        """One table of the snapshot for an engine that selects rows and columns itself."""
        external = self._external(name, None)
        if external is not None:
            return dataset([self.of_kafka().dataset(name), dataset(external)])
        table = _TABLES[name]
        is_in_memory = table is LOAD_PROGRESS or (self._rebuilt and name in self._rebuilt.rows)
        opened = None if is_in_memory else self._opened(table)
        if opened is None or not delta.has_plain_files(opened):
            return dataset(self.read(name))
        files = delta.files_of(opened, self.tables, table)
        until = self._until(table)
        return files if until is None else files.filter(until)

    def of_kafka(self) -> TableReader:
        """The same tables without external groups, as brokers have them."""
        reader = copy(self)
        reader.with_external = False
        return reader

    @property
    def _has_external(self) -> bool:
        return self.with_external and self.has_external

    def _external(self, name: str, filters: Filters | None) -> pa.Table | None:
        """The rows of external groups in a table of groups; None if there cannot be any."""
        if not self._has_external or name not in UNITED:
            return None
        if self._offsets is None or self._offsets.moment != self.moment:
            self._offsets = ExternalOffsets(self._of_tables, self.moment, self.log_partitions)
        return self._offsets.rows(name, filters)

    def _until(self, table: Table) -> pc.Expression | None:
        """The filter of the rows that history had at the moment of rebuilt tables."""
        if self._rebuilt is None or table not in HISTORY_TIMES:
            return None
        time = pc.field(HISTORY_TIMES[table])
        condition: pc.Expression = (time <= self._rebuilt.moment) | time.is_null()
        return condition

    def _opened(self, table: Table) -> DeltaTable | None:
        """Open a table at the version of the snapshot; None if the snapshot lacks the table."""
        path = table.path(self.tables)
        if not self.is_consistent or table in _OF_NO_SNAPSHOT:
            return delta.open_version(path, self.tables) if DeltaTable.is_deltatable(path) else None
        if self.lacks(table.name):
            return None
        version = self.table_versions.get(table.name)
        is_missing = version is None and table is not LOG_OFFSETS
        # Readers of several moments share the opened tables.
        place = table.name, version
        if not is_missing and place not in self._open_tables:
            # Opening a version reads the Delta log, which takes longer than a small read.
            self._open_tables[place] = delta.open_version(path, self.tables, version)
        return self._open_tables.get(place)

    def own(
        self, name: str, columns: Sequence[str], group_ids: Collection[str] | None = None
    ) -> pa.Table:
        """Rows of groups in the group's own log partition, as the coordinator has them.

        After `__consumer_offsets` gets more partitions, a group may leave orphaned rows in its old
        log partition. The result has `log_partition` besides the given columns.
        """
        wanted = list(dict.fromkeys([*columns, "group_id", "log_partition"]))
        rows = self.read(name, wanted, of_groups(group_ids))
        return of_own_log_partition(rows, self.log_partitions)

    def _rows(self, progress: DeltaTable) -> pa.Table:
        """The rows of `load_progress`; maintenance may have deleted those of an old version."""
        try:
            return delta.rows_of(progress, self.tables, LOAD_PROGRESS)
        except ConfigurationError as error:
            as_of = self._as_of
            if as_of is None:
                raise
            # Snapshots that a shorter retention deleted do not come back with a longer one.
            if self._rebuild(as_of):
                self.version = self._moments.newest
                return self._progress
            raise self._readable.no_snapshot(as_of, " any more") from error

    def _rebuild(self, as_of: AsOf) -> bool:
        """Become the tables at a moment; False if no base is as old."""
        moment = as_of if isinstance(as_of, datetime) else self._moments.of(as_of)
        if moment is None:
            return False
        if self._rebuilding is None:
            self._rebuilding = self.rebuilding(moment, moment)
        self._rebuilt = self._rebuilding.at(moment)
        if self._rebuilt is None:
            return False
        # History is read at the newest versions.
        self.table_versions = pinned_versions(self._rebuilding.newest.progress)
        self.__dict__.pop("load_states", None)
        self._progress = self._rebuilt.progress
        # Other properties do not change the rows, and the retention of snapshots is the current.
        self._take_over(self._rebuilt.properties, _OF_BASE)
        self._as_of = moment
        return True

    def _leave_late_snapshot(self, version: int, moment: datetime) -> None:
        """Become rebuilt tables if `run` had not read all records of the moment then.

        It was stopped, or behind. Tables without a base or history stay the snapshot.
        """
        if version == self._moments.newest:
            return
        written_at, next_at = self._moments.of(version), self._moments.of(version + 1)
        is_live = bool(written_at and next_at and next_at - written_at <= _LIVE)
        is_behind = any(
            load.next_offset < load.high_watermark for load in load_states(self._progress).values()
        )
        if (is_live and not is_behind) or self.history_mode == HISTORY_OFF:
            return
        if self._rebuilding is None:
            self._rebuilding = self.rebuilding(moment, moment)
        with suppress(MomentNotRebuilt):
            if self._rebuilding.has_records_after(self._progress, moment):
                self._rebuild(moment)

    def _load_as_of(self, progress: DeltaTable, as_of: AsOf) -> None:
        """Open `load_progress` at a version, or at the newest version of a time."""
        version = self._readable.version_of(as_of)
        try:
            progress.load_as_version(version)
            self._take_over(progress.metadata().configuration, _OF_SNAPSHOT)
        except (DeltaError, OSError, ValueError) as error:
            if not self._rebuild(as_of):
                raise self._readable.no_snapshot(as_of) from error
