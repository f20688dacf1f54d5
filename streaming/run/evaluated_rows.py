"""The rows that an evaluation writes: those that differ from the kept rows, and the changes.

The driver process and Spark's tasks, which have some log partitions each, write the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import (
    NOWHERE,
    TIMESTAMP,
    columns_of,
    nullable,
    positions,
    with_columns,
)
from coordinator_state.insight.group_status import Status
from streaming.lag.evaluation import Evaluation
from streaming.lag.judged_changes import KNOWN, JudgedChanges, judged_changes, kept_schema
from streaming.lag.status_history import standing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS, JUDGED_TABLES, STATUS_CHANGES, Table

REWRITTEN_AFTER: Final = timedelta(minutes=1)
NEVER: Final = datetime.max.replace(tzinfo=timezone.utc)
DELETES: Final = "is_deleted"
"""The column of rows for a MERGE that says whether a row only deletes."""
_MANY_ROWS: Final = 100_000
_PARTS: Final = 5
"""Of many rows, one of so many parts is written in an evaluation because it only became older."""
_MOST_NAMED: Final = 1_000
"""The changes of more groups are read with those of all groups."""
_OF_CHANGE: Final = [*GROUP_LAG.key, "status_before", "status_after", "changed_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The facts of an evaluation that all log partitions have in common.

    Attributes:
        kept_until: the rows of the tables have all changes that were recorded up to this moment;
            None if nobody knows one.
        is_after_gap: whether nothing was evaluated for too long before, so that a new status may be
            older.
        tasks: the number of sets of log partitions that are evaluated, each by itself.
    """

    kept_until: datetime | None = None
    is_after_gap: bool = False
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of the last evaluation (`kept_schema`), as the tables and the changes have them.

    At the moment `until`, they have to be read again: a change of this time was recorded while the
    clock was ahead.
    """

    rows: Mapping[Table, pa.Table]
    until: datetime = NEVER


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """The rows that an evaluation writes, by table in the order of the writes.

    Those of `status_changes` are appended. The others are for a MERGE (`merge_schema`). `kept` has
    the rows after the writes.
    """

    written: Mapping[Table, pa.Table]
    kept: KeptRows


def evaluated_rows(
    reader: TableReader, evaluation: Evaluation, this_round: Round, kept: KeptRows
) -> EvaluatedRows:
    """The differences between an evaluation and the kept rows of the same groups.

    Args:
        reader: the tables, of which changes of status are read where `UNKNOWN` ends.
        evaluation: the evaluation.
        this_round: the facts about all groups.
        kept: the rows before.

    Raises:
        ConfigurationError: the table cannot be read.
    """
    most_rewritten = evaluation.statuses.num_rows
    if evaluation.lags.num_rows * this_round.tasks > _MANY_ROWS:
        most_rewritten //= _PARTS
    rows_by_table = {GROUP_LAG: evaluation.lags, GROUP_STATUS: evaluation.statuses}
    merged, recorded, kept_after = {}, [], {}
    for table, rows in rows_by_table.items():
        changes = judged_changes(
            _with_known(reader, table, kept.rows[table], rows, evaluation.at),
            rows,
            key=table.key,
            rewritten_after=REWRITTEN_AFTER,
            most_rewritten=most_rewritten,
            is_after_gap=this_round.is_after_gap,
        )
        # A row whose status changed is written, too.
        changed = rows.take(pa.array(changes.written))
        recorded.append(_recorded(changes, changed, evaluation.at))
        merged[table] = _source(table, changes, changed)
        kept_after[table] = changes.kept
    written = {STATUS_CHANGES: pa.concat_tables(recorded), **merged}
    return EvaluatedRows(written, KeptRows(kept_after, kept.until))


def merge_schema(table: Table) -> pa.Schema:
    """The columns of a table, and `DELETES`."""
    return nullable(table.schema).append(pa.field(DELETES, pa.bool_()))


def _source(table: Table, changes: JudgedChanges, written: pa.Table) -> pa.Table:
    """The rows to write and the keys to delete, for a MERGE."""
    kept = changes.kept.select(["status_since", "is_status_older"])
    kept = kept.take(pa.array(changes.written))
    columns = dict(zip(kept.column_names, kept.columns, strict=True))
    rows = columns_of(with_columns(written, columns), nullable(table.schema))
    deleted = columns_of(changes.deleted, rows.schema)
    return pa.concat_tables(
        part.append_column(DELETES, pa.repeat(is_deleted, part.num_rows))
        for part, is_deleted in ((rows, False), (deleted, True))
    )


def _recorded(changes: JudgedChanges, written: pa.Table, at: datetime) -> pa.Table:
    """Rows of `status_changes`; `topic` and `partition` are null for a group itself."""
    numbers = changes.statuses["number"].to_numpy()
    places = np.searchsorted(changes.written, numbers)
    reasons = written["reason"].take(pa.array(places, mask=numbers == NOWHERE))
    rows = changes.statuses.append_column("reason", reasons)
    times = {"changed_at": pa.scalar(at, TIMESTAMP), "day": pa.scalar(at.date())}
    columns = {name: pa.repeat(value, rows.num_rows) for name, value in times.items()}
    return columns_of(with_columns(rows, columns), STATUS_CHANGES.schema)


# --- the kept rows


def kept_rows(reader: TableReader, at: datetime, kept_until: datetime | None) -> KeptRows:
    """The rows of the last evaluation before a moment, with the statuses of the recorded changes.

    A crash between two writes leaves changes that the rows lack.

    Args:
        reader: the tables, perhaps of some log partitions.
        at: the moment.
        kept_until: see `Round`.

    Raises:
        ConfigurationError: a table cannot be read.
    """
    kept = {}
    for table in JUDGED_TABLES:
        schema = kept_schema(table.schema)
        names = [name for name in schema.names if name not in KNOWN.names]
        kept[table] = columns_of(reader.read(table.name, names), schema)
    ahead = _changes(reader, [("day", ">=", at.date()), ("changed_at", ">", at)])
    newest = [pc.max(rows["evaluated_at"]).as_py() for rows in kept.values()]
    if kept_until is None and None not in newest:
        kept_until = min(newest)
    # The clock was ahead: only the changes say what was kept before.
    if ahead.num_rows or any(evaluated_at and evaluated_at > at for evaluated_at in newest):
        kept_until = None
    during: list[tuple[str, str, Any]] = [("changed_at", "<=", at)]
    if kept_until is not None:
        during += [("day", ">=", kept_until.date()), ("changed_at", ">", kept_until)]
    until = _changes(reader, during)
    rows_by_table = {
        table: _with_recorded(table, rows, _of_table(until, table), _of_table(ahead, table), at)
        for table, rows in kept.items()
    }
    return KeptRows(rows_by_table, pc.min(ahead["changed_at"]).as_py() or NEVER)


def _changes(reader: TableReader, during: list[tuple[str, str, Any]]) -> pa.Table:
    rows = reader.read(STATUS_CHANGES.name, _OF_CHANGE, during)
    return rows.cast(nullable(rows.schema)).sort_by("changed_at")


def _of_table(changes: pa.Table, table: Table) -> pa.Table:
    """The changes of groups, or of groups in partitions."""
    is_of_group = pc.is_null(changes["topic"])
    return changes.filter(is_of_group if table is GROUP_STATUS else pc.invert(is_of_group))


def _with_recorded(
    table: Table, rows: pa.Table, changes: pa.Table, ahead: pa.Table, at: datetime
) -> pa.Table:
    """Kept rows, with the status of the last change that was recorded after each row.

    A row of the future is older than all changes. If it has no change up to now, its status is that
    before its first change `ahead`, since now.
    """
    if not changes.num_rows and not ahead.num_rows:
        return rows
    key, now = list(table.key), pa.scalar(at, TIMESTAMP)
    last = _of_each(changes, key, "status_after", "last")
    first = _of_each(ahead, key, "status_before", "first")
    first = with_columns(first, {"status_since": pa.repeat(now, first.num_rows)})
    is_other = positions(first.select(key), last.select(key)) == NOWHERE
    recorded = pa.concat_tables([last, first.filter(pa.array(is_other))])
    place = positions(recorded.select(key), rows.select(key))
    is_kept = place != NOWHERE
    evaluated_at = rows["evaluated_at"].take(pa.array(place, mask=~is_kept))
    is_first = np.arange(recorded.num_rows) >= last.num_rows
    is_later = pc.and_not(pc.greater(recorded["status_since"], evaluated_at), pa.array(is_first))
    is_later = pc.or_(is_later, pc.greater(evaluated_at, now)).fill_null(False).to_numpy()
    # A deleted row needs no other deletion.
    is_new = ~is_kept & pc.is_valid(recorded["status"]).to_numpy()
    replaced = np.ones(rows.num_rows, np.bool_)
    replaced[place[is_kept & is_later]] = False
    recorded = recorded.filter(pa.array(is_new | (is_kept & is_later)))
    recorded = recorded.append_column("evaluated_at", recorded["status_since"])
    return pa.concat_tables([rows.filter(pa.array(replaced)), columns_of(recorded, rows.schema)])


def _of_each(changes: pa.Table, key: list[str], status: str, place: str) -> pa.Table:
    """`status` and `status_since` of the first or the last of the changes of each key."""
    with_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    chosen = changes.group_by(key, use_threads=False).aggregate(
        [(status, place, with_nulls), ("changed_at", place)]
    )
    return chosen.rename_columns([*key, "status", "status_since"])


def _with_known(
    reader: TableReader, table: Table, kept: pa.Table, rows: pa.Table, at: datetime
) -> pa.Table:
    """Kept rows, with the status before `UNKNOWN` where this one ends."""
    key = list(table.key)
    was_unknown = pc.equal(kept["status"], Status.UNKNOWN.value).fill_null(False)
    if not pc.any(was_unknown).as_py():
        return kept
    place = positions(kept.select(key), rows.select(key))
    now = rows["status"].take(pa.array(place, mask=place == NOWHERE))
    ends = pc.and_(was_unknown, pc.not_equal(now, Status.UNKNOWN.value).fill_null(False))
    groups = pc.unique(kept["group_id"].filter(ends))
    wanted: list[tuple[str, str, Any]] = [("changed_at", "<=", at)]
    if len(groups) <= _MOST_NAMED:
        wanted.append(("group_id", "in", groups.to_pylist()))
    known = standing(_of_table(_changes(reader, wanted), table), key)
    place = positions(kept.select(key), known.select(key))
    place[~ends.to_numpy()] = NOWHERE
    before = known.take(pa.array(place, mask=place == NOWHERE))
    names = ("status", "status_since", "is_status_older")
    return with_columns(kept, {k: before[n] for k, n in zip(KNOWN.names, names, strict=True)})
