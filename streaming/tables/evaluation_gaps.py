"""The times without an evaluation of lag and status: a property of the table `group_status`.

`status_changes` has the changes that evaluations saw. While `run` is stopped, loads log partitions
or cannot write, nothing is evaluated, and the statuses of that time are not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import TIMESTAMP
from streaming.tables.schemas import PROPERTY_EVALUATED_AT, PROPERTY_NOT_EVALUATED

BEGINNING: Final = datetime.min.replace(tzinfo=timezone.utc)
"""The begin of the time before the first evaluation."""
_MOST_GAPS: Final = 100


class EvaluationGap(NamedTuple):
    """The time between two evaluations that are too far apart."""

    begin: datetime
    end: datetime


def gaps_of(properties: Mapping[str, str]) -> Sequence[EvaluationGap]:
    """The gaps in the properties of `group_status`: the oldest first, none overlaps another."""
    gaps = json.loads(properties.get(PROPERTY_NOT_EVALUATED, "[]"))
    return [EvaluationGap(*map(datetime.fromisoformat, gap)) for gap in gaps]


def gaps_text(gaps: Iterable[EvaluationGap]) -> str:
    """The gaps as the property."""
    return json.dumps([[begin.isoformat(), end.isoformat()] for begin, end in gaps])


def last_evaluation(
    properties: Mapping[str, str], evaluated_at: pa.ChunkedArray, now: datetime
) -> datetime:
    """The time of the last evaluation that is not of the future; `BEGINNING` without one.

    Args:
        properties: those of `group_status`.
        evaluated_at: the times of its rows; without rows, a property has the time.
        now: the time now.
    """
    noted = properties.get(PROPERTY_EVALUATED_AT)
    newest = pc.max(evaluated_at.filter(pc.less_equal(evaluated_at, pa.scalar(now, TIMESTAMP))))
    moments = [datetime.fromisoformat(noted)] if noted else []
    return max([at for at in (*moments, newest.as_py()) if at and at <= now], default=BEGINNING)


def without_contradicted(
    gaps: Iterable[EvaluationGap], last: datetime, at: datetime
) -> Sequence[EvaluationGap]:
    """End gaps in which there were two evaluations: a wrong clock recorded these gaps."""
    ended = [gap._replace(end=last) if gap.begin <= last < at < gap.end else gap for gap in gaps]
    return [gap for gap in ended if gap.begin < gap.end]


def with_gap(gaps: Sequence[EvaluationGap], last: EvaluationGap) -> Sequence[EvaluationGap]:
    """Add the last gap, and merge it with those that it overlaps.

    If there are too many gaps, the two oldest are merged. The time between them then counts as not
    evaluated, too.
    """
    apart = [gap for gap in gaps if gap.end <= last.begin]
    begin = min([last.begin, *(gap.begin for gap in gaps[len(apart) :])])
    merged = [*apart, EvaluationGap(begin, last.end)]
    while len(merged) > _MOST_GAPS:
        merged[:2] = [EvaluationGap(merged[0].begin, merged[1].end)]
    return merged
