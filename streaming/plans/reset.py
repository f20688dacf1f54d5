"""Resets of a group: to a past state, to the records of a time, or to the oldest kept records.

Each function returns None for a group without committed offsets of which no partition is named, and
raises ConfigurationError as `plan_for_group` does, or if the selection names an unknown topic.
"""

from __future__ import annotations

from datetime import datetime

from coordinator_state.insight.group_status import moment_text
from coordinator_state.replay.offsets import OffsetKey
from streaming.plans.committed_offsets import committed_offsets
from streaming.plans.group_plan import GroupPlan, plan_for_group, require_loaded
from streaming.plans.topic_selection import EVERYTHING, TopicSelection
from streaming.plans.wanted_offsets import (
    place_of,
    want_committed,
    want_log_ends,
    want_log_starts,
)
from streaming.tables.reader import TableReader


def reset_to_state(
    reader: TableReader,
    past: TableReader,
    group_id: str,
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan | None:
    """Plan the committed offsets that the group had in an earlier snapshot, `past`.

    The group may have been deleted since. Partitions without a committed offset at that moment are
    left as they are.
    """
    require_loaded(past, group_id)
    then = committed_offsets(past, [group_id])
    known = {**committed_offsets(reader, [group_id]), **then}
    if not known:
        return None
    keys = selection.selected(group_id, known)
    at = moment_text(past.moment, reader.moment)
    by_place = {place_of(key): committed for key, committed in then.items()}
    wanted = want_committed(reader, keys, by_place, past.moment, f"no committed offset at {at}")
    return plan_for_group(reader, group_id, f"back to its offsets of {at}", wanted)


def reset_to_time(
    reader: TableReader,
    group_id: str,
    moment: datetime,
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan | None:
    """Plan the log ends of a time: the group reads the records that were produced after it.

    The log end is that of the newest sample up to the time, so that no record after it is skipped;
    a few earlier ones are read, too. A partition whose samples do not reach back is left as it is.
    """
    keys = _keys(reader, group_id, selection)
    if not keys:
        return None
    goal = f"to the records since {moment_text(moment, reader.moment)}"
    return plan_for_group(reader, group_id, goal, want_log_ends(reader, keys, moment))


def reset_to_earliest_kept(
    reader: TableReader, group_id: str, selection: TopicSelection = EVERYTHING
) -> GroupPlan | None:
    """Plan the log starts of the newest samples."""
    keys = _keys(reader, group_id, selection)
    if not keys:
        return None
    goal = "to the oldest kept records"
    return plan_for_group(reader, group_id, goal, want_log_starts(reader, keys))


def _keys(reader: TableReader, group_id: str, selection: TopicSelection) -> list[OffsetKey]:
    known = committed_offsets(reader, [group_id])
    return selection.selected(group_id, known) if known or selection.partitions else []
