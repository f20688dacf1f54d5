"""History of a time span, read once and kept in memory in the order of time.

Statuses at many moments of a span read the same samples, commits and events again and again, each
time those of a few minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.tables.schemas import GROUP_EVENTS, LOG_OFFSETS, OFFSET_COMMITS, Table

Conditions: TypeAlias = "list[tuple[str, str, Any]]"
Read: TypeAlias = Callable[[str, Sequence[str], Conditions], pa.Table]

_TIMES: Final = {
    OFFSET_COMMITS: "record_timestamp",
    GROUP_EVENTS: "record_timestamp",
    LOG_OFFSETS: "sampled_at",
}
KEPT: Final = tuple(_TIMES)
_OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": lambda column, value: pc.equal(column, pa.scalar(value, column.type)),
    ">=": lambda column, value: pc.greater_equal(column, pa.scalar(value, column.type)),
    "<=": lambda column, value: pc.less_equal(column, pa.scalar(value, column.type)),
    "in": lambda column, values: pc.is_in(column, pa.array(values, column.type)),
}
_EARLIER: Final = timedelta(minutes=20)
"""Statuses look back at most this far, except for the samples of a few old records."""


@dataclass(slots=True)
class KeptHistory:
    """Rows of history, read once for all moments of a span.

    Args:
        read: reads a table of the newest snapshot.
        since: the first moment of the span.
        until: the last moment.
        group_ids: the groups whose rows are needed; all if None.
        topics: the topics whose samples are needed. Of the samples of others, each time is kept
            once, because it shows when logs were sampled. None for all topics.
        tables: the tables whose rows are kept.
    """

    read: Read
    since: datetime
    until: datetime
    group_ids: Collection[str] | None = None
    topics: Collection[str] | None = None
    tables: Collection[Table] = KEPT
    _kept: dict[tuple[str, bool], _Kept] = field(default_factory=dict)

    def rows(self, table: Table, columns: Sequence[str], conditions: Conditions) -> pa.Table | None:
        """The rows that fulfil the conditions, with at least these columns; None if not kept."""
        time = _TIMES.get(table) if table in self.tables else None
        since = max((v for n, op, v in conditions if n == time and op == ">="), default=None)
        if time is None or since is None or not {op for _, op, _ in conditions} <= set(_OPERATIONS):
            return None
        until = min((v for n, op, v in conditions if n == time and op == "<="), default=self.until)
        topics = next((v for n, op, v in conditions if (n, op) == ("topic", "in")), None)
        is_early = since < self.first
        early_topics = (self.topics if topics is None else topics) if is_early else None
        if is_early and (table is not LOG_OFFSETS or early_topics is None):
            return None
        needed = {*columns, *(name for name, _, _ in conditions)}
        kept = self._kept.get((table.name, is_early))
        if kept is None or not kept.has(since, needed, early_topics):
            kept = self._load(table, time, since, needed, early_topics, kept)
            self._kept[table.name, is_early] = kept
        rows = kept.between(since, until)
        masks = [
            _OPERATIONS[operation](rows[name], value)
            for name, operation, value in conditions
            if not (name in (time, "day") and _holds(operation, value, since, until))
        ]
        # Faster than an expression, for which Arrow starts a plan.
        return rows.filter(reduce(pc.and_, masks)) if masks else rows

    def keep(self, table: Table, since: datetime, rows: pa.Table) -> None:
        """Keep rows of all columns that have been read, from a time on."""
        self._kept[table.name, False] = _kept(table, since, set(rows.column_names), None, rows)

    @property
    def first(self) -> datetime:
        """The time since which statuses at the moments of the span need rows."""
        return self.since - _EARLIER

    def _load(
        self,
        table: Table,
        time: str,
        since: datetime,
        columns: set[str],
        topics: Collection[str] | None,
        before: _Kept | None,
    ) -> _Kept:
        # The moments to come may be earlier ones.
        first = min(since - (self.until - self.since), self.first)
        if topics is None:
            first = self.first
        if before is not None:
            first, columns = min(first, before.since), columns | before.columns
            topics = topics if before.topics is None else {*before.topics, *(topics or ())}
        wanted = self.topics if table is LOG_OFFSETS and topics is None else topics
        during: Conditions = [
            *(("day", ">=", first.date()), ("day", "<=", self.until.date())),
            *((time, ">=", first), (time, "<=", self.until)),
        ]
        if table is LOG_OFFSETS:
            columns = set(table.schema.names)
        names = [name for name in table.schema.names if name in columns | {time}]
        chosen: Conditions = []
        if table is not LOG_OFFSETS and self.group_ids is not None:
            chosen = [("group_id", "in", sorted(self.group_ids))]
        elif wanted is not None:
            chosen = [("topic", "in", sorted({*wanted, OFFSETS_TOPIC}))]
        rows = self.read(table.name, names, [*during, *chosen])
        if table is LOG_OFFSETS and chosen and topics is None:
            rows = pa.concat_tables([rows, self._times(names, during)])
        return _kept(table, first, columns, topics, rows)

    def _times(self, names: list[str], during: Conditions) -> pa.Table:
        """A sample of no topic for each time at which logs were sampled."""
        times = pc.unique(self.read(LOG_OFFSETS.name, ["sampled_at"], during)["sampled_at"])
        days = pc.cast(times, pa.date32())
        values = {"sampled_at": times, "day": days, "topic": "", "partition": 0, "state": ""}
        arrays = []
        for name in names:
            of_column = LOG_OFFSETS.schema.field(name)
            value = values.get(name)
            if not isinstance(value, pa.Array):
                value = pa.repeat(pa.scalar(value, of_column.type), len(times))
            arrays.append(value.cast(of_column.type))
        return pa.table(arrays, schema=pa.schema([LOG_OFFSETS.schema.field(n) for n in names]))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows in the order of time."""

    since: datetime
    columns: set[str]
    topics: Collection[str] | None
    table: pa.Table
    times_us: npt.NDArray[np.int64]

    def has(self, since: datetime, columns: set[str], topics: Collection[str] | None) -> bool:
        is_of_topics = topics is None or (
            self.topics is not None and set(topics) <= set(self.topics)
        )
        return since >= self.since and columns <= self.columns and is_of_topics

    def between(self, since: datetime, until: datetime) -> pa.Table:
        first = np.searchsorted(self.times_us, _us(pa.array([since], TIMESTAMP))[0], side="left")
        past = np.searchsorted(self.times_us, _us(pa.array([until], TIMESTAMP))[0], side="right")
        return self.table.slice(int(first), max(int(past - first), 0))


def _holds(operation: str, value: date, since: datetime, until: datetime) -> bool:
    """Whether a condition on the time or its day holds for all times of a span."""
    first, last = (since, until) if isinstance(value, datetime) else (since.date(), until.date())
    return value <= first if operation == ">=" else operation == "<=" and value >= last


def _kept(
    table: Table,
    since: datetime,
    columns: set[str],
    topics: Collection[str] | None,
    rows: pa.Table,
) -> _Kept:
    time = _TIMES[table]
    rows = rows.filter(pc.is_valid(rows[time])).sort_by(time).combine_chunks()
    return _Kept(since, columns, topics, rows, _us(rows[time]))


def _us(times: Any) -> npt.NDArray[np.int64]:
    times_us: npt.NDArray[np.int64] = pc.cast(times, pa.int64()).to_numpy()
    return times_us
