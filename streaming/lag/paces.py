"""The pace of groups, and of the transactions in logs, from the history in the tables.

Most groups commit several times in ten minutes. The pace of the others is in their earlier commits,
which are read in longer and longer windows. A pace only changes with a commit, and the usual time
of the transactions of a log only with its last stable offset. So whoever evaluates again and again
keeps them (`KnownPaces`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, TIMESTAMP, nullable, positions
from coordinator_state.insight.lag import LogHistories
from coordinator_state.insight.pace import (
    ENOUGH,
    Commits,
    paces,
    stable_holds,
)
from coordinator_state.replay.offsets import Outcome
from streaming.lag.group_lag import KnownLogs
from streaming.lag.offset_samples import Logs, epoch_ms, null_if_unknown
from streaming.lag.recent_commits import COMMITS_WITHIN, KEY, by_key, recent_commits
from streaming.tables.clock import moment_ms
from streaming.tables.delta import RowsByDay, is_too_large
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS, OFFSET_COMMITS, Table

_WINDOWS: Final = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=7))
_HOLD_WINDOWS: Final = (timedelta(hours=1), timedelta(hours=6))
KEY_TYPES: Final = [(name, pa.int32() if name == "partition" else pa.string()) for name in KEY]
PACES: Final = pa.schema(
    [
        *KEY_TYPES,
        *((f"{name}_ms", pa.int64()) for name in ("usual_commit", "usual_move", "longest_move")),
        *((f"{name}_waits", pa.int64()) for name in ("commit", "move")),
        ("usual_move_records", pa.int64()),
    ]
)
"""The pace of each key: see `coordinator_state.insight.pace.Paces`. It is null without a wait."""
HOLDS: Final = pa.schema(
    [
        *KEY_TYPES[1:],
        *(("usual_hold_ms", pa.int64()), ("holds", pa.int64()), ("is_often_held", pa.bool_())),
        ("hold_began_by_ms", pa.int64()),
    ]
)
"""See `coordinator_state.insight.pace.Holds`."""
_KNOWN: Final = nullable(PACES.append(pa.field("commit_timestamp", TIMESTAMP)))
_KNOWN_HOLDS_KEY: Final = pa.schema([*KEY_TYPES[1:], ("last_stable_offset", pa.int64())])
_KNOWN_HOLDS: Final = nullable(HOLDS.append(pa.field("last_stable_offset", pa.int64())))
REST_LENGTHS: Final = tuple(
    f"{name}{of}_ms"
    for of in ("", "_move")
    for name in ("usual", "due", "only", "usual_pause", "only_pause")
)
KNOWN_RESTS: Final = nullable(
    pa.schema(
        [
            *(*KEY_TYPES, *((name, pa.int64()) for name in REST_LENGTHS)),
            *(("committed_offset", pa.int64()), ("asked_at", TIMESTAMP)),
        ]
    )
)
"""The rests and pauses of a key (`pace.Rests` and `pauses.Pauses` in the core), of commits and
of moves, and the committed offset and the moment at which the history was asked for them."""
RUNS: Final = ("kept_up_ms", "rests", "usual_return_ms")
KNOWN_ABSENCES: Final = nullable(
    pa.schema(
        [
            *(*KEY_TYPES, ("commit_timestamp", TIMESTAMP), ("record_offset", pa.int64())),
            *((name, pa.int64()) for name in ("left_at_ms", *RUNS)),
        ]
    )
)
"""The runs of a key (`coordinator_state.insight.absence.Runs`) and when its members left last, by
its last commit and the last record of its group."""


@dataclass(slots=True)
class KnownPaces:
    """The paces and holds that were measured last.

    Attributes:
        rows: the paces, each with the last commit of its key (`_KNOWN`).
        holds: the holds, each with the last stable offset of its log (`_KNOWN_HOLDS`).
        logs: what `group_lag` has found in the samples of days.
        rests: the rests of keys that were late (`KNOWN_RESTS`).
        absences: the runs of keys that were late without members (`KNOWN_ABSENCES`).
    """

    rows: pa.Table = field(default_factory=_KNOWN.empty_table)
    holds: pa.Table = field(default_factory=_KNOWN_HOLDS.empty_table)
    logs: KnownLogs = field(default_factory=KnownLogs)
    rests: pa.Table = field(default_factory=KNOWN_RESTS.empty_table)
    absences: pa.Table = field(default_factory=KNOWN_ABSENCES.empty_table)


def paces_of(
    reader: TableReader, commits: pa.Table, keys: pa.Table, at: datetime, known: KnownPaces
) -> pa.Table:
    """The pace (`PACES`) of each key.

    Args:
        reader: the snapshot.
        commits: the commits of their groups in the last `COMMITS_WITHIN`, with any outcome.
        keys: `KEY`, and the `commit_timestamp` of the last commit.
        at: the moment.
        known: what an earlier evaluation has measured; what this one measures replaces it.
    """
    is_committed = pc.equal(commits["outcome"], Outcome.COMMITTED.value)
    measured = _measured(reader, commits.filter(is_committed), keys, at - COMMITS_WITHIN, at)
    is_slow = _is_slow(measured)
    quick, slow = _known(measured, keys).filter(pc.invert(is_slow)), keys.filter(is_slow)
    kept, changed = _kept(known.rows, slow, KEY, "commit_timestamp")
    earlier, unread = _measured_before(reader, changed, at)
    known.rows = pa.concat_tables([quick, kept, earlier]).combine_chunks()
    return pa.concat_tables([known.rows, unread]).select(PACES.names)


def holds_of(reader: TableReader, places: pa.Table, at: datetime, known: KnownPaces) -> pa.Table:
    """The holds (`HOLDS`) of the logs of places with their `last_stable_offset`, each log once."""
    key = ["topic", "partition"]
    places = places.group_by(key).aggregate([("last_stable_offset", "max")])
    places = places.rename_columns([*key, "last_stable_offset"]).cast(_KNOWN_HOLDS_KEY)
    kept, rest = _kept(known.holds, places, key, "last_stable_offset")
    results = [kept]
    sizes = rows_by_day(reader, [LOG_OFFSETS]) if rest.num_rows else []
    for window in _HOLD_WINDOWS:
        if not rest.num_rows or is_too_large(sizes, at - window, at):
            break
        logs = Logs.of(rest)
        histories = logs.histories(reader, since=at - window, until=at, of_all=False)
        holds = stable_holds(histories)
        number = pa.array(logs.of_rows)
        values = (
            *(null_if_unknown(holds.usual_ms), pa.array(holds.holds)),
            *(pa.array(holds.is_frequent), null_if_unknown(holds.began_by_ms)),
        )
        columns = [rest["topic"], rest["partition"], *(column.take(number) for column in values)]
        rows = pa.table([*columns, rest["last_stable_offset"]], schema=_KNOWN_HOLDS)
        is_done = pc.or_(pc.invert(rows["is_often_held"]), pc.greater_equal(rows["holds"], ENOUGH))
        is_last = window is _HOLD_WINDOWS[-1]
        results.append(rows if is_last else rows.filter(is_done))
        rest = rest.slice(0, 0) if is_last else rest.filter(pc.invert(is_done))
    known.holds = pa.concat_tables(results).combine_chunks()
    # Where the samples are too many to read, an open transaction may be usual.
    nulls, is_often_held = pa.nulls(len(rest), pa.int64()), pa.repeat(True, len(rest))
    began_by_ms = pa.repeat(moment_ms(at), len(rest))
    columns = [*rest.select(key).columns, nulls, nulls, is_often_held, began_by_ms]
    unread = pa.table(columns, schema=HOLDS)
    return pa.concat_tables([known.holds.select(HOLDS.names), unread.cast(nullable(HOLDS))])


def _measured_before(
    reader: TableReader, keys: pa.Table, at: datetime
) -> tuple[pa.Table, pa.Table]:
    """The paces (`_KNOWN`) of keys with few commits in the last minutes.

    Those whose history is too large to read come last.
    """
    results: list[pa.Table] = []
    unknown = [pa.nulls(len(keys), pa.int64())] * len(PACES.names[3:])
    rest = pa.table([*keys.select(KEY).columns, *unknown], schema=PACES)
    sizes = rows_by_day(reader, [OFFSET_COMMITS, LOG_OFFSETS]) if len(keys) else []
    for window in _WINDOWS:
        if not len(keys):
            break
        since = at - window
        if is_too_large(sizes, since, at):
            return pa.concat_tables([*results, _KNOWN.empty_table()]), _known(rest, keys)
        group_ids = pc.unique(keys["group_id"]).to_pylist()
        commits = recent_commits(reader, since, at, group_ids=group_ids)
        rest = _measured(reader, commits, keys, since, at)
        is_slow = _is_slow(rest)
        results.append(_known(rest, keys).filter(pc.invert(is_slow)))
        rest, keys = rest.filter(is_slow), keys.filter(is_slow)
    return pa.concat_tables([*results, _known(rest, keys)]), _KNOWN.empty_table()


def _kept(
    known: pa.Table, rows: pa.Table, key: Sequence[str], last: str
) -> tuple[pa.Table, pa.Table]:
    """The known rows of keys whose last value has not changed, and the other rows."""
    place = positions(rows.select(key), known.select(key))
    kept = known.take(pa.array(place, mask=place == NOWHERE))
    is_same = pc.equal(kept[last], rows[last]).fill_null(False)
    return kept.filter(is_same), rows.filter(pc.invert(is_same))


def rows_by_day(reader: TableReader, tables: Sequence[Table]) -> Sequence[RowsByDay]:
    """The number of rows of each day in these tables."""
    return [reader.rows_by_day(table) for table in tables]


def _measured(
    reader: TableReader, commits: pa.Table, keys: pa.Table, since: datetime, at: datetime
) -> pa.Table:
    """The pace (`PACES`) of each key, in their order, from commits since a moment."""
    own = own_commits(reader, commits, keys, since, at)
    measured = paces(own.histories, own.commits, own.key_count)
    columns = (null_if_unknown(getattr(measured, name)) for name in PACES.names[3:])
    return pa.table(
        [*keys.select(KEY).columns, *(column.take(own.places) for column in columns)],
        schema=PACES,
    )


class OwnCommits(NamedTuple):
    """The commits of some keys, and the samples of their logs.

    `key_count` is the number of keys that have commits, and `places` has the number of each key
    among them.
    """

    histories: LogHistories
    commits: Commits
    key_count: int
    places: pa.Array


def own_commits(
    reader: TableReader, commits: pa.Table, keys: pa.Table, since: datetime, at: datetime
) -> OwnCommits:
    """The commits of these keys among some, and the samples of their logs between two times."""
    place = positions(commits.select(KEY), keys.select(KEY))
    commits, number, first = by_key(commits.filter(pa.array(place != NOWHERE)))
    logs = Logs.of(commits)
    rows = positions(keys.select(KEY), commits.select(KEY).take(pa.array(first)))
    return OwnCommits(
        logs.histories(reader, since=since, until=at, of_all=False),
        Commits(
            key=number,
            log=logs.of_rows,
            committed_offset=commits["committed_offset"].to_numpy(),
            committed_at_ms=epoch_ms(commits["commit_timestamp"]),
        ),
        first.size,
        pa.array(rows, mask=rows == NOWHERE),
    )


def _known(rows: pa.Table, keys: pa.Table) -> pa.Table:
    return rows.append_column("commit_timestamp", keys["commit_timestamp"]).cast(_KNOWN)


def _is_slow(rows: pa.Table) -> Any:
    """Whether too few waits are known."""
    return pc.less(rows["commit_waits"].fill_null(0), ENOUGH)
