"""The reason why the tables have no rows of a group that a user named."""

from __future__ import annotations

import shlex

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import did_you_mean
from streaming.kafka.offset_fetch import NO_ERROR
from streaming.tables.reader import TableReader
from streaming.views.offset_fetch import coordinator_error


def unknown_group(
    reader: TableReader,
    group_id: str,
    *,
    all_groups: str = "coordinator-state show groups",
    events: str | None = None,
) -> str | None:
    """Say in one line that a group does not exist in the snapshot; None if it exists.

    A group that only committed offsets exists. The line names groups with a similar id, or says
    that the group was deleted, or that its log partition is not loaded.

    Args:
        reader: the snapshot.
        group_id: the group.
        all_groups: the way to a list of all groups.
        events: the way to the events of the group; by default the command.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    if reader.own("groups", ["group_id"], [group_id]).num_rows:
        return None
    log_partition = partition_for(group_id, reader.log_partitions)
    error = coordinator_error(reader, log_partition)
    if error != NO_ERROR:
        return f"unknown group {group_id}: its log partition {log_partition} answers {error}"
    if reader.own("group_events", ["group_id"], [group_id]).num_rows:
        events = events or f"coordinator-state show events --group {shlex.quote(group_id)}"
        return f"group {group_id} does not exist any more; its events: {events}"
    groups = reader.read("groups", ["group_id"])["group_id"].unique().to_pylist()
    hint = did_you_mean(group_id, groups) or f"; for all groups: {all_groups}"
    return f"unknown group {group_id}{hint}"
