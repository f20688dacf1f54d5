"""Tables in memory, which the micro-batches of a scenario write instead of Delta tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import count
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import columns_of
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.merge import merged
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.replay.group_replay import AskTopicNames
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from streaming.engine.driver.driver_engine import DriverEngine
from streaming.engine.driver.tables_state import TablesState
from streaming.engine.engine import ApplyRules
from streaming.engine.micro_batch import MicroBatchApply
from streaming.local.simulation.tables import simulated_progress
from streaming.tables.filters import Filters, of_groups, rows_where
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    HISTORY_ALL,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    Table,
)
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch

_MOST_CHUNKS: Final = 50
_KEPT: Final = 30
"""Snapshots: rates look back five minutes, and a look is half a minute."""
_GROWING: Final = {LOG_OFFSETS.name: "sampled_at", OFFSET_COMMITS.name: "record_timestamp"}
"""A column of times of each large table. They seldom decrease from one row to the next."""
EMPTY_TABLES: Final = {table.name: table.schema.empty_table() for table in ALL_TABLES}


@dataclass(frozen=True, slots=True)
class MemoryWriter(Writer):
    """A writer of tables in memory; `rows_by_table` has their rows by name."""

    rows_by_table: dict[str, pa.Table] = field(default_factory=lambda: dict(EMPTY_TABLES))

    @classmethod
    def create(cls) -> MemoryWriter:
        """A writer of empty tables."""
        return cls(WriterEpoch("", 1), count(1))

    def rows(self, table: Table, version: int, where: pc.Expression | None = None) -> pa.Table:
        """The newest rows."""
        del version  # There are no others.
        rows = self.rows_by_table[table.name]
        return rows if where is None else rows.filter(where)

    def merge(
        self,
        table: Table,
        source: pa.Table,
        *,
        guard: str | None,
        deletes: str | None = None,
        replaced: Collection[int] = (),
    ) -> int:
        """See `Writer.merge`."""
        del replaced  # Nothing is reloaded.
        before = self.rows_by_table[table.name]
        after = merged(before, source, key=table.key, guard=guard, deletes=deletes)
        return self._set(table, after.combine_chunks())

    def append(self, table: Table, rows: pa.Table, *, number: int | None = None) -> int:
        """Append rows."""
        del number  # No write fails.
        before = self.rows_by_table[table.name]
        after = pa.concat_tables([before, columns_of(rows, table.schema)])
        is_split = after.column(0).num_chunks > _MOST_CHUNKS
        return self._set(table, after.combine_chunks() if is_split else after)

    def overwrite(
        self,
        table: Table,
        rows: pa.Table,
        *,
        info: Mapping[str, str] | None = None,
        replaces_schema: bool = False,
    ) -> int:
        """Replace all rows."""
        del info, replaces_schema  # Snapshots have their moment, and schemas never change.
        return self._set(table, columns_of(rows, table.schema))

    def _set(self, table: Table, rows: pa.Table) -> int:
        self.rows_by_table[table.name] = rows
        return self.next_number()


def apply_in_memory(
    writer: MemoryWriter,
    *,
    release: Release,
    clock: Callable[[], datetime],
    topic_names: AskTopicNames = lambda _topic_ids: {},
) -> MicroBatchApply[pa.Table]:
    """The micro-batches of `run`, from empty tables in memory on.

    They have all of the history, and follow `__consumer_offsets` and `__share_group_state`.

    Args:
        writer: the writer of the tables, which are empty.
        release: the Kafka release of the loader's rules.
        clock: the time at which a micro-batch is read.
        topic_names: returns known topic names by topic id.
    """
    rules = ApplyRules(
        semantics=Semantics.COORDINATOR,
        release=release,
        history_mode=HISTORY_ALL,
        topic_names=topic_names,
    )
    state = TablesState(
        tables="",
        rules=rules,
        pending=PENDING_OFFSET_ROW.empty_table(),
        _committed=COMMITTED_SCHEMA.empty_table(),
        groups={},
    )
    return MicroBatchApply(
        DriverEngine(writer, rules, _state=state),
        simulated_progress(Semantics.COORDINATOR, [SHARE_STATE_TOPIC]),
        clock=clock,
        compacted_versions=lambda _tables, _versions: {},
    )


@dataclass(slots=True)
class MemorySnapshots:
    """The tables at each of the last moments at which they were written.

    `properties` are those of the tables folder.
    """

    properties: Mapping[str, str]
    _moments: list[datetime] = field(default_factory=list)
    _tables: list[Mapping[str, pa.Table]] = field(default_factory=list)

    def add(self, moment: datetime, writer: MemoryWriter) -> None:
        """Keep the tables that a micro-batch has written."""
        self._moments = [*self._moments[-_KEPT:], moment]
        self._tables = [*self._tables[-_KEPT:], dict(writer.rows_by_table)]

    def reader(self, at: datetime) -> MemoryReader | None:
        """The tables at a moment; None before the first one."""
        number = bisect_right(self._moments, at) - 1
        return None if number < 0 else MemoryReader(self, self._tables[number], at)


class PastTables(Protocol):
    """Tables in memory at past moments; `properties` are those of the tables folder."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    def reader(self, at: datetime) -> TableReader | None: ...


class MemoryReader(TableReader):
    """A reader of tables in memory, as of a moment."""

    def __init__(self, snapshots: PastTables, rows: Mapping[str, pa.Table], at: datetime) -> None:
        self.tables = ""
        self.is_consistent = True
        self._snapshots = snapshots
        self._rows_by_table = rows
        self._properties = snapshots.properties
        self._progress = rows[LOAD_PROGRESS.name]
        self._as_of = at

    @property
    def committed_at(self) -> datetime:
        """When the snapshot was written."""
        written_at: datetime = pc.max(self._progress["updated_at"]).as_py()
        return written_at

    @property
    def rebuilt_from(self) -> None:
        """Never rebuilt from history."""

    def before(self, moment: datetime) -> TableReader | None:
        return self._snapshots.reader(moment)

    def read(
        self, name: str, columns: Sequence[str] | None = None, filters: Filters | None = None
    ) -> pa.Table:
        rows = self._rows_by_table[name]
        if isinstance(filters, list):
            for column, operator, value in filters:
                if column == _GROWING.get(name) and operator == ">=":
                    rows = _rows_since(rows, column, value)
            rows = rows_where(rows, filters)
        elif filters is not None:
            rows = rows.filter(filters)
        return rows if columns is None else rows.select(list(columns))

    def own(
        self, name: str, columns: Sequence[str], group_ids: Collection[str] | None = None
    ) -> pa.Table:
        wanted = list(dict.fromkeys([*columns, "group_id", "log_partition"]))
        return self.read(name, wanted, of_groups(group_ids))

    def limited_to(self, log_partitions: Collection[int] | None = None) -> TableReader:
        """The same tables: no group has orphaned rows."""
        del log_partitions
        return self

    def rows_by_day(self, table: Table) -> Mapping[date, int]:
        counted = self._rows_by_table[table.name].group_by("day").aggregate([([], "count_all")])
        return dict(zip(counted["day"].to_pylist(), counted["count_all"].to_pylist(), strict=True))

    def file_ranges(self, table: Table, column: str) -> pa.Table:
        """Each value as the range of a file."""
        values = pc.unique(self._rows_by_table[table.name][column])
        return pa.table([values, values], names=["least", "greatest"])


def _rows_since(rows: pa.Table, column: str, since: datetime) -> pa.Table:
    """All rows since a moment, and maybe some of before: a filter of all rows takes longer."""
    times = np.maximum.accumulate(rows[column].cast(pa.int64()).to_numpy())
    moment_us = pa.scalar(since, rows.schema.field(column).type).cast(pa.int64()).as_py()
    return rows.slice(int(np.searchsorted(times, moment_us)))
