"""The rows of the tables that a micro-batch writes, one class per table.

A class declares the columns of its table, once for Python and for Arrow (`schema_of`).
`streaming/tables/columns.toml` describes each column. None stands for null.

The schemas at the end are those of the rows in a micro-batch, with times in milliseconds. A change
has additional columns: a flag for deletion and, except for members, the guard offset of the MERGE.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TypedDict

import pyarrow as pa

from coordinator_state.apply.columns import Int32, nullable, schema_in_ms


class TopicPartition(TypedDict):
    """A partition in an assignment."""

    topic: str | None
    topic_id: str | None
    partition: Int32 | None


class Task(TypedDict):
    """A task of a streams group."""

    task_type: str | None
    subtopology_id: str | None
    partition: Int32 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetRow:
    """A committed offset of a group."""

    group_id: str
    topic: str
    partition: Int32
    log_partition: Int32
    committed_offset: int
    leader_epoch: Int32 | None
    metadata: str
    commit_timestamp: datetime
    expire_timestamp: datetime | None
    topic_id: str | None
    producer_id: int | None
    record_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOffsetRow:
    """A pending offset: a transactional commit whose marker is not read yet.

    `client_id` and `client_host` are those of the owner of its partition at the commit
    (`coordinator_state.apply.pending_clients`); null if it had none.
    """

    log_partition: Int32
    producer_id: int
    group_id: str
    topic: str
    partition: Int32
    producer_epoch: Int32
    committed_offset: int
    leader_epoch: Int32 | None
    metadata: str
    commit_timestamp: datetime
    expire_timestamp: datetime | None
    topic_id: str | None
    record_offset: int
    record_timestamp: datetime | None
    client_id: str | None
    client_host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group, as its coordinator has it."""

    group_id: str
    log_partition: Int32
    group_type: str
    state: str
    protocol_type: str
    protocol: str | None
    leader: str | None
    generation: Int32 | None
    group_epoch: Int32 | None
    assignment_epoch: Int32 | None
    member_count: Int32
    state_timestamp: datetime | None
    subscribed_topics: list[str] | None
    replay_warning: str | None
    record_offset: int
    created_record_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member of a group."""

    group_id: str
    member_id: str
    log_partition: Int32
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    session_timeout_ms: Int32 | None
    rebalance_timeout_ms: Int32 | None
    subscribed_topics: list[str] | None
    subscribed_regex: str | None
    member_epoch: Int32 | None
    member_state: str | None
    assignment: list[TopicPartition] | None
    target_assignment: list[TopicPartition] | None
    pending_revocation: list[TopicPartition] | None
    tasks: list[Task] | None
    target_tasks: list[Task] | None
    subscription_bytes: bytes | None
    assignment_bytes: bytes | None
    subscription_json: str | None
    assignment_json: str | None
    record_offset: int
    created_record_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecordRow:
    """The last record of a key, for all record types but commits."""

    group_id: str
    record_type: Int32
    record_type_name: str
    record_key: str
    log_partition: Int32
    value_version: Int32 | None
    value: str | None
    raw_key: bytes
    raw_value: bytes | None
    is_tombstone: bool
    record_offset: int
    record_timestamp: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRow:
    """A commit or its tombstone, with its outcome."""

    log_partition: Int32
    record_offset: int
    record_timestamp: datetime | None
    group_id: str
    topic: str
    partition: Int32
    is_tombstone: bool
    committed_offset: int | None
    leader_epoch: Int32 | None
    metadata: str | None
    commit_timestamp: datetime | None
    expire_timestamp: datetime | None
    topic_id: str | None
    producer_id: int | None
    producer_epoch: Int32 | None
    outcome: str
    outcome_record_offset: int
    outcome_timestamp: datetime | None
    day: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEventRow:
    """An event of a group or of one of its offsets."""

    log_partition: Int32
    record_offset: int
    event_number: Int32
    record_timestamp: datetime | None
    event: str
    group_id: str
    group_type: str | None
    member_count: Int32 | None
    epoch_before: Int32 | None
    epoch_after: Int32 | None
    member_id: str | None
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    assignment_before: list[TopicPartition] | None
    assignment_after: list[TopicPartition] | None
    tasks_before: list[Task] | None
    tasks_after: list[Task] | None
    topic: str | None
    partition: Int32 | None
    offset_before: int | None
    offset_after: int | None
    producer_id: int | None
    outcome: str | None
    duration_ms: int | None
    day: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecordRow:
    """A record of a group, as it is in the log; groups of a past moment are replayed from them."""

    log_partition: Int32
    record_offset: int
    record_timestamp: datetime | None
    group_id: str
    record_type: Int32
    raw_key: bytes
    raw_value: bytes | None
    outcome: str | None
    day: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecordRow:
    """A record that cannot be decoded, or a note about lost records.

    `log_topic` is the internal topic of the record.
    """

    log_topic: str | None
    log_partition: Int32
    record_offset: int
    record_timestamp: datetime | None
    record_type: Int32 | None
    reason: str
    raw_key: bytes | None
    raw_value: bytes | None
    producer_id: int | None


GROUP_OFFSET_ROW = schema_in_ms(CommittedOffsetRow)
PENDING_OFFSET_ROW = schema_in_ms(PendingOffsetRow)
GROUP_ROW = schema_in_ms(GroupRow)
GROUP_MEMBER_ROW = schema_in_ms(MemberRow)
COORDINATOR_RECORD_ROW = schema_in_ms(CoordinatorRecordRow)
OFFSET_COMMIT_ROW = schema_in_ms(OffsetCommitRow)
GROUP_EVENT_ROW = schema_in_ms(GroupEventRow)
GROUP_RECORD_ROW = schema_in_ms(GroupRecordRow)
QUARANTINE_ROW = schema_in_ms(QuarantinedRecordRow)


def _changes(row: pa.Schema, *columns: pa.Field) -> pa.Schema:
    """The schema of changes. Every column is nullable, because a deletion has few values."""
    return pa.schema([*nullable(row), *columns])


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
HISTORY_SCHEMA = nullable(OFFSET_COMMIT_ROW)
EVENT_SCHEMA = nullable(GROUP_EVENT_ROW)
OFFSET_KEY = ("log_partition", "group_id", "topic", "partition")
