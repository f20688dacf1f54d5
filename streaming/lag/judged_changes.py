"""The difference between two evaluations: the rows to write, and the changes of status.

Ages, rates and texts differ in each evaluation. A row is written if another column changed, and
from time to time because of its ages. So an idle cluster writes little, and its rows still say
when they were evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import (
    NOWHERE,
    TIMESTAMP,
    Integers,
    nullable,
    positions,
)
from coordinator_state.insight.group_status import Status

_UNKNOWN: Final = Status.UNKNOWN.value
AGEING: Final = frozenset(
    {
        *("commit_age_ms", "time_lag_ms", "time_lag_at_least_ms", "retention_margin_ms"),
        *("max_time_lag_ms", "max_time_lag_at_least_ms", "min_retention_margin_ms"),
        *("commit_rate_per_s", "produce_rate_per_s", "growth_per_s", "time_to_catch_up_ms"),
        *("usual_commit_ms", "usual_move_ms"),
        *(
            "sampled_at",
            "known_until",
            "commit_timestamp",
            "reason",
            *("status_since", "is_status_older"),
            "evaluated_at",
        ),
    }
)
"""The columns that change although nothing happened: a consumer may commit its offset again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedChanges:
    """The difference between the kept rows of a table and a new evaluation.

    Attributes:
        written: the numbers of the new rows to write.
        deleted: the keys of the kept rows that the evaluation does not have.
        statuses: a row for each change of status: the key, `status_before`, `status_after`, and
            `number`, that of the new row. The status is null before the first row of a key, and
            after the last.
        kept: the new rows without the columns `AGEING`, but with `status_since`, `is_status_older`
            and `evaluated_at`, and with the columns `KNOWN`. A row that is not written keeps
            `evaluated_at`.
    """

    written: Integers
    deleted: pa.Table
    statuses: pa.Table
    kept: pa.Table


KNOWN: Final = pa.schema(
    [
        *(("known_status", pa.string()), ("known_since", TIMESTAMP)),
        ("is_known_older", pa.bool_()),
    ]
)
"""The status before `UNKNOWN`, with its `status_since` and `is_status_older`; null otherwise.

A status that is the same before and after a time in which it was not known has not changed."""
_OF_STATUS: Final = ("status_since", "is_status_older", "evaluated_at")


def kept_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of `JudgedChanges.kept` for a table."""
    names = [name for name in schema.names if name not in AGEING]
    return nullable(pa.schema([*(schema.field(n) for n in (*names, *_OF_STATUS)), *KNOWN]))


def judged_changes(
    kept: pa.Table,
    rows: pa.Table,
    *,
    key: Sequence[str],
    rewritten_after: timedelta,
    most_rewritten: int,
    is_after_gap: bool = False,
) -> JudgedChanges:
    """Compare an evaluation with the kept rows.

    Args:
        kept: the rows of the last evaluation (`kept_schema`).
        rows: the rows of this one, each key once, with its time in `evaluated_at`.
        key: the columns of the key, without nulls.
        rewritten_after: a kept row that was evaluated longer ago is written again, and one of the
            future: a clock was wrong then.
        most_rewritten: the number of groups with such rows at most, the oldest first.
        is_after_gap: whether nothing was evaluated for too long before this evaluation, so that a
            new status may be older.
    """
    before = positions(rows.select(key), kept.select(key))
    is_new = before == NOWHERE
    earlier = kept.take(pa.array(before, mask=is_new))
    is_changed = is_new.copy()
    for name in kept.column_names:
        if name not in {*key, *_OF_STATUS, *KNOWN.names}:
            is_changed |= _differ(rows[name], earlier[name])
    is_status_changed = is_new | _differ(rows["status"], earlier["status"])
    at = rows["evaluated_at"]
    before_at = earlier["evaluated_at"]
    is_due = pc.less(before_at, pc.subtract(at, pa.scalar(rewritten_after)))
    is_due = pc.fill_null(pc.or_(is_due, pc.greater(before_at, at)), False).to_numpy()
    is_written = is_changed | _oldest(is_due, before_at, rows["group_id"], most_rewritten)
    evaluated_at = pc.if_else(pa.array(is_written), at, earlier["evaluated_at"])
    names = [name for name in kept.column_names if name not in {*AGEING, *KNOWN.names}]
    after = rows.select(names)
    columns = _standing(rows["status"], earlier, at, is_status_changed, is_after_gap)
    for name, column in (columns | {"evaluated_at": evaluated_at}).items():
        after = after.append_column(name, column)
    after = after.select(kept.column_names).cast(kept.schema)
    is_gone = positions(kept.select(key), rows.select(key)) == NOWHERE
    gone = kept.filter(pa.array(is_gone))
    return JudgedChanges(
        written=np.flatnonzero(is_written),
        deleted=gone.select(key),
        statuses=_statuses(rows, earlier, gone, key, is_status_changed),
        kept=after,
    )


def _standing(
    statuses: pa.ChunkedArray,
    earlier: pa.Table,
    at: pa.ChunkedArray,
    is_changed: Integers,
    is_after_gap: bool,
) -> dict[str, pa.ChunkedArray]:
    """Since when each row has its status, and the columns `KNOWN`."""
    was_unknown = pc.equal(earlier["status"], _UNKNOWN).fill_null(False)
    known = {
        name: pc.if_else(was_unknown, earlier[name], earlier[of_status])
        for name, of_status in zip(KNOWN.names, ("status", *_OF_STATUS[:2]), strict=True)
    }
    is_unknown = pc.equal(statuses, _UNKNOWN)
    goes_on = pc.equal(statuses, known["known_status"]).fill_null(False)
    goes_on = pc.and_(goes_on, was_unknown)
    changed = pa.array(is_changed)
    since = pc.if_else(changed, at, earlier["status_since"])
    is_older = pc.if_else(changed, pc.or_(was_unknown, is_after_gap), earlier["is_status_older"])
    return {
        "status_since": pc.if_else(goes_on, known["known_since"], since),
        "is_status_older": pc.if_else(goes_on, known["is_known_older"], is_older),
        **{name: pc.if_else(is_unknown, known[name], None) for name in known},
    }


def _statuses(
    rows: pa.Table, earlier: pa.Table, gone: pa.Table, key: Sequence[str], is_changed: Integers
) -> pa.Table:
    numbers = np.flatnonzero(is_changed)
    changed = rows.take(pa.array(numbers))
    # A status that is null was already recorded as gone.
    gone = gone.filter(pc.is_valid(gone["status"]))
    return pa.table(
        {
            **{name: pa.chunked_array([*changed[name].chunks, *gone[name].chunks]) for name in key},
            "status_before": pa.chunked_array(
                [*earlier["status"].take(pa.array(numbers)).chunks, *gone["status"].chunks]
            ),
            "status_after": pa.chunked_array(
                [*changed["status"].chunks, pa.nulls(gone.num_rows, pa.string())]
            ),
            "number": pa.array([*numbers, *[NOWHERE] * gone.num_rows], pa.int64()),
        }
    )


def _differ(values: pa.ChunkedArray, other: pa.ChunkedArray) -> Integers:
    """Whether values differ; null differs from all but null."""
    is_other = pc.fill_null(pc.not_equal(values, other), False)
    differs: Integers = pc.or_(is_other, pc.xor(pc.is_null(values), pc.is_null(other))).to_numpy()
    return differs


def _oldest(
    is_due: Integers, evaluated_at: pa.ChunkedArray, groups: pa.ChunkedArray, most: int
) -> Integers:
    """A mask of the rows that are due, of at most this number of groups, the oldest first."""
    is_oldest: Integers = np.zeros(len(is_due), np.bool_)
    due = np.flatnonzero(is_due)
    due = due[np.argsort(evaluated_at.take(pa.array(due)).to_numpy(), kind="stable")]
    # The numbers of the groups are in the order of their oldest rows.
    encoded = groups.take(pa.array(due)).combine_chunks().dictionary_encode()
    is_oldest[due[encoded.indices.to_numpy() < most]] = True
    return is_oldest
