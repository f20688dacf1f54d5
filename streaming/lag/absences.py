"""Late keys of groups without members that had read everything when their members left.

`coordinator_state.insight.absence` has the rules. The history before the members left does not
change, so whoever evaluates again and again keeps its answer until the group writes a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, positions
from coordinator_state.insight.absence import KEPT_UP_MS, READ_ALL_MS, Leaves, runs_before
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.lag import UNKNOWN, Int64s
from coordinator_state.insight.pace import RESTS
from coordinator_state.replay.groups import EMPTY
from streaming.lag.offset_samples import null_if_unknown, to_ms
from streaming.lag.paces import (
    KEY_TYPES,
    KNOWN_ABSENCES,
    RUNS,
    KnownPaces,
    own_commits,
    rows_by_day,
)
from streaming.lag.recent_commits import KEY, recent_commits
from streaming.lag.rests import LateKeys
from streaming.tables.clock import moment_ms
from streaming.tables.delta import is_too_large
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, GROUPS, LOG_OFFSETS, OFFSET_COMMITS

_LEFT_WITHIN: Final = timedelta(days=7)
_WINDOWS: Final = (timedelta(days=3), timedelta(days=1), timedelta(hours=6), timedelta(hours=1))
"""As much of the history before the members left is read as is not too large."""
_JOINED: Final = (EventName.GROUP_CREATED.value, EventName.MEMBER_JOINED.value)
_EVENTS: Final = (*_JOINED, EventName.MEMBER_LEFT.value, EventName.GROUP_EMPTIED.value)
ABSENCES: Final = pa.schema(
    [*KEY_TYPES, ("ended_at_ms", pa.int64()), ("usual_return_ms", pa.int64())]
)
"""`ended_at_ms` is the time at which the members left, if the group may be a job that has ended: it
never kept up for long, and rested once at most. See `coordinator_state.insight.absence.Runs` for
`usual_return_ms`, the greatest of the group. Both are null otherwise."""


def absences_of(
    reader: TableReader, late: LateKeys, at: datetime, rules: StatusRules, known: KnownPaces
) -> pa.Table:
    """The absences (`ABSENCES`) of late keys whose group has no members, and had read everything.

    Args:
        reader: the snapshot.
        late: the keys.
        at: the moment.
        rules: the limits of the statuses.
        known: what an earlier evaluation has read; what this one reads replaces it.
    """
    rows = late.only(late.silent_ms > 0).rows
    is_left = pc.and_(pc.equal(rows["group_state"], EMPTY), pc.is_valid(rows["time_lag_ms"]))
    rows = rows.filter(is_left.fill_null(False))
    if not rows.num_rows:
        return ABSENCES.empty_table()
    names = [*KEY, "commit_timestamp", "usual_commit_ms", "time_lag_ms"]
    groups = reader.own(GROUPS.name, ["record_offset"], pc.unique(rows["group_id"]).to_pylist())
    rows = rows.select(names).append_column(
        "record_offset",
        groups["record_offset"].take(pc.index_in(rows["group_id"], groups["group_id"])),
    )
    before = positions(rows.select(KEY), known.absences.select(KEY))
    kept = known.absences.take(pa.array(before, mask=before == NOWHERE))
    is_same = pc.and_(
        pc.equal(kept["commit_timestamp"], rows["commit_timestamp"]),
        pc.equal(kept["record_offset"], rows["record_offset"]),
    ).fill_null(False)
    asked = rows.filter(pc.invert(is_same))
    known.absences = pa.concat_tables([kept.filter(is_same), _runs(reader, asked, at, rules)])
    rows = pa.concat_tables([rows.filter(is_same), asked])
    return _of_groups(rows, known.absences, at)


def _of_groups(rows: pa.Table, runs: pa.Table, at: datetime) -> pa.Table:
    """The absences of rows by the runs of all of their group's keys."""
    first_unread_ms = pc.subtract(moment_ms(at), rows["time_lag_ms"])
    has_read_all = pc.greater_equal(first_unread_ms, pc.subtract(runs["left_at_ms"], READ_ALL_MS))
    # A key whose history is too large to read counts against the group.
    runs = runs.append_column("has_read_all", has_read_all.fill_null(False))
    groups = runs.group_by("group_id").aggregate(
        [
            *((name, "max") for name in ("left_at_ms", *RUNS)),
            ("has_read_all", "min"),
        ]
    )
    is_job = pc.and_(
        pc.less(groups["kept_up_ms_max"], KEPT_UP_MS), pc.less(groups["rests_max"], RESTS)
    )
    is_ended = pc.and_(groups["has_read_all_min"], is_job.fill_null(False))
    ended_at_ms = pc.if_else(is_ended, groups["left_at_ms_max"], None)
    return_ms = pc.if_else(groups["has_read_all_min"], groups["usual_return_ms_max"], None)
    place = pc.index_in(rows["group_id"], groups["group_id"])
    columns = [*rows.select(KEY).columns, ended_at_ms.take(place), return_ms.take(place)]
    return pa.table(columns, schema=ABSENCES)


def _runs(reader: TableReader, rows: pa.Table, at: datetime, rules: StatusRules) -> pa.Table:
    """The runs (`KNOWN_ABSENCES`) of rows; null if their history is too large to read."""
    sizes = rows_by_day(reader, [OFFSET_COMMITS, LOG_OFFSETS, GROUP_EVENTS]) if len(rows) else []
    if not len(rows) or is_too_large(sizes[2:], at - _LEFT_WITHIN, at):
        return _runs_of(rows, np.full(len(rows), UNKNOWN), None)
    members = _Members.of(reader, at, pc.unique(rows["group_id"].combine_chunks()))
    left_ms = members.left_ms[members.numbers(rows)]
    is_known, is_recent = left_ms != UNKNOWN, left_ms >= moment_ms(at - _WINDOWS[1])
    unknown = rows.filter(pa.array(~is_known))
    parts = []
    # A group that left days ago does not make the history of the others too large.
    for is_part in (is_recent, is_known & ~is_recent):
        part = rows.filter(pa.array(is_part))
        first_left_ms = int(left_ms[is_part].min(initial=moment_ms(at)))
        left = at - timedelta(milliseconds=moment_ms(at) - first_left_ms)
        since = next((left - w for w in _WINDOWS if not is_too_large(sizes, left - w, at)), None)
        runs = None
        if part.num_rows and since is not None:
            runs = _runs_since(reader, part, members, since, at, rules)
        parts.append(_runs_of(part, left_ms[is_part], runs))
    parts.append(_runs_of(unknown, left_ms[~is_known], None))
    order = np.lexsort((~is_known, ~is_recent))
    return pa.concat_tables(parts).take(pa.array(np.argsort(order)))


def _runs_of(rows: pa.Table, left_ms: Int64s, runs: Sequence[pa.Array] | None) -> pa.Table:
    """The rows (`KNOWN_ABSENCES`) with the last leave of their members, and their runs."""
    columns = [rows[name] for name in (*KEY, "commit_timestamp", "record_offset")]
    unknown = [pa.nulls(len(rows), pa.int64())] * len(RUNS)
    values = [null_if_unknown(left_ms), *(unknown if runs is None else runs)]
    return pa.table([*columns, *values], schema=KNOWN_ABSENCES)


def _runs_since(
    reader: TableReader,
    rows: pa.Table,
    members: _Members,
    since: datetime,
    at: datetime,
    rules: StatusRules,
) -> list[pa.Array]:
    """The columns `RUNS` of rows by the history since a time."""
    commits = recent_commits(reader, since, at, group_ids=pc.unique(rows["group_id"]).to_pylist())
    own = own_commits(reader, commits, rows, since, at)
    has_commits = pc.is_valid(own.places).to_numpy(zero_copy_only=False)
    key, group = own.places.drop_null().to_numpy(), members.numbers(rows)
    group_of_key, usual = np.zeros(own.key_count, np.int64), np.zeros(own.key_count, np.int64)
    group_of_key[key] = group[has_commits]
    usual[key] = rows["usual_commit_ms"].fill_null(0).to_numpy()[has_commits]
    begun_ms = np.maximum(members.begun_ms[group_of_key], moment_ms(since))
    np.minimum.at(begun_ms, own.commits.key, own.commits.committed_at_ms)
    runs = runs_before(
        *(own.histories, own.commits, own.key_count, begun_ms),
        members.leaves(group_of_key),
        np.maximum(rules.stop_after_ms, rules.stop_intervals * usual),
    )
    return [null_if_unknown(each).take(own.places) for each in runs]


class _Members(NamedTuple):
    """When the members of groups came and left.

    Attributes:
        group_ids: the groups.
        begun_ms: the first sign of each, by its number; the begin of the history if it is a leave.
        left_ms: the last time that its members had left; `UNKNOWN` if they did not.
        group: the group of each such time, in the order of groups and times.
        group_left_ms: these times.
    """

    group_ids: pa.Array
    begun_ms: Int64s
    left_ms: Int64s
    group: Int64s
    group_left_ms: Int64s

    @classmethod
    def of(cls, reader: TableReader, at: datetime, group_ids: pa.Array) -> _Members:
        """Read the events of groups."""
        # Events have times of the brokers.
        until = at + reader.clock_skew
        since = until - _LEFT_WITHIN
        during: list[tuple[str, str, Any]] = [
            *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
            *(("record_timestamp", "<=", until), ("event", "in", _EVENTS)),
            ("group_id", "in", group_ids.to_pylist()),
        ]
        events = reader.read(GROUP_EVENTS.name, ["group_id", "event", "record_timestamp"], during)
        group = pc.index_in(events["group_id"], group_ids).to_numpy()
        times_ms = to_ms(reader.own_times(events["record_timestamp"])).to_numpy()
        never_ms = np.full(len(group_ids), np.iinfo(np.int64).max)
        first_ms, joined_ms = never_ms.copy(), never_ms
        np.minimum.at(first_ms, group, times_ms)
        is_join = pc.is_in(events["event"], pa.array(_JOINED)).to_numpy()
        np.minimum.at(joined_ms, group[is_join], times_ms[is_join])
        begun_ms = np.where(joined_ms == first_ms, first_ms, moment_ms(since - reader.clock_skew))
        is_left = pc.equal(events["event"], EventName.GROUP_EMPTIED.value).to_numpy()
        group, times_ms = group[is_left], times_ms[is_left]
        order = np.lexsort((times_ms, group))
        left_ms = np.full(len(group_ids), UNKNOWN)
        np.maximum.at(left_ms, group, times_ms)
        return cls(group_ids, begun_ms, left_ms, group[order], times_ms[order])

    def numbers(self, rows: pa.Table) -> Int64s:
        """The number of each row's group."""
        numbers: Int64s = pc.index_in(rows["group_id"], self.group_ids).to_numpy()
        return numbers

    def leaves(self, group_of_key: Int64s) -> Leaves:
        """The times at which the members of each key's group had left."""
        count = np.bincount(self.group, minlength=len(self.group_ids))
        counts = count[group_of_key]
        key = np.repeat(np.arange(group_of_key.size), counts)
        first = (np.cumsum(count) - count)[group_of_key]
        place = np.arange(key.size) - np.repeat(np.cumsum(counts) - counts - first, counts)
        return Leaves(key, self.group_left_ms[place])
