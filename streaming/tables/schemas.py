"""The Delta tables: names, columns, keys and properties, one constant per table.

Columns are pyarrow schemas, which readers without Spark use, too. Every time is a UTC timestamp
with microseconds. `key` identifies a row. `log_partition` is part of every MERGE condition, for two
reasons: record offsets of two log partitions cannot be compared, and a group may have orphaned rows
in its old log partition after the topic got more partitions.

Tables use the plain Delta protocol (reader 1, writer 2: no deletion vectors, clustering or column
mapping), which delta-rs, DuckDB and Trino can read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from coordinator_state.apply.schemas import (
    COORDINATOR_RECORD_ROW,
    GROUP_EVENT_ROW,
    GROUP_MEMBER_ROW,
    GROUP_OFFSET_ROW,
    GROUP_ROW,
    OFFSET_COMMIT_ROW,
    PENDING_OFFSET_ROW,
    QUARANTINE_ROW,
)
from coordinator_state.apply.stored import stored_name

FORMAT_VERSION = "6"
"""It changes when earlier releases cannot read, or must not write, the tables any more.

`streaming.tables.migration` migrates earlier versions."""

PROPERTY_FORMAT_VERSION = "coordinator_state.format_version"
PROPERTY_CLUSTER_ID = "coordinator_state.cluster_id"
PROPERTY_TOPIC_ID = "coordinator_state.topic_id"
PROPERTY_LOG_PARTITIONS = "coordinator_state.log_partitions"
PROPERTY_SEMANTICS = "coordinator_state.semantics"
PROPERTY_OFFSETS_RETENTION_MS = "coordinator_state.offsets_retention_ms"

DEFAULT_OFFSETS_RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""The default of the broker's `offsets.retention.minutes`, in milliseconds."""

DEFAULT_SNAPSHOT_RETENTION = timedelta(hours=1)

LOST = "lost"
"""The outcome, in history, of a record that the log no longer has.

The log was truncated or the topic was recreated; another record may have its record offset now.
"""
LOST_REASON_PREFIX = "gone from the log: "
"""The start of the reason in a row of `quarantine` about lost records."""

STATE_LOADING = "loading"
STATE_CURRENT = "current"
STATE_WAITING = "waiting"
"""The log partition is leaderless."""

TIMESTAMP = pa.timestamp("us", tz="UTC")


def _column(name: str, column_type: pa.DataType) -> pa.Field:
    return pa.field(name, column_type, nullable=False)


def _nullable(name: str, column_type: pa.DataType) -> pa.Field:
    return pa.field(name, column_type, nullable=True)


def _stored(row: pa.Schema, *columns: pa.Field) -> pa.Schema:
    """The schema of a table, from that of a micro-batch's rows: times become timestamps."""
    return pa.schema([*map(_stored_column, row), *columns])


def _stored_column(field: pa.Field) -> pa.Field:
    name = stored_name(field.name)
    return field if name == field.name else pa.field(name, TIMESTAMP, field.nullable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table of the tables folder."""

    name: str
    key: tuple[str, ...]
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()

    def path(self, tables: str) -> str:
        """The path of the table in a tables folder."""
        return f"{tables.rstrip('/')}/{self.name}"


GROUP_OFFSETS = Table(
    name="group_offsets",
    key=("log_partition", "group_id", "topic", "partition"),
    schema=_stored(GROUP_OFFSET_ROW),
)

PENDING_OFFSETS = Table(
    name="pending_offsets",
    key=("log_partition", "producer_id", "group_id", "topic", "partition"),
    schema=_stored(PENDING_OFFSET_ROW),
)

GROUPS = Table(
    name="groups",
    key=("log_partition", "group_id"),
    schema=_stored(GROUP_ROW),
)

GROUP_MEMBERS = Table(
    name="group_members",
    key=("log_partition", "group_id", "member_id"),
    schema=_stored(GROUP_MEMBER_ROW),
)

COORDINATOR_RECORDS = Table(
    name="coordinator_records",
    key=("log_partition", "group_id", "record_type", "record_key"),
    schema=_stored(COORDINATOR_RECORD_ROW),
)

OFFSET_COMMITS = Table(
    name="offset_commits",
    key=("log_partition", "record_offset"),
    partition_by=("day",),
    schema=_stored(OFFSET_COMMIT_ROW, _nullable("day", pa.date32())),
)

GROUP_EVENTS = Table(
    name="group_events",
    key=("log_partition", "record_offset", "event_number"),
    partition_by=("day",),
    schema=_stored(GROUP_EVENT_ROW, _nullable("day", pa.date32())),
)
"""One record may cause several events: `event_number` counts them from 0."""

QUARANTINE = Table(
    name="quarantine",
    key=("log_partition", "record_offset"),
    schema=_stored(QUARANTINE_ROW),
)

LOAD_PROGRESS = Table(
    name="load_progress",
    key=("log_partition",),
    schema=pa.schema(
        [
            _column("log_partition", pa.int32()),
            _column("state", pa.string()),
            _column("next_offset", pa.int64()),
            _column("high_watermark", pa.int64()),
            _nullable("leader_epoch", pa.int32()),
            _column("cluster_id", pa.string()),
            _column("topic_id", pa.string()),
            _column("semantics", pa.string()),
            _column("records_read", pa.int64()),
            _column("records_applied", pa.int64()),
            _column("records_superseded", pa.int64()),
            _column("records_ignored", pa.int64()),
            _column("records_quarantined", pa.int64()),
            _column("records_pending", pa.int64()),
            _nullable("records_unaccounted", pa.int64()),
            _column("bytes_read", pa.int64()),
            _nullable("current_at", TIMESTAMP),
            _nullable("reload_reason", pa.string()),
            _nullable("reloaded_at", TIMESTAMP),
            _nullable("writer_epoch", pa.int64()),
            _column("query_id", pa.string()),
            _column("batch_id", pa.int64()),
            _nullable("table_versions", pa.map_(pa.string(), pa.int64())),
            _column("updated_at", TIMESTAMP),
        ]
    ),
)

LOG_OFFSETS = Table(
    name="log_offsets",
    key=("topic", "partition", "sampled_at"),
    partition_by=("day",),
    schema=pa.schema(
        [
            _column("topic", pa.string()),
            _column("partition", pa.int32()),
            _column("sampled_at", TIMESTAMP),
            _column("state", pa.string()),
            _nullable("topic_id", pa.string()),
            _nullable("log_start_offset", pa.int64()),
            _nullable("log_end_offset", pa.int64()),
            _nullable("last_stable_offset", pa.int64()),
            _nullable("end_markers", pa.int32()),
            _column("day", pa.date32()),
        ]
    ),
)
"""`run` writes it beside the query, so it belongs to no snapshot; each row has its time.

`end_markers` is the number of transaction markers right before the log end. It is null if it was
not counted, or if the end of the log cannot be read."""

ALERTS = Table(
    name="alerts",
    key=("rule", "group_id", "topic", "partition"),
    schema=pa.schema(
        [
            _column("rule", pa.string()),
            _nullable("group_id", pa.string()),
            _nullable("topic", pa.string()),
            _nullable("partition", pa.int32()),
            _column("severity", pa.string()),
            _column("state", pa.string()),
            _column("since", TIMESTAMP),
            _nullable("fired_at", TIMESTAMP),
            _nullable("resolved_at", TIMESTAMP),
            _nullable("value", pa.float64()),
            _column("reason", pa.string()),
            _nullable("muted_by", pa.string()),
            _column(
                "sent",
                pa.list_(
                    pa.struct(
                        [
                            _column("sink", pa.string()),
                            _column("state", pa.string()),
                            _column("sent_at", TIMESTAMP),
                        ]
                    )
                ),
            ),
        ]
    ),
)
"""`alert run` creates and writes it: it belongs to no snapshot, and a folder may lack it."""

TABLES = (
    GROUP_OFFSETS,
    PENDING_OFFSETS,
    GROUPS,
    GROUP_MEMBERS,
    COORDINATOR_RECORDS,
    OFFSET_COMMITS,
    GROUP_EVENTS,
    QUARANTINE,
    LOAD_PROGRESS,
)
"""The tables of a snapshot, in the order in which a micro-batch writes them.

The exception is `pending_offsets`, which it writes just before `load_progress`."""

ALL_TABLES = (LOG_OFFSETS, *TABLES)
"""In the order of their creation: a folder with `load_progress` has every table."""

KEY_TABLES = (GROUP_OFFSETS, PENDING_OFFSETS, GROUPS, GROUP_MEMBERS, COORDINATOR_RECORDS)
"""The tables of current state: at most one row for each key."""

APPEND_TABLES = (OFFSET_COMMITS, GROUP_EVENTS, QUARANTINE)
