"""The statuses of groups over time, from the changes that `run` recorded.

Nothing is evaluated again. Where `run` did not evaluate, the status is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import distinct_keys
from coordinator_state.insight.group_status import Status
from streaming.lag.evaluation import KEPT_FOR
from streaming.lag.offset_samples import to_ms
from streaming.tables.clock import utc_now
from streaming.tables.creation import properties_of
from streaming.tables.evaluation_gaps import EvaluationGap, gaps_of, last_evaluation
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_LAG,
    GROUP_STATUS,
    PROPERTY_STATUS_RULES_SINCE,
    STATUS_CHANGES,
)

_OF_GROUP = ["group_id", "status", "reason", "status_since", "evaluated_at"]
_COLUMNS = ["topic", "changed_at", "status_before", "status_after", "reason"]
_OF_STANDING = ["group_id", "topic", "changed_at", "status_before", "status_after"]
_MOST_NAMED = 1_000
"""For more groups, the changes of all groups are read."""
_UNKNOWN: Final = Status.UNKNOWN.value
_ABSENT = "the group did not exist"
_NOT_EVALUATED = "run did not evaluate"


@dataclass(frozen=True, slots=True)
class StatusPeriod:
    """A time with one status; it is None if the group did not exist, or if nobody knows it."""

    begin: datetime
    end: datetime
    status: str | None
    reason: str
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change that an evaluation saw; the status is None before and after a group exists."""

    at: datetime
    before: str | None
    after: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class StatusHistory:
    """The periods of a time span without a break, and the changes in it, oldest first."""

    periods: Sequence[StatusPeriod]
    changes: Sequence[StatusChange]


def status_history(
    reader: TableReader, group_id: str, *, since: datetime, until: datetime
) -> StatusHistory:
    """The statuses of a group from `since` to `until`.

    Raises:
        TablesUnavailable: the tables cannot be read now.
    """
    changes = _recorded_changes(reader, group_id, since)
    kept = reader.read(GROUP_STATUS.name, _OF_GROUP)
    current = kept.filter(pc.equal(kept["group_id"], group_id)).to_pylist()
    gaps = _gaps(reader, kept["evaluated_at"], until)
    status_since = current[0]["status_since"] if current and not changes else None
    if status_since is not None and status_since > since:
        # The day of the change to this status is deleted.
        gaps.append(EvaluationGap(since, status_since))
    seen = [change for change in changes if since < change.at <= until]
    first = _status_at(since, changes, current)
    # A group that the first evaluation after a gap saw may have existed before.
    ends = {gap.end for gap in gaps}
    return StatusHistory(
        _periods([first, *seen], gaps, since, until),
        [change for change in seen if change.before is not None or change.at not in ends],
    )


def groups_with_status(
    reader: TableReader, statuses: Collection[Status], *, since: datetime, until: datetime
) -> set[str] | None:
    """The groups that had any of these statuses between two times, and perhaps others.

    A group counts if it had the status itself, or in a partition. None if `run` did not evaluate
    all the time by the same limits.

    Raises:
        TablesUnavailable: the tables cannot be read now.
    """
    kept = reader.read(GROUP_STATUS.name, ["group_id", "status", "evaluated_at"])
    properties = properties_of(reader.tables, GROUP_STATUS)
    limits_since = properties.get(PROPERTY_STATUS_RULES_SINCE)
    if limits_since is not None and since < datetime.fromisoformat(limits_since):
        return None
    gaps = _gaps(reader, kept["evaluated_at"], until)
    # Other gaps end with an evaluation, the one up to now does not.
    if any(gap.begin < until and (since < gap.end or gap.end == until) for gap in gaps):
        return None
    recorded = reader.read(
        STATUS_CHANGES.name,
        ["group_id", "status_before", "status_after"],
        [("day", ">=", since.date()), ("changed_at", ">=", since)],
    )
    lags = reader.read(GROUP_LAG.name, ["group_id", "status"])
    wanted = pa.array([status.value for status in statuses], pa.string())
    return {
        group_id
        for rows, name in (
            *((kept, "status"), (lags, "status")),
            *((recorded, "status_before"), (recorded, "status_after")),
        )
        for group_id in pc.unique(rows["group_id"].filter(pc.is_in(rows[name], wanted))).to_pylist()
    }


def _gaps(
    reader: TableReader, evaluated_at: pa.ChunkedArray, until: datetime
) -> list[EvaluationGap]:
    """The times up to `until` in which `run` did not evaluate."""
    properties, now = properties_of(reader.tables, GROUP_STATUS), utc_now()
    # Times of the future are those of a wrong clock.
    gaps = [gap for gap in gaps_of(properties) if gap.end <= now]
    last_at = last_evaluation(properties, evaluated_at, now)
    if until - last_at > KEPT_FOR:
        gaps.append(EvaluationGap(last_at, until))
    return gaps


def _recorded_changes(reader: TableReader, group_id: str, since: datetime) -> list[StatusChange]:
    """The changes of a group from the day of `since` until now."""
    wanted: list[tuple[str, str, Any]] = [
        *(("day", ">=", since.date()), ("group_id", "=", group_id))
    ]
    rows = reader.read(STATUS_CHANGES.name, _COLUMNS, wanted)
    rows = rows.filter(pc.is_null(rows["topic"])).sort_by("changed_at").drop_columns("topic")
    return [
        StatusChange(at, before, after, reason or (_ABSENT if after is None else ""))
        for at, before, after, reason in zip(
            *(column.to_pylist() for column in rows.columns), strict=True
        )
    ]


def _status_at(
    since: datetime, changes: Sequence[StatusChange], current: Sequence[Mapping[str, Any]]
) -> StatusChange:
    """The status at `since`: of the last change before it, the next one, or the kept row."""
    earlier = [change for change in changes if change.at <= since]
    if earlier:
        return earlier[-1]
    if changes:
        before = changes[0].before
        return StatusChange(since, before, before, _ABSENT if before is None else "")
    for row in current:
        return StatusChange(since, row["status"], row["status"], row["reason"])
    return StatusChange(since, None, None, _ABSENT)


def _periods(
    changes: Sequence[StatusChange],
    gaps: Sequence[EvaluationGap],
    since: datetime,
    until: datetime,
) -> Sequence[StatusPeriod]:
    """The periods between changes and the limits of gaps; the first change is at `since` or before.

    No change is within a gap: the first evaluation after it has the time of its end.
    """
    limits = {*(change.at for change in changes), *(limit for gap in gaps for limit in gap)}
    moments = sorted({since, until, *(limit for limit in limits if since < limit < until)})
    periods: list[StatusPeriod] = []
    for begin, end in pairwise(moments):
        change = changes[bisect_right(changes, begin, key=lambda change: change.at) - 1]
        period = StatusPeriod(begin, end, change.after, change.reason)
        if any(gap.begin <= begin < gap.end for gap in gaps):
            period = StatusPeriod(begin, end, None, _NOT_EVALUATED, is_known=False)
        if periods and replace(periods[-1], begin=begin, end=end) == period:
            periods[-1] = replace(periods[-1], end=end)
        else:
            periods.append(period)
    return periods


def standing(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last known status of each key: `status`, `status_since` and `is_status_older`.

    Times with the status `UNKNOWN` in between do not end a status. A status may be older than its
    first change if it was the first of the key, or came after `UNKNOWN`.

    Args:
        changes: the key, `changed_at`, `status_before` and `status_after`.
        key: the columns of the key.
    """
    rows = changes.filter(pc.not_equal(changes["status_after"], _UNKNOWN).fill_null(True))
    ids = distinct_keys(rows.select(key))
    order = np.lexsort((to_ms(rows["changed_at"]).to_numpy(), ids))
    rows, ids = rows.take(pa.array(order)), ids[order]
    codes = rows["status_after"].combine_chunks().dictionary_encode("encode").indices.to_numpy()
    is_begin = np.ones(ids.size, np.bool_)
    is_begin[1:] = (ids[1:] != ids[:-1]) | (codes[1:] != codes[:-1])
    begins = np.flatnonzero(is_begin)
    is_last = np.append(ids[begins][1:] != ids[begins][:-1], True)[: begins.size]
    first = rows.take(pa.array(begins[is_last]))
    before = first["status_before"]
    is_older = pc.or_(pc.is_null(before), pc.equal(before, _UNKNOWN).fill_null(False))
    columns = [*(first[name] for name in key), first["status_after"], first["changed_at"], is_older]
    return pa.table(columns, names=[*key, "status", "status_since", "is_status_older"])


def standing_since(reader: TableReader, statuses: pa.Table, at: datetime) -> Mapping[str, datetime]:
    """The time since which each group has its status, if the last recorded change was one to it.

    Times with the status `UNKNOWN` in between do not count.

    Args:
        reader: the snapshot.
        statuses: `group_id` and `status` of the groups.
        at: the moment of the statuses; later changes do not count.
    """
    wanted: list[tuple[str, str, Any]] = [("day", "<=", at.date()), ("changed_at", "<=", at)]
    if statuses.num_rows <= _MOST_NAMED:
        wanted.append(("group_id", "in", statuses["group_id"].to_pylist()))
    changes = reader.read(STATUS_CHANGES.name, _OF_STANDING, wanted)
    changes = changes.filter(pc.is_null(changes["topic"])).sort_by("changed_at")
    last = changes.group_by("group_id", use_threads=False).aggregate(
        # A deletion is a change to null.
        [
            ("status_after", "last", pc.ScalarAggregateOptions(skip_nulls=False)),
            ("changed_at", "last"),
        ]
    )
    last = last.rename_columns(["group_id", "status", "status_since"])
    is_unknown = pc.equal(last["status"], _UNKNOWN).fill_null(False)
    unknown = last.filter(is_unknown)
    known = standing(changes, ["group_id"]).select(last.column_names)
    is_now_unknown = pc.is_in(known["group_id"], unknown["group_id"].combine_chunks())
    standings = pa.concat_tables(
        [known.filter(pc.invert(is_now_unknown)), unknown], promote_options="permissive"
    )
    current = statuses.select(["group_id", "status"])
    rows = current.join(standings, ["group_id", "status"], join_type="inner")
    columns = rows["group_id"].to_pylist(), rows["status_since"].to_pylist()
    return dict(zip(*columns, strict=True))
