"""Answers OffsetFetch requests from the tables.

The rules are those of `OffsetManager.getOffsets` and of its successors:

- Without named partitions the answer has all committed offsets of the group.
- A partition without a committed offset answers -1 with empty metadata and no error. So does every
  partition of a share group or of a group that does not exist.
- A log partition that is loading answers COORDINATOR_LOAD_IN_PROGRESS. One that is not in the
  tables answers NOT_COORDINATOR.

Source: core/src/main/scala/kafka/server/OffsetManager.scala (`getOffsets`) at 0.8.2.2;
group-coordinator/src/main/java/org/apache/kafka/coordinator/group/OffsetMetadataManager.java
(`fetchOffsets`, `fetchAllOffsets`) at 4.2.0;
core/src/main/scala/kafka/coordinator/group/GroupMetadataManager.scala (`getOffsets`) at 3.9.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.replay.groups import SHARE
from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.offset_fetch import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NO_ERROR,
    NOT_COORDINATOR,
    UNSTABLE_OFFSET_COMMIT,
    OffsetFetchAnswer,
)
from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING


def offset_fetch(
    tables: TableReader | str,
    group_id: str,
    partitions: Iterable[tuple[str, int]] | None = None,
    *,
    require_stable: bool = False,
) -> list[OffsetFetchAnswer]:
    """Answer for the named partitions in their order, or for all of the group, sorted.

    With `require_stable` (KIP-447) a partition with a pending transactional commit answers
    UNSTABLE_OFFSET_COMMIT instead of its committed offset.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    reader = (tables if isinstance(tables, TableReader) else TableReader(tables)).of_kafka()
    named = None if partitions is None else list(partitions)
    log_partition = partition_for(group_id, reader.log_partitions)
    error = coordinator_error(reader, log_partition)
    if error != NO_ERROR:
        failed: Sequence[tuple[str | None, int | None]] = named or [(None, None)]
        return [
            OffsetFetchAnswer(topic=topic, partition=partition, error=error)
            for topic, partition in failed
        ]
    of_group = [("group_id", "=", group_id), ("log_partition", "=", log_partition)]
    # Offsets may outlive their group in the log; the coordinator does not answer with them.
    has_answers = reader.semantics != "coordinator" or _has_offsets(reader, of_group)
    committed = (
        {(row["topic"], row["partition"]): row for row in _rows(reader, "group_offsets", of_group)}
        if has_answers
        else {}
    )
    pending = (
        {(row["topic"], row["partition"]) for row in _rows(reader, "pending_offsets", of_group)}
        if require_stable
        else set()
    )
    asked = sorted(committed) if named is None else named
    return [_answer(key, committed.get(key), is_stable=key not in pending) for key in asked]


def coordinator_error(reader: TableReader, log_partition: int) -> str:
    """The error that a coordinator with these tables answers to requests for the log partition.

    A coordinator that failed to load answers NOT_COORDINATOR, like one that is not the leader.
    """
    load = reader.load_states.get(log_partition)
    if load is not None and load.state == STATE_LOADING:
        return COORDINATOR_LOAD_IN_PROGRESS
    return NO_ERROR if load is not None and load.state == STATE_CURRENT else NOT_COORDINATOR


def _has_offsets(reader: TableReader, of_group: list[tuple[str, str, Any]]) -> bool:
    """Whether the group exists and its type commits offsets to `__consumer_offsets`."""
    group_types = reader.read("groups", ["group_type"], of_group)["group_type"].to_pylist()
    return bool(group_types) and group_types[0] != SHARE


def _rows(
    reader: TableReader, name: str, filters: list[tuple[str, str, Any]]
) -> list[dict[str, Any]]:
    columns = ["topic", "partition", "committed_offset", "leader_epoch", "metadata"]
    rows: list[dict[str, Any]] = reader.read(name, columns, filters).to_pylist()
    return rows


def _answer(
    key: tuple[str, int], row: dict[str, Any] | None, *, is_stable: bool
) -> OffsetFetchAnswer:
    topic, partition = key
    if not is_stable:
        return OffsetFetchAnswer(topic=topic, partition=partition, error=UNSTABLE_OFFSET_COMMIT)
    if row is None:
        return OffsetFetchAnswer(topic=topic, partition=partition)
    epoch = row["leader_epoch"]
    return OffsetFetchAnswer(
        topic=topic,
        partition=partition,
        committed_offset=row["committed_offset"],
        leader_epoch=NO_LEADER_EPOCH if epoch is None else epoch,
        metadata=row["metadata"],
    )
