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

from coordinator_state.apply.columns import schema_of
from coordinator_state.apply.rows import (
    CommittedOffsetRow,
    CoordinatorRecordRow,
    GroupEventRow,
    GroupRecordRow,
    GroupRow,
    MemberRow,
    OffsetCommitRow,
    PendingOffsetRow,
    QuarantinedRecordRow,
)
from coordinator_state.apply.topic_rows import (
    SharePartitionRow,
    TransactionEventRow,
    TransactionRow,
)
from coordinator_state.records.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from streaming.tables.rows import (
    AlertRow,
    ExternalOffsetRow,
    GroupLagRow,
    GroupStatusRow,
    LoadProgressRow,
    OffsetSampleRow,
    StatusChangeRow,
    TopicProgressRow,
)

FORMAT_VERSION = "14"
"""It changes when earlier releases cannot read, or must not write, the tables any more.

`streaming.tables.migration` migrates earlier versions."""

PROPERTY_FORMAT_VERSION = "coordinator_state.format_version"
PROPERTY_CLUSTER_ID = "coordinator_state.cluster_id"
PROPERTY_TOPIC_ID = "coordinator_state.topic_id"
PROPERTY_LOG_PARTITIONS = "coordinator_state.log_partitions"
PROPERTY_SEMANTICS = "coordinator_state.semantics"
PROPERTY_KAFKA_RELEASE = "coordinator_state.kafka_release"
PROPERTY_OFFSETS_RETENTION_MS = "coordinator_state.offsets_retention_ms"
PROPERTY_HISTORY = "coordinator_state.history"
"""The history mode of the last run."""
PROPERTY_HISTORY_RESOLUTION = "coordinator_state.history_resolution"
"""The intervals of sampled history of the last run."""
PROPERTY_STATUS_RULES = "coordinator_state.status_rules"
"""The limits of the last run; in `group_status`, those of the evaluation."""
PROPERTY_STATUS_RULES_SINCE = "coordinator_state.status_rules_since"
"""Of `group_status`: the first evaluation by these limits."""
PROPERTY_NOT_EVALUATED = "coordinator_state.not_evaluated"
"""Of `group_status`: the times in which `run` did not evaluate."""
PROPERTY_EVALUATED_AT = "coordinator_state.evaluated_at"
"""Of `group_status`: the last evaluation, at least every minute while there are no groups."""
PROPERTY_EXTERNAL = "coordinator_state.external"
"""Whether a run read external groups: only then readers look for their offsets."""

HISTORY_OFF, HISTORY_ALL = "off", "all"

DEFAULT_OFFSETS_RETENTION_MS = 7 * 24 * 60 * 60 * 1000
"""The default of the broker's `offsets.retention.minutes`, in milliseconds."""

DEFAULT_SNAPSHOT_RETENTION = timedelta(minutes=6)
"""Rates compare with the snapshot of five minutes earlier."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table of the tables folder."""

    name: str
    key: tuple[str, ...]
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    time: str | None = None
    """The column with the time of a row's last change. It is never null."""

    def path(self, tables: str) -> str:
        """The path of the table in a tables folder."""
        return f"{tables.rstrip('/')}/{self.name}"


GROUP_OFFSETS = Table(
    name="group_offsets",
    key=("log_partition", "group_id", "topic", "partition"),
    schema=schema_of(CommittedOffsetRow),
    time="commit_timestamp",
)

PENDING_OFFSETS = Table(
    name="pending_offsets",
    key=("log_partition", "producer_id", "group_id", "topic", "partition"),
    schema=schema_of(PendingOffsetRow),
)

GROUPS = Table(
    name="groups",
    key=("log_partition", "group_id"),
    schema=schema_of(GroupRow),
)

GROUP_MEMBERS = Table(
    name="group_members",
    key=("log_partition", "group_id", "member_id"),
    schema=schema_of(MemberRow),
)

COORDINATOR_RECORDS = Table(
    name="coordinator_records",
    key=("log_partition", "group_id", "record_type", "record_key"),
    schema=schema_of(CoordinatorRecordRow),
)

OFFSET_COMMITS = Table(
    name="offset_commits",
    key=("log_partition", "record_offset"),
    partition_by=("day",),
    schema=schema_of(OffsetCommitRow),
)

GROUP_EVENTS = Table(
    name="group_events",
    key=("log_partition", "record_offset", "event_number"),
    partition_by=("day",),
    schema=schema_of(GroupEventRow),
)
"""One record may cause several events: `event_number` counts them from 0."""

GROUP_RECORDS = Table(
    name="group_records",
    key=("log_partition", "record_offset"),
    partition_by=("day",),
    schema=schema_of(GroupRecordRow),
)
"""Every group record of history; `coordinator_records` has only the last of each key."""

QUARANTINE = Table(
    name="quarantine",
    key=("log_topic", "log_partition", "record_offset"),
    schema=schema_of(QuarantinedRecordRow),
)

TRANSACTIONS = Table(
    name="transactions",
    key=("log_partition", "transactional_id"),
    schema=schema_of(TransactionRow),
)

TRANSACTION_EVENTS = Table(
    name="transaction_events",
    key=("log_partition", "record_offset"),
    partition_by=("day",),
    schema=schema_of(TransactionEventRow),
)

SHARE_PARTITIONS = Table(
    name="share_partitions",
    key=("log_partition", "group_id", "topic_id", "partition"),
    schema=schema_of(SharePartitionRow),
)

TOPIC_PROGRESS = Table(
    name="topic_progress",
    key=("log_topic", "log_partition"),
    schema=schema_of(TopicProgressRow),
)
"""The progress of the internal topics other than `__consumer_offsets`."""

LOAD_PROGRESS = Table(
    name="load_progress",
    key=("log_partition",),
    schema=schema_of(LoadProgressRow),
)

LOG_OFFSETS = Table(
    name="log_offsets",
    key=("topic", "partition", "sampled_at"),
    partition_by=("day",),
    schema=schema_of(OffsetSampleRow),
)
"""`run` writes it beside the query, so it belongs to no snapshot; each row has its time."""

EXTERNAL_OFFSETS = Table(
    name="external_offsets",
    key=("group_id", "topic", "partition", "commit_timestamp", "day"),
    partition_by=("day",),
    schema=schema_of(ExternalOffsetRow),
)
"""The offsets of external groups, which `streaming.tables.external_offsets` adds to those of Kafka.

`run` writes it beside the query, so it belongs to no snapshot; each row has its time."""

GROUP_LAG = Table(
    name="group_lag",
    key=("group_id", "topic", "partition"),
    schema=schema_of(GroupLagRow),
)

GROUP_STATUS = Table(
    name="group_status",
    key=("group_id",),
    schema=schema_of(GroupStatusRow),
)

STATUS_CHANGES = Table(
    name="status_changes",
    key=("group_id", "topic", "partition", "changed_at"),
    partition_by=("day",),
    schema=schema_of(StatusChangeRow),
)

ALERTS = Table(
    name="alerts",
    key=("rule", "group_id", "topic", "partition"),
    schema=schema_of(AlertRow),
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
    GROUP_RECORDS,
    QUARANTINE,
    TRANSACTIONS,
    TRANSACTION_EVENTS,
    SHARE_PARTITIONS,
    TOPIC_PROGRESS,
    LOAD_PROGRESS,
)
"""The tables of a snapshot, in the order in which a micro-batch writes them.

The exception is `pending_offsets`, which it writes just before `load_progress`."""

JUDGED_TABLES = (GROUP_LAG, GROUP_STATUS)
"""The lag and status of groups at the last evaluation: they can be computed again."""

BESIDE_TABLES = (LOG_OFFSETS, EXTERNAL_OFFSETS, *JUDGED_TABLES, STATUS_CHANGES)
"""The tables that `run` writes beside the query: they belong to no snapshot."""

ALL_TABLES = (*BESIDE_TABLES, *TABLES)
"""In the order of their creation: a folder with `load_progress` has every table."""

KEY_TABLES = (GROUP_OFFSETS, PENDING_OFFSETS, GROUPS, GROUP_MEMBERS, COORDINATOR_RECORDS)
"""The current state of groups: at most one row for each key. Past moments of it are rebuilt."""

STATE_TABLES = {TRANSACTION_STATE_TOPIC: TRANSACTIONS, SHARE_STATE_TOPIC: SHARE_PARTITIONS}
"""The table of keys of each internal topic other than `__consumer_offsets`."""

HISTORY_TABLES = {
    OFFSETS_TOPIC: (OFFSET_COMMITS, GROUP_EVENTS, GROUP_RECORDS),
    TRANSACTION_STATE_TOPIC: (TRANSACTION_EVENTS,),
    SHARE_STATE_TOPIC: (),
}
"""The tables of history of each internal topic: a row has the record offset of a record."""

TOPIC_TABLES = {
    topic: (table, *HISTORY_TABLES[topic], QUARANTINE) for topic, table in STATE_TABLES.items()
}
"""The tables with rows of the internal topics other than `__consumer_offsets`."""
