"""The times without an evaluation of lag and status: a property of the table `group_status`.

`status_changes` has the changes that evaluations saw. While `run` is stopped, loads log partitions
or cannot write, nothing is evaluated, and the statuses of that time are not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Final, NamedTuple

from streaming.tables.schemas import PROPERTY_NOT_EVALUATED

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


def with_gap(gaps: Sequence[EvaluationGap], last: EvaluationGap) -> Sequence[EvaluationGap]:
    """Add the last gap. It is one with those that it overlaps.

    Of too many gaps, the two oldest become one, with the statuses between them: what is not known
    exactly is not known.
    """
    apart = [gap for gap in gaps if gap.end <= last.begin]
    begin = min([last.begin, *(gap.begin for gap in gaps[len(apart) :])])
    merged = [*apart, EvaluationGap(begin, last.end)]
    while len(merged) > _MOST_GAPS:
        merged[:2] = [EvaluationGap(merged[0].begin, merged[1].end)]
    return merged
