"""Since when groups are in the state that they are in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from streaming.lag.group_status import group_statuses
from streaming.tables.reader import TableReader

_LOOKS_BACK: Final = (
    *(timedelta(minutes=minutes) for minutes in (1, 5, 15)),
    *(timedelta(hours=hours) for hours in (1, 6, 24)),
)


def standing_since(
    reader: TableReader, statuses: Mapping[str, str], at: datetime
) -> dict[str, datetime]:
    """The earliest of some past moments since which each group has had its status at all of them.

    It had it for at least so long; a status that came and went between two of these moments is not
    seen. One that a group did not have a minute before is from `at`.
    """
    found = dict.fromkeys(statuses, at)
    left = dict(statuses)
    for ago in _LOOKS_BACK:
        before = reader.before(at - ago) if left else None
        if before is None:
            break
        then = group_statuses(before, at=at - ago, group_ids=list(left))
        pairs = zip(then["group_id"].to_pylist(), then["status"].to_pylist(), strict=True)
        left = {group: status for group, status in pairs if left[group] == status}
        found |= dict.fromkeys(left, at - ago)
    return found
