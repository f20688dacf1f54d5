"""Clones: the committed offsets of one group for another."""

from __future__ import annotations

from coordinator_state.insight.group_status import moment_text
from coordinator_state.replay.offsets import OffsetKey
from streaming.plans.committed_offsets import committed_offsets
from streaming.plans.group_plan import GroupPlan, plan_for_group, require_loaded
from streaming.plans.topic_selection import EVERYTHING, TopicSelection
from streaming.plans.wanted_offsets import place_of, want_committed
from streaming.tables.reader import TableReader


def clone(
    reader: TableReader,
    source: TableReader,
    group_id: str,
    new_group_id: str,
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan | None:
    """Plan the committed offsets that one group has in the snapshot `source` for another group.

    The other group need not exist. Its committed offsets in partitions that the first group lacks
    are left as they are.

    Returns:
        None if the first group has no committed offsets.

    Raises:
        ConfigurationError: as `plan_for_group`, also for the first group; or the selection names an
            unknown topic.
    """
    require_loaded(source, group_id)
    then = committed_offsets(source, [group_id])
    if not then:
        return None
    known = [OffsetKey(new_group_id, *place_of(key)) for key in then]
    current = committed_offsets(reader, [new_group_id])
    keys = selection.selected(new_group_id, [*known, *current])
    at = moment_text(source.moment, reader.moment)
    wanted = want_committed(
        reader,
        keys,
        {place_of(key): committed for key, committed in then.items()},
        source.moment,
        f"{group_id} has no committed offset",
    )
    return plan_for_group(reader, new_group_id, f"to the offsets of {group_id} at {at}", wanted)
