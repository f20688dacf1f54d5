"""The rows of the tables that `coordinator_state.apply` does not compute, one class per table.

A class declares the columns of its table, as those of `coordinator_state.apply.rows` do;
`streaming/tables/columns.toml` describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal, TypedDict, get_args

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
    epoch_entries: str | None
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
    clock_skew_ms: int | None
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
    epoch_entries: str | None
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


Severity = Literal["critical", "error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""From the most severe one."""


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
    condition_ended_at: datetime | None
    fired_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """The lag of a group in a partition."""

    group_id: str
    topic: str
    partition: Int32
    group_type: str
    group_state: str
    topic_state: str | None
    gone_since: datetime | None
    committed_offset: int | None
    uncommitted_since: datetime | None
    recreated_at: datetime | None
    pending_offset: int | None
    pending_since: datetime | None
    pending_producer_id: int | None
    pending_client_id: str | None
    log_start_offset: int | None
    last_stable_offset: int | None
    log_end_offset: int | None
    lag: int | None
    is_lag_lower_bound: bool | None
    lag_to_last_stable: int | None
    markers: int | None
    data_lost: int | None
    time_lag_ms: int | None
    time_lag_at_least_ms: int | None
    time_lag_unknown: str | None
    retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    time_to_catch_up_ms: int | None
    commit_timestamp: datetime | None
    commit_age_ms: int | None
    member_id: str | None
    client_id: str | None
    client_host: str | None
    sampled_at: datetime | None
    known_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLagRow(LagRow):
    """The lag of a group in a partition, with its status and trend."""

    status: str
    reason: str
    cause: str | None
    growth_per_s: float | None
    trend: str | None
    usual_commit_ms: int | None
    usual_move_ms: int | None
    status_since: datetime | None
    is_status_older: bool | None
    evaluated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow:
    """The status of a group, and its reason."""

    group_id: str
    group_type: str
    group_state: str
    status: str
    reason: str
    topic: str | None
    partition: Int32 | None
    partitions: Int32
    partitions_not_ok: Int32
    lag: int | None
    is_lag_lower_bound: bool | None
    max_time_lag_ms: int | None
    max_time_lag_at_least_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatusRow(StatusRow):
    """The status of a group, with its totals and trend."""

    cause: str | None
    member_count: Int32 | None
    min_retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    growth_per_s: float | None
    trend: str | None
    time_to_catch_up_ms: int | None
    status_since: datetime | None
    is_status_older: bool | None
    evaluated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChangeRow:
    """A change of the status of a group, or of a group in a partition."""

    group_id: str
    topic: str | None
    partition: Int32 | None
    changed_at: datetime
    status_before: str | None
    status_after: str | None
    reason: str | None
    day: date
