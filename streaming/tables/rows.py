"""Rows of tables as Python objects: one class per table, with the columns as attributes.

The README and docs/ describe each column. None stands for null.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TypedDict


class TopicPartition(TypedDict):
    """A partition in an assignment."""

    topic: str | None
    topic_id: str | None
    partition: int | None


class Task(TypedDict):
    """A task of a streams group."""

    task_type: str | None
    subtopology_id: str | None
    partition: int | None


class LastNotice(TypedDict):
    """The last notice of an alert that a sink got."""

    sink: str
    state: str
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsetRow:
    """A committed offset of a group."""

    group_id: str
    topic: str
    partition: int
    log_partition: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: datetime
    expire_timestamp: datetime | None
    topic_id: str | None
    producer_id: int | None
    record_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOffsetRow:
    """A pending offset: a transactional commit whose marker is not read yet."""

    log_partition: int
    producer_id: int
    group_id: str
    topic: str
    partition: int
    producer_epoch: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: datetime
    expire_timestamp: datetime | None
    topic_id: str | None
    record_offset: int
    record_timestamp: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group, as its coordinator has it."""

    group_id: str
    log_partition: int
    group_type: str
    state: str
    protocol_type: str
    protocol: str | None
    leader: str | None
    generation: int | None
    group_epoch: int | None
    assignment_epoch: int | None
    member_count: int
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
    log_partition: int
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    subscribed_topics: list[str] | None
    subscribed_regex: str | None
    member_epoch: int | None
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
    record_type: int
    record_type_name: str
    record_key: str
    log_partition: int
    value_version: int | None
    value: str | None
    raw_key: bytes
    raw_value: bytes | None
    is_tombstone: bool
    record_offset: int
    record_timestamp: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRow:
    """A commit or its tombstone, with its outcome."""

    log_partition: int
    record_offset: int
    record_timestamp: datetime | None
    group_id: str
    topic: str
    partition: int
    is_tombstone: bool
    committed_offset: int | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp: datetime | None
    expire_timestamp: datetime | None
    topic_id: str | None
    producer_id: int | None
    producer_epoch: int | None
    outcome: str
    outcome_record_offset: int
    outcome_timestamp: datetime | None
    day: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEventRow:
    """An event of a group or of one of its offsets."""

    log_partition: int
    record_offset: int
    event_number: int
    record_timestamp: datetime | None
    event: str
    group_id: str
    group_type: str | None
    member_count: int | None
    epoch_before: int | None
    epoch_after: int | None
    member_id: str | None
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    assignment_before: list[TopicPartition] | None
    assignment_after: list[TopicPartition] | None
    tasks_before: list[Task] | None
    tasks_after: list[Task] | None
    topic: str | None
    partition: int | None
    offset_before: int | None
    offset_after: int | None
    producer_id: int | None
    outcome: str | None
    duration_ms: int | None
    day: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecordRow:
    """A record that cannot be decoded, or a note about lost records."""

    log_partition: int
    record_offset: int
    record_timestamp: datetime | None
    record_type: int | None
    reason: str
    raw_key: bytes | None
    raw_value: bytes | None
    producer_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgressRow:
    """The progress of the load of a log partition."""

    log_partition: int
    state: str
    next_offset: int
    high_watermark: int
    leader_epoch: int | None
    cluster_id: str
    topic_id: str
    semantics: str
    records_read: int
    records_applied: int
    records_superseded: int
    records_ignored: int
    records_quarantined: int
    records_pending: int
    records_unaccounted: int | None
    bytes_read: int
    current_at: datetime | None
    reload_reason: str | None
    reloaded_at: datetime | None
    writer_epoch: int | None
    query_id: str
    batch_id: int
    table_versions: dict[str, int] | None
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSampleRow:
    """An offset sample: the start and end of a user partition's log at a time."""

    topic: str
    partition: int
    sampled_at: datetime
    state: str
    topic_id: str | None
    log_start_offset: int | None
    log_end_offset: int | None
    last_stable_offset: int | None
    end_markers: int | None
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """An alert: a rule, the group or partition that breaks it, and its state."""

    rule: str
    group_id: str | None
    topic: str | None
    partition: int | None
    severity: str
    state: str
    since: datetime
    fired_at: datetime | None
    resolved_at: datetime | None
    value: float | None
    reason: str
    muted_by: str | None
    sent: list[LastNotice]
