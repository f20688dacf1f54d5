"""The pace of groups, and of the transactions in logs, from the history in the tables.

Most groups commit several times in ten minutes. The pace of the others is in their earlier commits,
which are read in longer and longer windows. A pace only changes with a commit, so `run` keeps those
that took a longer window (`KnownPaces`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, TIMESTAMP, nullable, positions
from coordinator_state.insight.pace import ENOUGH, paces, stable_holds
from coordinator_state.replay.offsets import Outcome
from streaming.lag.lag_measures import null_if_unknown
from streaming.lag.offset_samples import Logs, epoch_ms
from streaming.lag.recent_commits import COMMITS_WITHIN, KEY, by_key, recent_commits
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader

_WINDOWS: Final = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=7))
_MOST_COMMITS: Final = 20_000_000
"""A window with about so many commits of all groups is not read: it would take seconds."""
_HOLD_WINDOWS: Final = (timedelta(hours=1), timedelta(hours=6))
_KEY_TYPES: Final = [(name, pa.int32() if name == "partition" else pa.string()) for name in KEY]
PACES: Final = pa.schema(
    [
        *_KEY_TYPES,
        *((f"{name}_ms", pa.int64()) for name in ("usual_commit", "usual_move", "longest_move")),
        *((f"{name}_waits", pa.int64()) for name in ("commit", "move")),
    ]
)
"""The pace of each key: see `coordinator_state.insight.pace.Paces`. It is null without a wait."""
HOLDS: Final = pa.schema(
    [
        *_KEY_TYPES[1:],
        *(("usual_hold_ms", pa.int64()), ("holds", pa.int64()), ("is_often_held", pa.bool_())),
    ]
)
"""See `coordinator_state.insight.pace.Holds`."""
_KNOWN: Final = nullable(PACES.append(pa.field("commit_timestamp", TIMESTAMP)))


@dataclass(slots=True)
class KnownPaces:
    """The paces that took a longer window, each with the last commit of its key (`_KNOWN`)."""

    rows: pa.Table = field(default_factory=_KNOWN.empty_table)


def paces_of(
    reader: TableReader,
    commits: pa.Table,
    keys: pa.Table,
    at: datetime,
    known: KnownPaces,
    commits_in_all: int,
) -> pa.Table:
    """The pace (`PACES`) of each key.

    Args:
        reader: the snapshot.
        commits: the commits of their groups in the last `COMMITS_WITHIN`, with any outcome.
        keys: `KEY`, and the `commit_timestamp` of the last commit.
        at: the moment.
        known: the paces that an earlier evaluation has measured; those of this one replace them.
        commits_in_all: the number of commits of all groups in the same time.
    """
    is_committed = pc.equal(commits["outcome"], Outcome.COMMITTED.value)
    measured = _measured(reader, commits.filter(is_committed), keys, at - COMMITS_WITHIN, at)
    is_slow = _is_slow(measured)
    slow = keys.filter(is_slow)
    place = positions(slow.select(KEY), known.rows.select(KEY))
    kept = known.rows.take(pa.array(place, mask=place == NOWHERE))
    is_same = pc.equal(kept["commit_timestamp"], slow["commit_timestamp"]).fill_null(False)
    before = _measured_before(reader, slow.filter(pc.invert(is_same)), at, commits_in_all)
    known.rows = pa.concat_tables([kept.filter(is_same), before]).combine_chunks()
    quick = measured.filter(pc.invert(is_slow))
    return pa.concat_tables([quick, known.rows.select(PACES.names)])


def holds_of(reader: TableReader, places: pa.Table, at: datetime) -> pa.Table:
    """The holds (`HOLDS`) of the logs of these places, each log once."""
    results, rest = [], places.select(["topic", "partition"])
    for window in _HOLD_WINDOWS:
        if not rest.num_rows:
            break
        logs = Logs.of(rest)
        histories = logs.histories(reader, since=at - window, until=at, of_all=False)
        holds = stable_holds(histories)
        topics, partitions = logs.keys
        usual = null_if_unknown(holds.usual_ms), pa.array(holds.holds), pa.array(holds.is_frequent)
        rows = pa.table([topics, partitions, *usual], schema=HOLDS)
        is_last = window is _HOLD_WINDOWS[-1]
        is_done = pa.array(is_last | ~holds.is_frequent | (holds.holds >= ENOUGH))
        results.append(rows.filter(is_done))
        rest = rows.filter(pc.invert(is_done))
    return pa.concat_tables(results) if results else HOLDS.empty_table()


def _measured_before(
    reader: TableReader, keys: pa.Table, at: datetime, commits_in_all: int
) -> pa.Table:
    """The paces (`_KNOWN`) of keys with few commits in the last minutes."""
    results = []
    unknown = [pa.nulls(len(keys), pa.int64())] * len(PACES.names[3:])
    rest = pa.table([*keys.select(KEY).columns, *unknown], schema=PACES)
    for window in _WINDOWS:
        if not len(keys) or commits_in_all * (window / COMMITS_WITHIN) > _MOST_COMMITS:
            break
        wanted = of_groups(pc.unique(keys["group_id"]).to_pylist())
        commits = recent_commits(reader, at - window, at, wanted)
        rest = _measured(reader, commits, keys, at - window, at)
        is_slow = _is_slow(rest)
        results.append(_known(rest, keys).filter(pc.invert(is_slow)))
        rest, keys = rest.filter(is_slow), keys.filter(is_slow)
    return pa.concat_tables([*results, _known(rest, keys)])


def _measured(
    reader: TableReader, commits: pa.Table, keys: pa.Table, since: datetime, at: datetime
) -> pa.Table:
    """The pace (`PACES`) of each key, in their order, from commits since a moment."""
    place = positions(commits.select(KEY), keys.select(KEY))
    commits = commits.filter(pa.array(place != NOWHERE))
    commits, number, first = by_key(commits)
    logs = Logs.of(commits)
    histories = logs.histories(reader, since=since, until=at, of_all=False)
    measured = paces(
        histories,
        key=number,
        log=logs.of_rows,
        committed_offset=commits["committed_offset"].to_numpy(),
        committed_at_ms=epoch_ms(commits["commit_timestamp"]),
        count=first.size,
    )
    rows = positions(keys.select(KEY), commits.select(KEY).take(pa.array(first)))
    return pa.table(
        [
            *keys.select(KEY).columns,
            *(
                null_if_unknown(getattr(measured, name)).take(pa.array(rows, mask=rows == NOWHERE))
                for name in PACES.names[3:]
            ),
        ],
        schema=PACES,
    )


def _known(rows: pa.Table, keys: pa.Table) -> pa.Table:
    return rows.append_column("commit_timestamp", keys["commit_timestamp"]).cast(_KNOWN)


def _is_slow(rows: pa.Table) -> Any:
    """Whether too few waits are known."""
    return pc.less(rows["commit_waits"].fill_null(0), ENOUGH)
