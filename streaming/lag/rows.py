"""The rows of the computed views of lag and status, one class per view.

A class declares the columns of its view, once for Python and for Arrow (`schema_of`); in Arrow all
columns of a view are nullable. `LagTotalsRow` has only the types of the result of `lag_totals`.
`streaming/tables/columns.toml` describes each column. None stands for null.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from coordinator_state.apply.columns import Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class LagTotalsRow:
    """The lag of a group over all its partitions, or those of a topic: sums, maxima, minima."""

    group_id: str
    topic: str | None = None
    group_state: str
    partitions: int
    partitions_unknown: int
    is_lag_lower_bound: bool | None
    lag: int | None
    max_lag: int | None
    data_lost: int | None
    lag_to_last_stable: int | None
    max_time_lag_ms: int | None
    max_time_lag_at_least_ms: int | None
    min_retention_margin_ms: int | None
    commit_rate_per_s: float | None
    produce_rate_per_s: float | None
    max_time_to_catch_up_ms: int | None
    last_commit_timestamp: datetime | None
    min_commit_age_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatusRow:
    """The status of a group in a partition, and its reason."""

    group_id: str
    topic: str
    partition: Int32
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic with the values of the groups that read it."""

    topic: str
    topic_state: str | None
    status: str | None
    worst_group_id: str | None
    readers: int
    slowest_group_id: str | None
    lag: int | None
    max_time_lag_ms: int | None
    max_time_lag_at_least_ms: int | None
    min_retention_margin_ms: int | None
    produce_rate_per_s: float | None
    partitions: int
    partitions_unread: int | None
