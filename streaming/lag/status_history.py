"""The statuses of a group over a time span, from the changes that `run` recorded.

Nothing is evaluated again. Where `run` did not evaluate, the status is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from streaming.clock import utc_now
from streaming.lag.evaluation import KEPT_FOR
from streaming.tables.creation import properties_of
from streaming.tables.evaluation_gaps import EvaluationGap, gaps_of, last_evaluation
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_STATUS, STATUS_CHANGES

_OF_GROUP = ["group_id", "status", "reason", "status_since", "evaluated_at"]
_COLUMNS = ["topic", "changed_at", "status_before", "status_after", "reason"]
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
    properties, now = properties_of(reader.tables, GROUP_STATUS), utc_now()
    # Times of the future are those of a wrong clock.
    gaps = [gap for gap in gaps_of(properties) if gap.end <= now]
    evaluated_at = last_evaluation(properties, kept["evaluated_at"], now)
    if until - evaluated_at > KEPT_FOR:
        gaps.append(EvaluationGap(evaluated_at, until))
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
