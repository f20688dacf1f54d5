"""Reads of the tables without Spark, all at the same snapshot.

A micro-batch writes the tables one after the other and `load_progress` last, with the Delta version
of each table. A reader reads `load_progress` first, and each other table at the version it names.
While a micro-batch is being applied, a reader therefore sees the snapshot before it.

A reader has the tables of one moment. `at` and `before` give the reader of another moment: the
newest snapshot at that moment, or rebuilt tables (`streaming.tables.history`). A moment is rebuilt
if its snapshot may be deleted, or if `run` had not read all records of the moment then, because it
was stopped or behind. `with_history` reads the bases and the history of a span once, for readers of
many moments in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow.dataset import Dataset, dataset
from pyarrow.parquet import filters_to_expression

from coordinator_state.apply.group_placement import of_own_log_partition, own_log_partitions
from streaming.errors import ConfigurationError, MomentNotRebuilt, TablesUnavailable
from streaming.tables import delta
from streaming.tables.as_of import TIME, AsOf, in_utc, parse_as_of
from streaming.tables.clock import confirm, utc_now
from streaming.tables.external_offsets import UNITED, ExternalOffsets
from streaming.tables.filters import Filters, of_groups
from streaming.tables.format_version import require_current
from streaming.tables.history import HISTORY_TIMES, KEPT, History, KeptRows, RebuiltTables
from streaming.tables.load_state import LoadState, load_states, pinned_versions
from streaming.tables.locations import local_path, require_usable
from streaming.tables.moments import Snapshots
from streaming.tables.properties import TableProperties
from streaming.tables.schemas import (
    ALERTS,
    ALL_TABLES,
    BESIDE_TABLES,
    COORDINATOR_RECORDS,
    GROUP_EVENTS,
    GROUP_LAG,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUP_STATUS,
    GROUPS,
    HISTORY_OFF,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    PROPERTY_HISTORY,
    PROPERTY_HISTORY_RESOLUTION,
    PROPERTY_KAFKA_RELEASE,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_SEMANTICS,
    STATE_TABLES,
    STATUS_CHANGES,
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
_OF_MOMENT = ("load_states", "clock_skew", "table_versions")
"""The attributes that are computed once for a moment."""
_OF_NO_SNAPSHOT = frozenset({ALERTS, *BESIDE_TABLES} - {LOG_OFFSETS})
_OF_GROUPS = frozenset(
    {
        *(GROUPS, GROUP_MEMBERS, GROUP_OFFSETS, PENDING_OFFSETS, COORDINATOR_RECORDS),
        *(OFFSET_COMMITS, GROUP_EVENTS, GROUP_LAG, GROUP_STATUS, STATUS_CHANGES),
    }
)
"""The tables that `limited_to` restricts."""
_TABLES: Mapping[str, Table] = {table.name: table for table in (*ALL_TABLES, ALERTS)}


class TableReader(TableProperties):
    """The tables of a folder at the newest snapshot, or at an earlier moment.

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

    with_external: bool = True
    """Whether tables of groups have the rows of external groups, see `of_kafka`."""
    _offsets: ExternalOffsets | None = None
    _history: History | None = None
    _rebuilt: RebuiltTables | None = None
    _own: frozenset[int] | None = None
    _pinned: Mapping[str, int] = MappingProxyType({})
    """The versions of tables that belong to no snapshot."""

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
        require_usable(self.tables)
        self.began_at = utc_now()
        """Every version of a table from before this time was there to be read."""
        opened = delta.open_version(LOAD_PROGRESS.path(self.tables), self.tables)
        self._versions = Snapshots(self.tables, opened)
        self._properties = self._versions.properties
        if not any_format:
            require_current(self.tables, self.format_version)
        self._open_tables: dict[tuple[str, int | None], DeltaTable] = {}
        self.is_consistent = consistent
        """Whether all tables are read at one snapshot."""
        self.version = self._versions.newest
        """The version of `load_progress`; of rebuilt tables the newest, see `as_of`."""
        self._opened_at = utc_now()
        self._as_of: AsOf | None = None
        if moment is not None:
            self._enter(moment, leaves_late=True)
        else:
            self._progress = self._versions.progress
            self._confirm_clock()
        folder = local_path(self.tables)
        if folder is not None and not any_format:
            self._require_tables(folder)

    def _confirm_clock(self) -> None:
        written_at = pc.max(self._progress["updated_at"]).as_py()
        if written_at is not None and written_at > self._opened_at:
            # A pause of this machine, which the clock does not know, looks like a jump.
            confirm(min(written_at, self.committed_at))
            self._opened_at = utc_now()

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
        return self._versions.of(self.version) or self._opened_at

    @property
    def committed_at(self) -> datetime:
        """When the snapshot was written, by the clock of the writer.

        It is earlier than `written_at` if the clock was set back: moments always grow.
        """
        return self._versions.committed_at(self.version) or self._opened_at

    def commits(self, most: int) -> list[tuple[int, datetime]]:
        """The last `most` versions of `load_progress`, newest first, and when each was written."""
        return list(islice(self._versions.newest_first(self.version), most))

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
        return self._versions.begin_at

    def at(self, as_of: AsOf) -> TableReader:
        """The tables at an earlier moment, or at a version of `load_progress`.

        Raises:
            ConfigurationError: the tables do not reach back to the moment, or cannot be read.
        """
        return self._at(as_of, leaves_late=True)

    def before(self, moment: datetime) -> TableReader | None:
        """The tables at an earlier moment; None if they do not reach back to it.

        Raises:
            TablesUnavailable: the tables cannot be read now.
        """
        try:
            # The rates of each evaluation compare with an earlier snapshot.
            reader = self._at(moment, leaves_late=self._history_of(moment) is not None)
        except TablesUnavailable:
            raise
        except ConfigurationError:
            return None
        return reader if reader.load_states else None

    def _at(self, as_of: AsOf, *, leaves_late: bool) -> TableReader:
        reader = copy(self)
        for name in _OF_MOMENT:
            reader.__dict__.pop(name, None)
        reader._rebuilt = reader._offsets = None
        reader._history = self._history_of(as_of)
        reader._enter(as_of, leaves_late=leaves_late)
        if reader._rebuilt is None:
            # Rebuilt moments share the versions of history. Those of a snapshot are its own.
            reader._open_tables = {}
        return reader

    def _history_of(self, as_of: AsOf) -> History | None:
        """The history whose span has a moment; None if no such history is read."""
        history = self._history
        if history is None or not isinstance(as_of, datetime):
            return None
        return history if history.since <= as_of <= history.until else None

    def with_history(
        self,
        *,
        since: datetime,
        until: datetime | None = None,
        group_ids: Collection[str] | None = None,
        prefers_snapshots: bool = False,
        keeps: Collection[Table] = KEPT,
    ) -> TableReader:
        """The same tables, with the bases and the history of a span, which is read once.

        `at` and `before` read nothing again in the span. Moments before the first base are read
        from snapshots, as far as they are kept.

        Args:
            since: the first moment.
            until: the last moment; by default that of these tables.
            group_ids: the groups whose rows are read; all if None.
            prefers_snapshots: whether all moments are read from snapshots as far as they are kept.
                Of all groups, this takes less time.
            keeps: the tables of history whose rows are read once. A table that is read for one
                moment only is better read by itself.
        """
        until = until or self.moment
        history = History(
            self._versions, since, until, group_ids, prefers_snapshots=prefers_snapshots
        )
        kept = KeptRows(self.of_kafka().read, since, until, group_ids, tables=keeps)
        if group_ids is not None and OFFSET_COMMITS in keeps:
            commits = history.commits(kept.first)
            kept.keep(OFFSET_COMMITS, kept.first, commits)
            if LOG_OFFSETS in keeps:
                kept.topics = self._topics_of(commits, group_ids)
        history.kept = kept
        reader = copy(self)
        reader._history = history
        return reader

    def _topics_of(self, commits: pa.Table, group_ids: Collection[str]) -> set[str]:
        """The topics of which groups have committed offsets, or that their members have."""
        offsets = self.read(GROUP_OFFSETS.name, ["topic"], of_groups(group_ids))
        members = self.read(GROUP_MEMBERS.name, ["assignment"], of_groups(group_ids))
        assigned = pc.list_flatten(members["assignment"]).combine_chunks()
        topics = [commits["topic"], offsets["topic"], pc.struct_field(assigned, "topic")]
        return {topic for column in topics for topic in pc.unique(column).drop_null().to_pylist()}

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
        if self._own is None or _TABLES[name] not in _OF_GROUPS:
            return self._united(name, columns, filters)
        names = _TABLES[name].schema.names
        wanted = names if columns is None else list(columns)
        place = [column for column in ("group_id", "log_partition") if column in names]
        is_all = len(self._own) == self.log_partitions
        if "log_partition" in place and not is_all:
            filters = _and_in(filters, "log_partition", sorted(self._own))
        rows = self._united(name, list(dict.fromkeys([*wanted, *place])), filters)
        own = own_log_partitions(rows["group_id"], self.log_partitions)
        is_own = np.isin(own, sorted(self._own))
        if "log_partition" in place:
            is_own &= rows["log_partition"].to_numpy() == own
        rows = rows if is_own.all() else rows.filter(pa.array(is_own))
        return rows.select(wanted)

    def _united(
        self, name: str, columns: Sequence[str] | None, filters: Filters | None
    ) -> pa.Table:
        """One table of the snapshot, with the rows of external groups."""
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
            if any(operation == "in" and not value for _, operation, value in filters):
                # An empty list has no type, which pyarrow and delta-rs need.
                return table.schema.empty_table().select(wanted)
            condition = filters_to_expression(filters)
            # pyarrow accepts both "=" and "==", delta-rs only "=".
            files = [(name, "=" if op == "==" else op, value) for name, op, value in filters]
        if table is LOAD_PROGRESS:
            rows = self._progress if condition is None else self._progress.filter(condition)
            return rows.select(wanted)
        if self._rebuilt is not None and name in self._rebuilt.rows:
            rows = self._rebuilt.rows[name]
            return (rows if condition is None else rows.filter(condition)).select(wanted)
        if self._history is not None and isinstance(filters, list):
            kept = self._history.kept_rows(table, wanted, filters, self.moment)
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

    def limited_to(self, log_partitions: Collection[int] | None = None) -> TableReader:
        """The same tables, with only the rows of groups in their own log partition.

        After `__consumer_offsets` gets more partitions, a group may leave orphaned rows in its old
        log partition.

        Args:
            log_partitions: the log partitions whose groups are read; all if None.
        """
        reader = copy(self)
        wanted = range(self.log_partitions) if log_partitions is None else log_partitions
        reader._own = frozenset(wanted)
        return reader

    def pinned(self) -> TableReader:
        """The same tables, which other processes read at the same versions and moment.

        Tables that belong to no snapshot are pinned at their newest versions.

        Raises:
            TablesUnavailable: a table cannot be read.
        """
        reader = copy(self)
        folder = local_path(self.tables)
        reader.tables = self.tables if folder is None else str(folder)
        reader._pinned = {
            table.name: delta.current_version(self.tables, table) for table in BESIDE_TABLES
        }
        reader._open_tables, reader._offsets = {}, None
        return reader

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open_tables": {}, "_offsets": None, "_history": None}

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
        pinned = self._pinned.get(table.name)
        if pinned is None and (not self.is_consistent or table in _OF_NO_SNAPSHOT):
            return delta.open_version(path, self.tables) if DeltaTable.is_deltatable(path) else None
        if self.lacks(table.name):
            return None
        version = self.table_versions.get(table.name, pinned)
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
        return rows if self._own is not None else of_own_log_partition(rows, self.log_partitions)

    def _enter(self, as_of: AsOf, *, leaves_late: bool) -> None:
        """Take the tables of a moment.

        Args:
            as_of: the moment, or a version of `load_progress`.
            leaves_late: whether a moment that `run` had not read then is rebuilt. It takes longer.
        """
        snapshots = self._versions
        self._as_of = as_of = in_utc(as_of) if isinstance(as_of, datetime) else as_of
        self._properties = snapshots.properties
        if self._history is not None and not self._history.prefers_snapshots:
            with suppress(MomentNotRebuilt):
                if self._rebuild(as_of):
                    return
        if snapshots.is_before_snapshots(as_of) and self._rebuild(as_of):
            return
        version = snapshots.version_of(as_of)
        try:
            progress, properties = snapshots.read(version)
        except ConfigurationError as error:
            # Snapshots that a shorter retention deleted do not come back with a longer one.
            if self._rebuild(as_of):
                return
            raise snapshots.no_snapshot(as_of, " any more") from error
        self.version, self._progress = version, progress
        # The current properties, except for the loader's rules: the schema is current, too, and
        # columns that a migration added are null in earlier versions.
        self._take_over(properties, _OF_SNAPSHOT)
        if leaves_late and isinstance(as_of, datetime) and self._may_be_late():
            with suppress(MomentNotRebuilt):
                if self._history_for(as_of).has_records_after(progress, as_of):
                    self._rebuild(as_of)

    def _rebuild(self, as_of: AsOf) -> bool:
        """Take the rebuilt tables of a moment; False if no base is as old."""
        moment = as_of if isinstance(as_of, datetime) else self._versions.of(as_of)
        rebuilt = None if moment is None else self._history_for(moment).at(moment)
        if moment is None or rebuilt is None:
            return False
        self._rebuilt, self._as_of, self._progress = rebuilt, moment, rebuilt.progress
        # History is read at the newest versions.
        self.version = self._versions.newest
        self.table_versions = pinned_versions(self._versions.progress)
        # Other properties do not change the rows, and the retention of snapshots is the current.
        self._take_over(rebuilt.properties, _OF_BASE)
        return True

    def _history_for(self, moment: datetime) -> History:
        if self._history is None:
            self._history = History(self._versions, moment, moment)
        return self._history

    def _may_be_late(self) -> bool:
        """Whether `run` may not have read all records of the moment then.

        It was stopped, or behind. Tables without a base or history stay the snapshot.
        """
        snapshots = self._versions
        if self.version == snapshots.newest or self.history_mode == HISTORY_OFF:
            return False
        written_at, next_at = snapshots.of(self.version), snapshots.of(self.version + 1)
        is_live = bool(written_at and next_at and next_at - written_at <= _LIVE)
        is_behind = any(
            load.next_offset < load.high_watermark for load in load_states(self._progress).values()
        )
        return is_behind or not is_live


def _and_in(filters: Filters | None, column: str, values: Sequence[int]) -> Filters:
    """A filter that also wants one of these values in a column."""
    if filters is None or isinstance(filters, list):
        return [*(filters or ()), (column, "in", values)]
    return filters & pc.field(column).isin(values)
