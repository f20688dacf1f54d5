"""Keys that usually rest: jobs that run now and then, and partitions that are read in turn.

The pace of a group says how long a record usually waits. A job that reads for five minutes of each
half hour waits for longer only twice an hour. So this module reads the history of days for keys
that wait longer than usual, and keeps their rests for an hour.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, TIMESTAMP, distinct_keys, positions
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.lag import UNKNOWN, Bools, Int64s
from coordinator_state.insight.pace import moved, rests, rests_in_turn_ms
from coordinator_state.insight.pauses import MemberChanges, pauses
from coordinator_state.replay.offsets import Outcome
from streaming.lag.offset_samples import null_if_unknown, to_ms
from streaming.lag.paces import (
    KEY_TYPES,
    KNOWN_RESTS,
    KnownPaces,
    OwnCommits,
    own_commits,
    rows_by_day,
)
from streaming.lag.recent_commits import COMMITS_WITHIN, KEY, recent_commits
from streaming.tables.clock import moment_ms
from streaming.tables.delta import is_too_large
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, LOG_OFFSETS, OFFSET_COMMITS

_WINDOWS: Final = (timedelta(days=3), timedelta(days=1), timedelta(hours=6), timedelta(hours=1))
"""As much of the history is read as is not too large."""
_WITHIN_MS: Final = 26 * 3_600_000
"""A key that rests each day has committed since."""
_ASK_EVERY_MS: Final = 5 * 60_000
"""A key that does not rest at this time of day may rest soon."""
_KNOWN_FOR: Final = timedelta(hours=1)
_CHANGES: Final = (EventName.MEMBER_JOINED.value, EventName.MEMBER_LEFT.value)
_NEVER_MS: Final = 2**62


class LateKeys(NamedTuple):
    """Rows that wait longer than usual, and for how long; 0 if they do not.

    Attributes:
        rows: rows of `group_lag` with their pace, and `moved_at`.
        silent_ms: the time without a commit although there is a record.
        unmoved_ms: the time without a commit of another offset although there is a record.
    """

    rows: pa.Table
    silent_ms: Int64s
    unmoved_ms: Int64s

    @classmethod
    def of(cls, rows: pa.Table, at: datetime, rules: StatusRules) -> LateKeys:
        """The late ones among these rows."""
        names = ("lag", "time_lag_at_least_ms", "commit_age_ms", "usual_commit_ms", "usual_move_ms")
        lag, oldest_ms, age_ms, usual_ms, usual_move_ms = (_or_unknown(rows[n]) for n in names)
        moved_ms = pc.subtract(moment_ms(at), to_ms(rows["moved_at"])).fill_null(_NEVER_MS)
        silent_ms = np.minimum(age_ms, oldest_ms)
        unmoved_ms = np.minimum(moved_ms.to_numpy(), oldest_ms)
        is_silent = silent_ms > np.maximum(rules.stop_after_ms, rules.stop_intervals * usual_ms)
        is_unmoved = unmoved_ms > np.maximum(
            rules.slow_after_ms, rules.stop_intervals * usual_move_ms
        )
        is_late = (lag > 0) & (is_silent | is_unmoved)
        return cls(
            rows.filter(pa.array(is_late)),
            (silent_ms * is_silent)[is_late],
            (unmoved_ms * is_unmoved)[is_late],
        )

    def only(self, wanted: Bools) -> LateKeys:
        """The selected keys."""
        rows = self.rows.filter(pa.array(wanted))
        return LateKeys(rows, self.silent_ms[wanted], self.unmoved_ms[wanted])


_LENGTHS: Final = ("rest_ms", "move_rest_ms", "only_rest_ms", "only_move_rest_ms")
RESTS: Final = pa.schema([*KEY_TYPES, *((name, pa.int64()) for name in _LENGTHS)])
"""The longer of `coordinator_state.insight.pace.Rests`, of commits and of moves, and the rests that
were seen once; null without."""


def rests_of(reader: TableReader, late: LateKeys, at: datetime, known: KnownPaces) -> pa.Table:
    """The rests (`RESTS`) of late keys.

    A key without a pace, or without a commit for more than a day, rests never.

    Args:
        reader: the snapshot.
        late: the keys.
        at: the moment.
        known: what an earlier evaluation has read; what this one reads replaces it.
    """
    usual_ms, age_ms = (_or_unknown(late.rows[n]) for n in ("usual_commit_ms", "commit_age_ms"))
    late = late.only((usual_ms != UNKNOWN) & (age_ms <= _WITHIN_MS))
    keys = late.rows.select([*KEY, "committed_offset"])
    place = positions(keys.select(KEY), known.rests.select(KEY))
    before = known.rests.take(pa.array(place, mask=place == NOWHERE))
    asked_ago_ms = moment_ms(at) - _or_unknown(to_ms(before["asked_at"]))
    is_known = (asked_ago_ms >= 0) & (asked_ago_ms <= _KNOWN_FOR // timedelta(milliseconds=1))
    # The rest of this time of day ends with a commit.
    is_same = pc.equal(before["committed_offset"], keys["committed_offset"]).fill_null(False)
    is_same = is_known & is_same.to_numpy()
    stays = pc.is_valid(late.rows["member_id"]).to_numpy()
    rest_ms, move_rest_ms = _longer(before, is_same, stays)
    rests_now = is_known & (late.silent_ms <= rest_ms) & (late.unmoved_ms <= move_rest_ms)
    is_recent = is_same & (asked_ago_ms <= _ASK_EVERY_MS)
    # A read of days takes long, so all keys are asked for together.
    is_due = bool((is_same & ~rests_now & ~is_recent).any())
    is_asked = ~rests_now & (is_due | ~is_recent)
    asked = _rests(reader, keys.filter(pa.array(is_asked)), at)
    since = pa.scalar(at - _KNOWN_FOR, TIMESTAMP)
    others = known.rests.filter(
        pc.and_(
            pc.greater_equal(known.rests["asked_at"], since),
            pa.array(positions(known.rests.select(KEY), asked.select(KEY)) == NOWHERE),
        )
    )
    known.rests = pa.concat_tables([others, asked]).combine_chunks()
    results = pa.concat_tables([before.filter(pa.array(~is_asked)), asked])
    is_same = np.append(is_same[~is_asked], np.ones(len(asked), np.bool_))
    stays = np.append(stays[~is_asked], stays[is_asked])
    only = (
        np.maximum(
            _only_if(is_same, results[f"only{of}_ms"]),
            _only_if(is_same & stays, results[f"only_pause{of}_ms"]),
        )
        for of in ("", "_move")
    )
    lengths = map(null_if_unknown, (*_longer(results, is_same, stays), *only))
    return pa.table([*results.select(KEY).columns, *lengths], schema=RESTS)


def _or_unknown(column: Any) -> Int64s:
    values: Int64s = column.fill_null(UNKNOWN).to_numpy()
    return values


def _longer(known: pa.Table, is_same: Bools, stays: Bools) -> tuple[Int64s, Int64s]:
    """The longest rest of commits and of moves.

    Those of a time of day hold if nothing has changed, and pauses if a member has the partition.
    """
    usual_ms, usual_move_ms = (
        np.maximum.reduce(
            [
                _or_unknown(known[f"usual{of}_ms"]),
                _only_if(is_same, known[f"due{of}_ms"]),
                _only_if(stays, known[f"usual_pause{of}_ms"]),
            ]
        )
        for of in ("", "_move")
    )
    return usual_ms, usual_move_ms


def _only_if(holds: Bools, column: Any) -> Int64s:
    return np.where(holds, _or_unknown(column), UNKNOWN)


def _rests(reader: TableReader, keys: pa.Table, at: datetime) -> pa.Table:
    """The rests (`KNOWN_RESTS`) of keys; none if their history is too large to read."""
    if not len(keys):
        return KNOWN_RESTS.empty_table()
    sizes = rows_by_day(reader, [OFFSET_COMMITS, LOG_OFFSETS, GROUP_EVENTS])
    since = next((at - w for w in _WINDOWS if not is_too_large(sizes, at - w, at)), None)
    if since is None:
        return KNOWN_RESTS.empty_table()
    group_ids = pc.unique(keys["group_id"]).to_pylist()
    commits = recent_commits(reader, since, at, group_ids=group_ids)
    own = own_commits(reader, commits, keys, since, at)
    changes = _member_changes(reader, keys, own, since, at)
    known_by = own.key_count, moment_ms(at), reader.history_resolution
    lengths = [
        null_if_unknown(lengths_ms).take(own.places)
        for each in (own.commits, moved(own.commits))
        for lengths_ms in (
            *rests(own.histories, each, *known_by),
            *pauses(own.histories, each, *known_by, changes),
        )
    ]
    asked_at = pa.repeat(pa.scalar(at, TIMESTAMP), len(keys))
    columns = [*keys.select(KEY).columns, *lengths, keys["committed_offset"], asked_at]
    return pa.table(columns, schema=KNOWN_RESTS)


def _member_changes(
    reader: TableReader, keys: pa.Table, own: OwnCommits, since: datetime, at: datetime
) -> MemberChanges:
    """When members joined or left the groups of keys with commits."""
    group_ids = pc.unique(keys["group_id"].combine_chunks())
    # Events have times of the brokers.
    first = since + reader.clock_skew
    during: list[tuple[str, str, Any]] = [
        *(("day", ">=", first.date()), ("record_timestamp", ">=", first)),
        *(("record_timestamp", "<=", at + reader.clock_skew), ("event", "in", _CHANGES)),
        ("group_id", "in", group_ids.to_pylist()),
    ]
    events = reader.read(GROUP_EVENTS.name, ["group_id", "record_timestamp"], during)
    has_commits = pc.is_valid(own.places).to_numpy(zero_copy_only=False)
    group_of_key = np.zeros(own.key_count, np.int64)
    group = pc.index_in(keys["group_id"], group_ids).to_numpy()
    group_of_key[own.places.drop_null().to_numpy()] = group[has_commits]
    return MemberChanges(
        group_of_key,
        pc.index_in(events["group_id"], group_ids).to_numpy().astype(np.int64),
        to_ms(reader.own_times(events["record_timestamp"])).to_numpy(),
    )


RESTS_IN_TURN: Final = pa.schema([*KEY_TYPES, ("rest_in_turn_ms", pa.int64())])
"""See `coordinator_state.insight.pace.rests_in_turn_ms`."""


def rests_in_turn_of(
    reader: TableReader, commits: pa.Table, late: pa.Table, rows: pa.Table, at: datetime
) -> pa.Table:
    """The rests (`RESTS_IN_TURN`) of late keys whose group reads the topic's partitions in turn.

    Args:
        reader: the snapshot.
        commits: the commits of their groups in the last `COMMITS_WITHIN`, with any outcome.
        late: the late rows of `group_lag`, with `moved_at`.
        rows: all rows of `group_lag`.
        at: the moment.
    """
    if not len(late):
        return RESTS_IN_TURN.empty_table()
    # A group reads the partitions of a topic at one pace.
    topic_key = ["group_id", "topic"]
    readers = distinct_keys(pa.concat_tables([late.select(topic_key), rows.select(topic_key)]))
    readers, reader_of_row = np.split(readers, [len(late)])
    is_theirs = np.isin(reader_of_row, readers)
    keys, reader_of_row = rows.filter(pa.array(is_theirs)), reader_of_row[is_theirs]
    is_committed = pc.equal(commits["outcome"], Outcome.COMMITTED.value)
    own = own_commits(reader, commits.filter(is_committed), keys, at - COMMITS_WITHIN, at)
    has_commits = pc.is_valid(own.places).to_numpy(zero_copy_only=False)
    reader_of_key = np.zeros(own.key_count, np.int64)
    reader_of_key[own.places.drop_null().to_numpy()] = reader_of_row[has_commits]
    # Before the recent commits, the time of a move is not known.
    since_ms = _or_unknown(to_ms(late["moved_at"]))
    lengths_ms = rests_in_turn_ms(own.histories, own.commits, reader_of_key, readers, since_ms)
    columns = [*late.select(KEY).columns, null_if_unknown(lengths_ms)]
    return pa.table(columns, schema=RESTS_IN_TURN)
