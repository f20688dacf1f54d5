"""The committed offsets that coordinators answer with, of one group or of all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from coordinator_state.replay.groups import SHARE
from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.errors import ConfigurationError
from streaming.kafka.partition_offsets import TopicPartition
from streaming.lag.share_offsets import share_progress, start_offsets
from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_CURRENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A committed offset, when it was committed, and the topic id that it was committed for."""

    offset: int
    commit_timestamp: datetime
    topic_id: str | None


def committed_offsets(
    reader: TableReader, group_ids: Collection[str] | None = None
) -> dict[OffsetKey, Committed]:
    """The committed offsets of existing groups, by group, topic and partition.

    Offsets in the log of a group that does not exist are left out, as OffsetFetch leaves them out.
    """
    columns = ["topic", "partition", "committed_offset", "commit_timestamp", "topic_id"]
    rows = reader.own("group_offsets", columns, group_ids).to_pylist()
    types = group_types(reader, group_ids)
    has_all = reader.semantics != Semantics.COORDINATOR.value
    return {
        OffsetKey(row["group_id"], row["topic"], row["partition"]): Committed(
            offset=row["committed_offset"],
            commit_timestamp=row["commit_timestamp"],
            topic_id=row["topic_id"],
        )
        for row in rows
        if has_all or types.get(row["group_id"], SHARE) != SHARE
    }


def current_offsets(reader: TableReader, group_id: str) -> dict[OffsetKey, Committed]:
    """The committed offsets of one group; those of a share group are its start offsets.

    Raises:
        ConfigurationError: the start offsets are not loaded.
    """
    if group_types(reader, [group_id]).get(group_id) != SHARE:
        return committed_offsets(reader, [group_id])
    if {*share_progress(reader)["state"].to_pylist()} != {STATE_CURRENT}:
        raise ConfigurationError(
            f"the start offsets of {group_id} are unknown: `run` has not loaded "
            "all of __share_group_state"
        )
    return {
        OffsetKey(group_id, row["topic"], row["partition"]): Committed(
            offset=row["committed_offset"], commit_timestamp=reader.moment, topic_id=None
        )
        for row in start_offsets(reader, [group_id]).to_pylist()
    }


def place_of(key: OffsetKey) -> TopicPartition:
    """The partition of a committed offset."""
    return TopicPartition(key.topic, key.partition)


def group_types(reader: TableReader, group_ids: Collection[str] | None = None) -> dict[str, str]:
    """The type of each existing group."""
    rows = reader.own("groups", ["group_type"], group_ids).to_pylist()
    return {row["group_id"]: row["group_type"] for row in rows}
