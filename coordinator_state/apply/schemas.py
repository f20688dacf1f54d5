"""The row schemas of every table that a micro-batch writes, with times in milliseconds.

`streaming.tables.schemas` declares the Delta tables from these rows: a column `<name>_timestamp_ms`
is stored as a timestamp `<name>_timestamp`. A change has additional columns: a flag for deletion
and, except for members, the guard offset of the MERGE.
"""

from __future__ import annotations

import pyarrow as pa

TOPIC_PARTITIONS = pa.list_(
    pa.struct([("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32())])
)
TASKS = pa.list_(
    pa.struct(
        [("task_type", pa.string()), ("subtopology_id", pa.string()), ("partition", pa.int32())]
    )
)


def _column(name: str, column_type: pa.DataType) -> pa.Field:
    return pa.field(name, column_type, nullable=False)


def _nullable(name: str, column_type: pa.DataType) -> pa.Field:
    return pa.field(name, column_type, nullable=True)


GROUP_OFFSET_ROW = pa.schema(
    [
        _column("group_id", pa.string()),
        _column("topic", pa.string()),
        _column("partition", pa.int32()),
        _column("log_partition", pa.int32()),
        _column("committed_offset", pa.int64()),
        _nullable("leader_epoch", pa.int32()),
        _column("metadata", pa.string()),
        _column("commit_timestamp_ms", pa.int64()),
        _nullable("expire_timestamp_ms", pa.int64()),
        _nullable("topic_id", pa.string()),
        _nullable("producer_id", pa.int64()),
        _column("record_offset", pa.int64()),
    ]
)

PENDING_OFFSET_ROW = pa.schema(
    [
        _column("log_partition", pa.int32()),
        _column("producer_id", pa.int64()),
        _column("group_id", pa.string()),
        _column("topic", pa.string()),
        _column("partition", pa.int32()),
        _column("producer_epoch", pa.int32()),
        _column("committed_offset", pa.int64()),
        _nullable("leader_epoch", pa.int32()),
        _column("metadata", pa.string()),
        _column("commit_timestamp_ms", pa.int64()),
        _nullable("expire_timestamp_ms", pa.int64()),
        _nullable("topic_id", pa.string()),
        _column("record_offset", pa.int64()),
        _nullable("record_timestamp_ms", pa.int64()),
    ]
)

GROUP_ROW = pa.schema(
    [
        _column("group_id", pa.string()),
        _column("log_partition", pa.int32()),
        _column("group_type", pa.string()),
        _column("state", pa.string()),
        _column("protocol_type", pa.string()),
        _nullable("protocol", pa.string()),
        _nullable("leader", pa.string()),
        _nullable("generation", pa.int32()),
        _nullable("group_epoch", pa.int32()),
        _nullable("assignment_epoch", pa.int32()),
        _column("member_count", pa.int32()),
        _nullable("state_timestamp_ms", pa.int64()),
        _nullable("subscribed_topics", pa.list_(pa.string())),
        _nullable("replay_warning", pa.string()),
        _column("record_offset", pa.int64()),
        _nullable("created_record_offset", pa.int64()),
    ]
)

GROUP_MEMBER_ROW = pa.schema(
    [
        _column("group_id", pa.string()),
        _column("member_id", pa.string()),
        _column("log_partition", pa.int32()),
        _nullable("group_instance_id", pa.string()),
        _column("client_id", pa.string()),
        _column("client_host", pa.string()),
        _nullable("rack_id", pa.string()),
        _nullable("session_timeout_ms", pa.int32()),
        _nullable("rebalance_timeout_ms", pa.int32()),
        _nullable("subscribed_topics", pa.list_(pa.string())),
        _nullable("subscribed_regex", pa.string()),
        _nullable("member_epoch", pa.int32()),
        _nullable("member_state", pa.string()),
        _nullable("assignment", TOPIC_PARTITIONS),
        _nullable("target_assignment", TOPIC_PARTITIONS),
        _nullable("pending_revocation", TOPIC_PARTITIONS),
        _nullable("tasks", TASKS),
        _nullable("target_tasks", TASKS),
        _nullable("subscription_bytes", pa.binary()),
        _nullable("assignment_bytes", pa.binary()),
        _nullable("subscription_json", pa.string()),
        _nullable("assignment_json", pa.string()),
        _column("record_offset", pa.int64()),
        _nullable("created_record_offset", pa.int64()),
    ]
)

COORDINATOR_RECORD_ROW = pa.schema(
    [
        _column("group_id", pa.string()),
        _column("record_type", pa.int32()),
        _column("record_type_name", pa.string()),
        _column("record_key", pa.string()),
        _column("log_partition", pa.int32()),
        _nullable("value_version", pa.int32()),
        _nullable("value", pa.string()),
        _column("raw_key", pa.binary()),
        _nullable("raw_value", pa.binary()),
        _column("is_tombstone", pa.bool_()),
        _column("record_offset", pa.int64()),
        _nullable("record_timestamp_ms", pa.int64()),
    ]
)

OFFSET_COMMIT_ROW = pa.schema(
    [
        _column("log_partition", pa.int32()),
        _column("record_offset", pa.int64()),
        _nullable("record_timestamp_ms", pa.int64()),
        _column("group_id", pa.string()),
        _column("topic", pa.string()),
        _column("partition", pa.int32()),
        _column("is_tombstone", pa.bool_()),
        _nullable("committed_offset", pa.int64()),
        _nullable("leader_epoch", pa.int32()),
        _nullable("metadata", pa.string()),
        _nullable("commit_timestamp_ms", pa.int64()),
        _nullable("expire_timestamp_ms", pa.int64()),
        _nullable("topic_id", pa.string()),
        _nullable("producer_id", pa.int64()),
        _nullable("producer_epoch", pa.int32()),
        _column("outcome", pa.string()),
        _column("outcome_record_offset", pa.int64()),
        _nullable("outcome_timestamp_ms", pa.int64()),
    ]
)

GROUP_EVENT_ROW = pa.schema(
    [
        _column("log_partition", pa.int32()),
        _column("record_offset", pa.int64()),
        _column("event_number", pa.int32()),
        _nullable("record_timestamp_ms", pa.int64()),
        _column("event", pa.string()),
        _column("group_id", pa.string()),
        _nullable("group_type", pa.string()),
        _nullable("member_count", pa.int32()),
        _nullable("epoch_before", pa.int32()),
        _nullable("epoch_after", pa.int32()),
        _nullable("member_id", pa.string()),
        _nullable("group_instance_id", pa.string()),
        _nullable("client_id", pa.string()),
        _nullable("client_host", pa.string()),
        _nullable("assignment_before", TOPIC_PARTITIONS),
        _nullable("assignment_after", TOPIC_PARTITIONS),
        _nullable("tasks_before", TASKS),
        _nullable("tasks_after", TASKS),
        _nullable("topic", pa.string()),
        _nullable("partition", pa.int32()),
        _nullable("offset_before", pa.int64()),
        _nullable("offset_after", pa.int64()),
        _nullable("producer_id", pa.int64()),
        _nullable("outcome", pa.string()),
        _nullable("duration_ms", pa.int64()),
    ]
)

QUARANTINE_ROW = pa.schema(
    [
        _column("log_partition", pa.int32()),
        _column("record_offset", pa.int64()),
        _nullable("record_timestamp_ms", pa.int64()),
        _nullable("record_type", pa.int32()),
        _column("reason", pa.string()),
        _nullable("raw_key", pa.binary()),
        _nullable("raw_value", pa.binary()),
        _nullable("producer_id", pa.int64()),
    ]
)


def _changes(row: pa.Schema, *columns: pa.Field) -> pa.Schema:
    """The schema of changes. Every column is nullable, because a deletion has few values."""
    return pa.schema([*(field.with_nullable(True) for field in row), *columns])


GUARD_OFFSET = "guard_offset"
"""A change is skipped if the stored row has a greater record offset than this one.

It is the greatest record offset among the key's records that took effect. The winning record may
have a smaller one: under `scala` semantics COMMIT restores a pending offset older than a tombstone.
"""

OFFSET_CHANGE_SCHEMA = _changes(
    GROUP_OFFSET_ROW, pa.field("is_tombstone", pa.bool_()), pa.field(GUARD_OFFSET, pa.int64())
)
GROUP_CHANGE_SCHEMA = _changes(
    GROUP_ROW, pa.field("is_deleted", pa.bool_()), pa.field(GUARD_OFFSET, pa.int64())
)
MEMBER_CHANGE_SCHEMA = _changes(GROUP_MEMBER_ROW, pa.field("is_deleted", pa.bool_()))
OFFSET_KEY = ("log_partition", "group_id", "topic", "partition")
