"""How the tables of a moment are rebuilt, and history that is read once for many moments.

**Two sources.** A snapshot has the tables of its moment, as long as its files are kept
(`moments.Snapshots`). Every other moment is rebuilt (`History`) from the newest base at or before
it (`bases`) and the history from this base on. `coordinator_state.apply.past` has the rules.

**Segments.** A base and the history up to the next base are a segment: they are read once, and any
moment in between is rebuilt from them. At the next base, the rows of the base count.

**Precision.** Tables of history have each commit only with `--history all`. With sampled history,
an offset may be an earlier one by up to the interval of the samples. After a reload, the history
has the outcome `lost` for records that are in the log no more (`one_log`). The moments from the
first record of the new log up to the next base cannot be rebuilt.

**Kept rows.** Statuses at many moments read the same samples, commits and events again and again,
each time those of a few minutes. `KeptRows` has the rows of a span in memory, in the order of time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice
from threading import RLock
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP
from coordinator_state.apply.one_log import of_one_log
from coordinator_state.apply.past import HistoryAfter, PastTables, Timeline
from coordinator_state.insight.group_status import time_text
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import Semantics
from streaming.errors import MomentNotRebuilt
from streaming.tables import delta
from streaming.tables.as_of import TIME
from streaming.tables.bases import BasePlace, bases_of
from streaming.tables.filters import OPERATIONS, Conditions, of_groups, rows_where
from streaming.tables.load_state import (
    begun,
    is_begun,
    load_states,
    next_offsets,
    pinned_versions,
    reloaded_after,
    reloaded_at,
)
from streaming.tables.moments import Snapshots
from streaming.tables.properties import history_interval_ms, release_of
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_EVENTS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUP_RECORDS,
    GROUPS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    PROPERTY_SEMANTICS,
    QUARANTINE,
    STATE_CURRENT,
    TRANSACTION_EVENTS,
    Table,
)

Read: TypeAlias = Callable[[str, Sequence[str], Conditions], pa.Table]

HISTORY_TIMES: Final[Mapping[Table, str]] = {
    OFFSET_COMMITS: "outcome_timestamp",
    GROUP_EVENTS: "record_timestamp",
    GROUP_RECORDS: "record_timestamp",
    COORDINATOR_RECORDS: "record_timestamp",
    QUARANTINE: "record_timestamp",
    TRANSACTION_EVENTS: "record_timestamp",
}
"""The tables that are not rebuilt, and the time up to which a rebuilt reader has their rows."""

_CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""By at most this, a record has an earlier timestamp than a record before it, or than a base.

A record after a moment cuts off the records behind it in the log, whatever their timestamps. So
history is read this far beyond the last moment, and a moment has the same rows in every span."""
_REACH_OF_RATES: Final = timedelta(minutes=5)
_SEGMENTS_KEPT: Final = 2
_PARTITION_LISTS: Final = ("assignment", "target_assignment", "pending_revocation")
_TIMES: Final = {
    OFFSET_COMMITS: "record_timestamp",
    GROUP_EVENTS: "record_timestamp",
    LOG_OFFSETS: "sampled_at",
}
KEPT: Final = tuple(_TIMES)
_EARLIER: Final = timedelta(minutes=20)
"""Statuses look back at most this far, except for the samples of a few old records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltTables:
    """The tables of a past moment: `load_progress` and those of current state, by their name.

    `properties` are those of the base. `precision` says whether the rows are exact.
    """

    moment: datetime
    base: datetime
    properties: Mapping[str, str]
    precision: str
    progress: pa.Table
    rows: Mapping[str, pa.Table]


class History:
    """Rebuilds the tables of a folder at moments of a time span.

    Args:
        snapshots: the snapshots of the folder. History after the newest one is ignored.
        since: the first moment; rates at this moment need earlier rows, which are read, too.
        until: the last moment.
        group_ids: the groups whose rows are read; all if None.
        prefers_snapshots: whether moments are read from snapshots as far as they are kept.
    """

    kept: KeptRows | None = None
    """Rows in memory, for readers of many moments."""

    def __init__(
        self,
        snapshots: Snapshots,
        since: datetime,
        until: datetime,
        group_ids: Collection[str] | None = None,
        *,
        prefers_snapshots: bool = False,
    ) -> None:
        self.since = since - _REACH_OF_RATES
        self.prefers_snapshots = prefers_snapshots
        self._snapshots = snapshots
        self._tables = snapshots.tables
        self.until = until
        self._where = of_groups(group_ids)
        self._commits: tuple[datetime, pa.Table] | None = None
        self._segments: OrderedDict[datetime, _Segment] = OrderedDict()
        # Two requests may rebuild moments at the same time.
        self._lock = RLock()

    def at(self, moment: datetime) -> RebuiltTables | None:
        """The tables at a moment of the span; None if there is no base as old as the moment.

        Raises:
            MomentNotRebuilt: a log partition was reloaded before the moment, and there is no base
                in between.
            TablesUnavailable: the base or the history cannot be read.
        """
        with self._lock:
            base = next((base for base in reversed(self._bases) if base.moment <= moment), None)
            if base is None:
                return None
            segment = self._segment(base)
            self._require_same_log(segment, moment)
            tables = segment.timeline.at(moment)
        newest = self._snapshots.progress
        is_newest = moment >= pc.max(newest["updated_at"]).as_py()
        # Without a later record, the tables may have read records that are in no history.
        ends = {**tables.next_offsets, **(next_offsets(newest) if is_newest else {})}
        return RebuiltTables(
            moment=moment,
            base=base.moment,
            properties=segment.properties,
            precision=segment.precision(moment),
            progress=_progress_at(segment.progress, ends, moment),
            rows={
                GROUP_OFFSETS.name: tables.group_offsets,
                PENDING_OFFSETS.name: tables.pending_offsets,
                GROUPS.name: tables.groups,
                GROUP_MEMBERS.name: tables.group_members,
            },
        )

    def _require_same_log(self, segment: _Segment, moment: datetime) -> None:
        if segment.until is None or moment < segment.until:
            return
        later = next((base.moment for base in self._bases if base.moment > moment), None)
        readable = (
            "as soon as the next base is written" if later is None else f"from {later:{TIME}}"
        )
        raise MomentNotRebuilt(
            f"{self._tables} cannot be rebuilt as of {moment:{TIME}}, because a log partition was "
            f"reloaded: read moments before {segment.until:{TIME}}, or later ones {readable}"
        )

    def has_records_after(self, progress: pa.Table, moment: datetime) -> bool:
        """Whether the log has records up to a moment that a snapshot had not read.

        Args:
            progress: the rows of `load_progress` of the snapshot.
            moment: a moment at or after that of the snapshot.
        """
        if not progress.num_rows:
            return False
        read_to = pa.table(
            [progress["log_partition"], progress["next_offset"]],
            names=["log_partition", "next_offset"],
        )
        since = pc.min(progress["updated_at"]).as_py() - _CLOCKS_DIFFER
        for table in (GROUP_RECORDS, OFFSET_COMMITS):
            rows = self._history(table, since, moment, ["log_partition", "record_offset"])
            places = rows.join(read_to, "log_partition", join_type="inner")
            if pc.any(pc.greater_equal(places["record_offset"], places["next_offset"])).as_py():
                return True
        return False

    def commits(self, since: datetime) -> pa.Table:
        """The commits of the span, and those whose outcome is since a time; they are kept."""
        first = min([since, *(base.moment for base in self._bases)]) - _CLOCKS_DIFFER
        commits = self._history(OFFSET_COMMITS, first, self.until + _CLOCKS_DIFFER)
        self._commits = first, commits
        return commits

    def kept_rows(
        self, table: Table, columns: Sequence[str], conditions: Conditions, moment: datetime
    ) -> pa.Table | None:
        """The rows of history at a moment that fulfil the conditions; None if none are kept."""
        if self.kept is None:
            return None
        if table in HISTORY_TIMES:
            conditions = [*conditions, (HISTORY_TIMES[table], "<=", moment)]
        return self.kept.rows(table, columns, conditions)

    @cached_property
    def _bases(self) -> list[BasePlace]:
        """The complete bases of the span, oldest first.

        The first is at or before its start, and the last after its end, as far as there are any.
        """
        all_bases = bases_of(self._tables)
        bases: list[BasePlace] = []
        for base in reversed(all_bases):
            if base.moment <= self.until and base.is_complete:
                bases.append(base)
                if base.moment <= self.since:
                    break
        later = (base for base in all_bases if base.moment > self.until and base.is_complete)
        return [*bases[::-1], *islice(later, 1)]

    @cached_property
    def _newest_pending(self) -> pa.Table:
        return self._pinned(PENDING_OFFSETS)

    @cached_property
    def _newest_topic_names(self) -> dict[str, str]:
        return _names_of_members(self._pinned(GROUP_MEMBERS))

    def _pinned(self, table: Table) -> pa.Table:
        version = self.versions.get(table.name, 0)
        return delta.read(self._tables, table, where=self._where, version=version)

    @cached_property
    def versions(self) -> Mapping[str, int]:
        """The versions at which history is read: those of the newest snapshot."""
        return pinned_versions(self._snapshots.progress)

    def _segment(self, base: BasePlace) -> _Segment:
        if base.moment not in self._segments:
            self._segments[base.moment] = self._read(base)
        self._segments.move_to_end(base.moment)
        while len(self._segments) > _SEGMENTS_KEPT:
            self._segments.popitem(last=False)
        return self._segments[base.moment]

    def _read(self, base: BasePlace) -> _Segment:
        progress, properties = self._progress_of(base)
        next_base = next((later for later in self._bases if later.moment > base.moment), None)
        after, properties_after = (
            (self._snapshots.progress, self._snapshots.properties)
            if next_base is None
            else self._progress_of(next_base)
        )
        read_at = pc.max(after["updated_at"]).as_py() if next_base is None else next_base.moment
        since = _read_to_end(progress, base.moment) - _CLOCKS_DIFFER
        until = self.until if next_base is None else min(next_base.moment, self.until)
        one_log = of_one_log(
            HistoryAfter(
                commits=self._history(OFFSET_COMMITS, since, until + _CLOCKS_DIFFER),
                group_records=self._history(GROUP_RECORDS, since, until + _CLOCKS_DIFFER),
                pending=self._newest_pending,
            ),
            reloaded_at(progress),
            [p for p, load in load_states(self._snapshots.progress).items() if load.is_reloading],
        )
        tables = PastTables(
            group_offsets=base.read(GROUP_OFFSETS, self._where),
            pending_offsets=base.read(PENDING_OFFSETS, self._where),
            groups=base.read(GROUPS, self._where),
            group_members=base.read(GROUP_MEMBERS, self._where),
            coordinator_records=base.read(COORDINATOR_RECORDS, self._where),
            next_offsets=next_offsets(progress),
        )
        topic_names = {
            **_names_of(tables.group_offsets),
            **_names_of_members(tables.group_members),
            **self._newest_topic_names,
        }
        semantics = Semantics(properties[PROPERTY_SEMANTICS])
        reloaded = reloaded_after(progress, after)
        ends = [end for end in (one_log.until, *reloaded.values()) if end is not None]
        return _Segment(
            timeline=Timeline(
                tables, one_log.history, semantics, release_of(properties), topic_names
            ),
            progress=progress,
            properties=properties,
            properties_after=properties_after,
            read_at=read_at,
            loaded=one_log.lost | reloaded.keys() | (begun(after) - begun(progress)),
            until=min(ends, default=None),
        )

    def _progress_of(self, base: BasePlace) -> tuple[pa.Table, Mapping[str, str]]:
        snapshots = Snapshots(base.path, delta.open_table(base.path, LOAD_PROGRESS))
        return snapshots.progress, snapshots.properties

    def _history(
        self,
        table: Table,
        since: datetime,
        until: datetime,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of history whose outcome is since a time, and whose record is until another."""
        outcome = HISTORY_TIMES[table]
        where = (pc.field(outcome) >= since) & (pc.field("record_timestamp") <= until)
        if table is OFFSET_COMMITS and self._commits is not None:
            first, commits = self._commits
            # A log partition that was far behind at the base needs earlier ones.
            if since >= first:
                return commits.filter(where)
        conditions: list[tuple[str, str, Any]] = [
            ("day", "<=", until.date()),
            (outcome, ">=", since),
            ("record_timestamp", "<=", until),
        ]
        if self._where is not None:
            where &= self._where
        opened = delta.open_table(self._tables, table, self.versions.get(table.name, 0))
        return delta.rows_of(opened, self._tables, table, columns, where=where, pruned=conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """A base and the history up to the next base, or to the newest snapshot.

    Attributes:
        timeline: the tables at any moment of the segment.
        progress: the progress of the base.
        properties: the properties of the base.
        properties_after: those at the end.
        read_at: a time at which all records of the segment had been read.
        loaded: the log partitions whose rows history may not explain.
        until: the first moment that cannot be rebuilt, because a log partition was reloaded.
    """

    timeline: Timeline
    progress: pa.Table
    properties: Mapping[str, str]
    properties_after: Mapping[str, str]
    read_at: datetime
    loaded: Collection[int]
    until: datetime | None

    def precision(self, moment: datetime) -> str:
        """How exact the rows of a moment are."""
        if self.loaded:
            names = ", ".join(map(str, sorted(self.loaded)))
            return f"not exact for log partitions {names}: they were loaded or reloaded later"
        age, properties = self.read_at - moment, (self.properties, self.properties_after)
        intervals_ms = [history_interval_ms(each, age) for each in properties]
        if None in intervals_ms:
            return "offsets are exact to the micro-batch (--history all)"
        longest_ms = max(filter(None, intervals_ms), default=0)
        if not longest_ms:
            return "exact"
        return (
            f"an offset may be the one of up to {time_text(longest_ms)} earlier "
            "(--history all is exact)"
        )


def _read_to_end(progress: pa.Table, moment: datetime) -> datetime:
    """The time up to which a base has every record, by its progress."""
    rows = progress.select(["next_offset", "high_watermark", "current_at"]).to_pylist()
    behind = [row["current_at"] for row in rows if row["next_offset"] < row["high_watermark"]]
    return min([moment, *(time for time in behind if time is not None)])


def _progress_at(progress: pa.Table, next_offsets: Mapping[int, int], moment: datetime) -> pa.Table:
    """The rows of `load_progress` at a moment; counts of records are those of the base."""
    rows = [
        {
            **row,
            # The load of a log partition without a leader has not begun.
            "state": STATE_CURRENT if is_begun(next_offset, row["current_at"]) else row["state"],
            "next_offset": next_offset,
            "high_watermark": next_offset,
            "reload_reason": None,
            "reloaded_at": None,
            "updated_at": moment,
        }
        for row in progress.to_pylist()
        for next_offset in [next_offsets[row["log_partition"]]]
    ]
    return pa.Table.from_pylist(rows, schema=LOAD_PROGRESS.schema)


def _names_of(offsets: pa.Table) -> dict[str, str]:
    """Topic names by id, from committed offsets."""
    pairs = offsets.filter(pc.is_valid(offsets["topic_id"])).group_by(["topic_id", "topic"])
    return {row["topic_id"]: row["topic"] for row in pairs.aggregate([]).to_pylist()}


def _names_of_members(members: pa.Table) -> dict[str, str]:
    """Topic names by id, from the assignments of members."""
    return {
        entry["topic_id"]: entry["topic"]
        for name in _PARTITION_LISTS
        for entry in _distinct(members[name])
        if entry["topic_id"] is not None and entry["topic"] is not None
    }


def _distinct(lists: pa.ChunkedArray) -> Sequence[Mapping[str, Any]]:
    """The distinct topics in lists of partitions."""
    entries = pc.list_flatten(lists).combine_chunks()
    names = ["topic", "topic_id"]
    columns = [pc.struct_field(entries, name) for name in names]
    topics: list[dict[str, Any]] = (
        pa.table(columns, names=names).group_by(names).aggregate([]).to_pylist()
    )
    return topics


@dataclass(slots=True)
class KeptRows:
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
    _kept: dict[tuple[str, bool], _TimedRows] = field(default_factory=dict)

    def rows(self, table: Table, columns: Sequence[str], conditions: Conditions) -> pa.Table | None:
        """The rows that fulfil the conditions, with at least these columns; None if not kept."""
        time = _TIMES.get(table) if table in self.tables else None
        since = max((v for n, op, v in conditions if n == time and op == ">="), default=None)
        if time is None or since is None or not {op for _, op, _ in conditions} <= set(OPERATIONS):
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
        return rows_where(
            rows,
            [
                (name, operation, value)
                for name, operation, value in conditions
                if not (name in (time, "day") and _holds(operation, value, since, until))
            ],
        )

    def keep(self, table: Table, since: datetime, rows: pa.Table) -> None:
        """Keep rows of all columns that have been read, from a time on."""
        self._kept[table.name, False] = _timed_rows(
            table, since, set(rows.column_names), None, rows
        )

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
        before: _TimedRows | None,
    ) -> _TimedRows:
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
        return _timed_rows(table, first, columns, topics, rows)

    def _times(self, names: list[str], during: Conditions) -> pa.Table:
        """A sample of no topic for each time at which logs were sampled."""
        times = pc.unique(self.read(LOG_OFFSETS.name, ["sampled_at"], during)["sampled_at"])
        days = pc.cast(times, pa.date32())
        values = {"sampled_at": times, "day": days, "topic": "", "partition": 0, "state": ""}
        arrays = []
        for name in names:
            column = LOG_OFFSETS.schema.field(name)
            value = values.get(name)
            if not isinstance(value, pa.Array):
                value = pa.repeat(pa.scalar(value, column.type), len(times))
            arrays.append(value.cast(column.type))
        return pa.table(arrays, schema=pa.schema([LOG_OFFSETS.schema.field(n) for n in names]))


@dataclass(frozen=True, slots=True)
class _TimedRows:
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


def _timed_rows(
    table: Table,
    since: datetime,
    columns: set[str],
    topics: Collection[str] | None,
    rows: pa.Table,
) -> _TimedRows:
    time = _TIMES[table]
    rows = rows.filter(pc.is_valid(rows[time])).sort_by(time).combine_chunks()
    return _TimedRows(since, columns, topics, rows, _us(rows[time]))


def _us(times: Any) -> npt.NDArray[np.int64]:
    times_us: npt.NDArray[np.int64] = pc.cast(times, pa.int64()).to_numpy()
    return times_us
