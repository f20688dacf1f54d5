"""Reads bases and history, and rebuilds the tables of past moments from them.

A moment is rebuilt from the newest base at or before it, and the history from the base on. History
is read once for each base.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from threading import RLock
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.one_log import of_one_log
from coordinator_state.apply.past import Base, HistoryAfter
from coordinator_state.apply.timeline import Timeline
from coordinator_state.insight.group_status import time_text
from coordinator_state.replay.offsets import Semantics
from streaming.errors import MomentNotRebuilt
from streaming.tables import delta
from streaming.tables.bases import BasePlace, bases_of
from streaming.tables.kept_history import Conditions, KeptHistory
from streaming.tables.load_state import (
    begun,
    is_begun,
    load_states,
    next_offsets,
    pinned_versions,
    reloaded_after,
    reloaded_at,
)
from streaming.tables.moments import TIME
from streaming.tables.properties import history_interval_ms, release_of
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_EVENTS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUP_RECORDS,
    GROUPS,
    LOAD_PROGRESS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    PROPERTY_SEMANTICS,
    QUARANTINE,
    STATE_CURRENT,
    TRANSACTION_EVENTS,
    Table,
)

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
_SEGMENTS_KEPT: Final = 2
_PARTITION_LISTS: Final = ("assignment", "target_assignment", "pending_revocation")


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


@dataclass(frozen=True, slots=True)
class _Segment:
    """A base and the history up to the next base.

    Attributes:
        until: the first moment that cannot be rebuilt, because a log partition was reloaded.
    """

    timeline: Timeline
    progress: pa.Table
    properties: Mapping[str, str]
    precision: _Precision
    until: datetime | None


@dataclass(frozen=True, slots=True)
class _After:
    """The progress and the properties of the next base, or of the newest snapshot."""

    moment: datetime | None
    progress: pa.Table
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Newest:
    """Rows of the newest snapshot. History after its record offsets is ignored."""

    progress: pa.Table
    written_at: datetime
    properties: Mapping[str, str]
    versions: Mapping[str, int]
    pending: pa.Table
    members: pa.Table


@dataclass(slots=True, kw_only=True)
class Rebuilding:
    """Rebuilds the tables of a folder at moments of a time span.

    Args:
        tables: the tables folder.
        since: the first moment.
        until: the last moment.
        where: the filter of the groups whose rows are read; all if None.
        kept: history in memory, for readers of many moments.
        prefers_snapshots: whether moments are read from snapshots as far as they are kept.
    """

    tables: str
    since: datetime
    until: datetime
    where: pc.Expression | None = None
    kept: KeptHistory | None = None
    prefers_snapshots: bool = False
    _bases: list[BasePlace] | None = None
    _newest: _Newest | None = None
    _commits: tuple[datetime, pa.Table] | None = None
    _segments: OrderedDict[datetime, _Segment] = field(default_factory=OrderedDict)
    # Two requests may rebuild moments at the same time.
    _lock: RLock = field(default_factory=RLock)

    def at(self, moment: datetime) -> RebuiltTables | None:
        """The tables at a moment of the span; None if there is no base as old as the moment.

        Raises:
            MomentNotRebuilt: a log partition was reloaded before the moment, and there is no base
                in between.
            TablesUnavailable: the base or the history cannot be read.
        """
        with self._lock:
            place = next((base for base in reversed(self._places) if base.moment <= moment), None)
            if place is None:
                return None
            segment = self._segment(place)
            self._require_same_log(segment, moment)
            replayed = segment.timeline.at(moment)
        is_newest = moment >= self.newest.written_at
        # Without a later record, the tables may have read records that are in no history.
        ends = {
            **replayed.next_offsets,
            **(next_offsets(self.newest.progress) if is_newest else {}),
        }
        return RebuiltTables(
            moment=moment,
            base=place.moment,
            properties=segment.properties,
            precision=segment.precision.text(moment),
            progress=_progress_at(segment.progress, ends, moment),
            rows={
                GROUP_OFFSETS.name: replayed.group_offsets,
                PENDING_OFFSETS.name: replayed.pending_offsets,
                GROUPS.name: replayed.groups,
                GROUP_MEMBERS.name: replayed.group_members,
            },
        )

    def _require_same_log(self, segment: _Segment, moment: datetime) -> None:
        if segment.until is None or moment < segment.until:
            return
        later = next((base.moment for base in self._places if base.moment > moment), None)
        readable = (
            "as soon as the next base is written" if later is None else f"from {later:{TIME}}"
        )
        raise MomentNotRebuilt(
            f"{self.tables} cannot be rebuilt as of {moment:{TIME}}, because a log partition was "
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
        first = min([since, *(base.moment for base in self._places)]) - _CLOCKS_DIFFER
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

    @property
    def newest(self) -> _Newest:
        """Rows of the newest snapshot, read once."""
        if self._newest is None:
            opened = delta.open_table(self.tables, LOAD_PROGRESS)
            progress = delta.rows_of(opened, self.tables, LOAD_PROGRESS)
            versions = pinned_versions(progress)

            def pinned(table: Table) -> pa.Table:
                version = versions.get(table.name, 0)
                return delta.read(self.tables, table, where=self.where, version=version)

            self._newest = _Newest(
                progress,
                pc.max(progress["updated_at"]).as_py(),
                opened.metadata().configuration,
                versions,
                pinned(PENDING_OFFSETS),
                pinned(GROUP_MEMBERS),
            )
        return self._newest

    @property
    def _places(self) -> list[BasePlace]:
        """The complete bases of the span, oldest first.

        The first is at or before its start, and the last after its end, as far as there are any.
        """
        if self._bases is None:
            bases = bases_of(self.tables)
            places: list[BasePlace] = []
            for base in reversed(bases):
                if base.moment <= self.until and base.is_complete:
                    places.append(base)
                    if base.moment <= self.since:
                        break
            later = (base for base in bases if base.moment > self.until and base.is_complete)
            self._bases = [*places[::-1], *islice(later, 1)]
        return self._bases

    def _segment(self, place: BasePlace) -> _Segment:
        if place.moment not in self._segments:
            self._segments[place.moment] = self._read(place)
        self._segments.move_to_end(place.moment)
        while len(self._segments) > _SEGMENTS_KEPT:
            self._segments.popitem(last=False)
        return self._segments[place.moment]

    def _after(self, place: BasePlace) -> _After:
        later = next((base for base in self._places if base.moment > place.moment), None)
        if later is None:
            return _After(None, self.newest.progress, self.newest.properties)
        return _After(later.moment, *later.progress())

    def _read(self, place: BasePlace) -> _Segment:
        wanted = self.where
        progress, properties = place.progress()
        base = Base(
            group_offsets=place.read(GROUP_OFFSETS, wanted),
            pending_offsets=place.read(PENDING_OFFSETS, wanted),
            groups=place.read(GROUPS, wanted),
            group_members=place.read(GROUP_MEMBERS, wanted),
            coordinator_records=place.read(COORDINATOR_RECORDS, wanted),
            next_offsets=next_offsets(progress),
        )
        after = self._after(place)
        since = _read_to_end(progress, place.moment) - _CLOCKS_DIFFER
        until = min(after.moment or self.until, self.until) + _CLOCKS_DIFFER
        one_log = of_one_log(
            HistoryAfter(
                commits=self._history(OFFSET_COMMITS, since, until),
                group_records=self._history(GROUP_RECORDS, since, until),
                pending=self.newest.pending,
            ),
            reloaded_at(progress),
            [p for p, state in load_states(self.newest.progress).items() if state.is_reloading],
        )
        reloaded = reloaded_after(progress, after.progress)
        ends = [one_log.until, *reloaded.values()]
        topic_names = {
            **_names_of(base.group_offsets),
            **_names_of_members(base.group_members),
            **_names_of_members(self.newest.members),
        }
        return _Segment(
            Timeline(
                base,
                one_log.history,
                Semantics(properties[PROPERTY_SEMANTICS]),
                release_of(properties),
                topic_names,
            ),
            progress,
            properties,
            _Precision(
                (properties, after.properties),
                after.moment or self.newest.written_at,
                one_log.lost | reloaded.keys() | (begun(after.progress) - begun(progress)),
            ),
            min((at for at in ends if at is not None), default=None),
        )

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
        if self.where is not None:
            where &= self.where
        opened = delta.open_table(self.tables, table, self.newest.versions.get(table.name, 0))
        return delta.rows_of(opened, self.tables, table, columns, where=where, pruned=conditions)


@dataclass(frozen=True, slots=True)
class _Precision:
    """How exact the rows are between two snapshots.

    Attributes:
        properties: those of both snapshots.
        read_at: a time at which all records in between had been read.
        loaded: the log partitions whose rows history may not explain.
    """

    properties: Sequence[Mapping[str, str]]
    read_at: datetime
    loaded: Collection[int]

    def text(self, moment: datetime) -> str:
        """The precision of a moment in between."""
        if self.loaded:
            names = ", ".join(map(str, sorted(self.loaded)))
            return f"not exact for log partitions {names}: they were loaded or reloaded later"
        age = self.read_at - moment
        intervals_ms = [history_interval_ms(each, age) for each in self.properties]
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
