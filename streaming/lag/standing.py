"""The times since which groups have their current status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from streaming.lag.evaluation import Evaluation
from streaming.tables.reader import TableReader

_STEPS_BACK: Final = (
    *(timedelta(minutes=minutes) for minutes in (1, 5, 15)),
    *(timedelta(hours=hours) for hours in (1, 6, 24)),
)
_LAST_MINUTES: Final = timedelta(minutes=5)


def standing_since(
    reader: TableReader, statuses: Mapping[str, str], at: datetime
) -> dict[str, datetime]:
    """For each group, the earliest of the checked times since which its status is unchanged.

    The checked times are the steps before `at`. The group has had its status for at least that
    long, but a change between two checked times is not noticed. If the status differs at the first
    step, one minute before, the result is `at`.
    """
    if not statuses:
        return {}
    found = dict.fromkeys(statuses, at)
    left = dict(statuses)
    rebuilding = reader.rebuilding(at - _STEPS_BACK[-1], at, list(statuses))
    for ago in _STEPS_BACK:
        # Rates compare with five minutes before, so snapshots of the last minutes are kept.
        is_rebuilt = left and ago > _LAST_MINUTES
        before = reader.rebuilt(at - ago, rebuilding) if is_rebuilt else None
        if left and before is None:
            before = reader.before(at - ago)
        if before is None:
            break
        then = Evaluation.of(before, at=at - ago, group_ids=list(left)).statuses
        pairs = zip(then["group_id"].to_pylist(), then["status"].to_pylist(), strict=True)
        left = {group: status for group, status in pairs if left[group] == status}
        found |= dict.fromkeys(left, at - ago)
    return found
