"""Applies a micro-batch of `__share_group_state` to `share_partitions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from coordinator_state.apply.columns import in_ms, table_of
from coordinator_state.apply.topic_records import AppliedTopic, decode_topic_records
from coordinator_state.apply.topic_rows import SHARE_PARTITION_CHANGES, SHARE_PARTITION_ROW
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.replay.share_partitions import (
    SharePartition,
    StateBatch,
    replay_share_record,
)
from coordinator_state.wire.primitives import uuid_text

SharePartitionKey = tuple[int, str, str, int]
"""Log partition, group id, topic id and partition."""


def apply_share_partitions(
    rows: pa.Table, before: Mapping[SharePartitionKey, SharePartition]
) -> AppliedTopic:
    """Apply one micro-batch of any set of log partitions of `__share_group_state`.

    The changes have no topic names yet, see `with_topic_names`.

    Args:
        rows: log rows (`LOG_ROW_SCHEMA`) in any order, without rows that the state before has
            already. Rows of kind `progress` are ignored.
        before: the state before the micro-batch, of at least the partitions in it.
    """
    decoded = decode_topic_records(rows, SHARE_STATE_RECORD_TYPES, dict)
    after: dict[SharePartitionKey, SharePartition | None] = {}
    last: dict[SharePartitionKey, int] = {}
    for record in decoded.records:
        fields = record.key.fields
        topic_id, partition = uuid_text(fields["topicId"]), fields["partition"]
        key = record.log_partition, fields["groupId"], topic_id, partition
        known = after[key] if key in after else before.get(key)
        after[key] = replay_share_record(
            known, record.key.record_type.id, record.value, record.record_timestamp_ms
        )
        last[key] = record.record_offset
    return AppliedTopic(
        tables={"share_partitions": _changes(after, last), "quarantine": decoded.quarantine},
        counts=decoded.counts,
    )


def with_topic_names(changes: pa.Table, topic_names: Mapping[str, str]) -> pa.Table:
    """The changes with the names of topics that are known by topic id."""
    names = [topic_names.get(topic_id) for topic_id in changes["topic_id"].to_pylist()]
    place = changes.schema.get_field_index("topic")
    return changes.set_column(place, changes.schema.field(place), [pa.array(names, pa.string())])


def share_partitions_of(rows: pa.Table) -> dict[SharePartitionKey, SharePartition]:
    """The state that rows of `share_partitions` have."""
    rows_in_ms = in_ms(rows, SHARE_PARTITION_ROW)
    return {_key(row): _share_partition(row) for row in rows_in_ms.to_pylist()}


def _key(row: Mapping[str, Any]) -> SharePartitionKey:
    return row["log_partition"], row["group_id"], row["topic_id"], row["partition"]


def _share_partition(row: Mapping[str, Any]) -> SharePartition:
    count = row["delivery_complete_count"]
    batches = tuple(StateBatch(**batch) for batch in row["state_batches"])
    own = {name: row[name] for name in SharePartition.__dataclass_fields__}
    return SharePartition(
        **own
        | {"delivery_complete_count": -1 if count is None else count, "state_batches": batches}
    )


def _changes(
    after: Mapping[SharePartitionKey, SharePartition | None], last: Mapping[SharePartitionKey, int]
) -> pa.Table:
    """One row of `SHARE_PARTITION_CHANGES` for each partition."""
    names = ("log_partition", "group_id", "topic_id", "partition")
    keys = {name: [key[place] for key in after] for place, name in enumerate(names)}
    counts = [state and state.delivery_complete_count for state in after.values()]
    return table_of(
        after.values(),
        SHARE_PARTITION_CHANGES,
        **keys,
        topic=[None] * len(after),
        delivery_complete_count=[None if count == -1 else count for count in counts],
        record_offset=last.values(),
        is_tombstone=[state is None for state in after.values()],
    )
