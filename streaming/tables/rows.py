"""The rows of the tables that `coordinator_state.apply` does not compute, one class per table.

A class declares the columns of its table, as those of `coordinator_state.apply.rows` do;
`streaming/tables/columns.toml` describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import TypedDict

from coordinator_state.apply.columns import Int32


class LastNotice(TypedDict):
    """The last notice of an alert that a sink got."""

    sink: str
    state: str
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgressRow:
    """The progress of the load of a log partition."""

    log_partition: Int32
    state: str
    next_offset: int
    high_watermark: int
    leader_epoch: Int32 | None
    cluster_id: str
    topic_id: str
    semantics: str
    kafka_release: str | None
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
class TopicProgressRow:
    """The progress of the load of a log partition of another topic than `__consumer_offsets`."""

    log_topic: str
    log_partition: Int32
    state: str
    next_offset: int
    high_watermark: int
    leader_epoch: Int32 | None
    topic_id: str
    records_read: int
    records_applied: int
    records_ignored: int
    records_quarantined: int
    records_unaccounted: int
    bytes_read: int
    current_at: datetime | None
    reload_reason: str | None
    reloaded_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSampleRow:
    """An offset sample: the start and end of a partition's log at a time."""

    topic: str
    partition: Int32
    sampled_at: datetime
    state: str
    topic_id: str | None
    log_start_offset: int | None
    log_end_offset: int | None
    last_stable_offset: int | None
    end_markers: Int32 | None
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalOffsetRow:
    """An offset that a consumer keeps outside Kafka, at the end of one of its batches.

    The times of a group's batches differ.
    """

    group_id: str
    topic: str
    partition: Int32
    committed_offset: int
    commit_timestamp: datetime
    offset_before: int | None
    query_id: str
    batch_id: int
    is_repeat: bool
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """An alert: a rule, the group or partition that breaks it, and its state."""

    rule: str
    group_id: str | None
    topic: str | None
    partition: Int32 | None
    severity: str
    state: str
    since: datetime
    fired_at: datetime | None
    resolved_at: datetime | None
    value: float | None
    reason: str
    muted_by: str | None
    sent: list[LastNotice]
    group_status: str | None
    previous_status: str | None
    status_since: datetime | None
