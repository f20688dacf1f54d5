"""The facts about a group that an explanation stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from coordinator_state.insight.group_status import Cause, StatusRules
from coordinator_state.insight.transaction_owner import TransactionOwner

Row = Mapping[str, Any]
RecordId = tuple[int, int]
"""Log partition and record offset."""


class Commit(NamedTuple):
    """An offset commit, and when it was committed."""

    log_partition: int
    record_offset: int
    committed_offset: int
    at: datetime

    @property
    def record_id(self) -> RecordId:
        """The place of its record."""
        return self.log_partition, self.record_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition that a group reads; null as in `group_lag`.

    `status` and `cause` are those in the partition, `owner` is a client id and host.
    """

    topic: str
    partition: int
    lag: int | None
    topic_state: str | None
    gone_since: datetime | None = None
    recreated_at: datetime | None = None
    owner: tuple[str, str] | None
    status: str | None = None
    cause: Cause | None = None

    @property
    def place(self) -> str:
        """The topic and partition."""
        return f"{self.topic}:{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory(Partition):
    """A group in a partition with a committed offset.

    `log_end_offset`, `waiting_ms`, the age of the first uncommitted record or its lower bound, and
    `retention_margin_ms`, the time until that record may be deleted, are null if unknown. `last` is
    the last applied commit, `usual_commit_ms` the usual time between two commits. The last `same`
    commits have its committed offset; `same_since` is the first of them. The commits `aborted` came
    after the last applied one. `pause` is the longest time between two applied commits.
    """

    log_end_offset: int | None
    data_lost: int | None
    waiting_ms: int | None = None
    retention_margin_ms: int | None = None
    last: Commit
    same: int = 1
    same_since: Commit
    usual_commit_ms: float | None = None
    pause: tuple[Commit, Commit] | None = None
    aborted: Sequence[Commit] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UncommittedPartition(Partition):
    """A partition that the group reads without a committed offset."""

    is_lag_lower_bound: bool | None
    uncommitted_since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction with pending offsets of the group.

    `first_record_offset` is that of its first commit in the log partition. The client is null if
    unknown, and so is the owner.
    """

    log_partition: int
    producer_id: int
    producer_epoch: int
    first_record_offset: int
    since: datetime
    offsets: int
    client_id: str | None
    client_host: str | None
    owner: TransactionOwner | None = None

    @property
    def is_marker_lost(self) -> bool:
        """Whether it will never end by itself."""
        return self.owner is not None and self.owner.is_marker_lost is True

    @property
    def is_known_to_coordinator(self) -> bool:
        """Whether its coordinator still has it, and ends it by itself."""
        return self.owner is not None and not self.owner.is_marker_lost

    @property
    def two_phase_commit_id(self) -> str | None:
        """The transactional id, if only the application ends the transaction (KIP-939)."""
        if self.owner is None or not self.owner.is_two_phase_commit:
            return None
        return self.owner.transactional_id


class GroupDeletion(NamedTuple):
    """The tombstone of a group, and its record timestamp."""

    record_id: RecordId
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagHistory:
    """Sums over the partitions of a group at points in time; None if all values are unknown.

    Rates are offsets per second since the previous point. `consumed` is the committed offset,
    counted from the first one of each partition in the period.
    """

    at: Sequence[datetime]
    lag: Sequence[float | None]
    commit_rate_per_s: Sequence[float | None]
    produce_rate_per_s: Sequence[float | None]
    consumed: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """All facts about a group at a moment.

    `group_type` is None if the group does not exist (any more). `is_simple` is true for a group
    known only from its offsets. `status`, `reason` and `cause` are the verdict of the evaluation,
    by the limits `rules`. The tables have the commits up to `known_until`. `deleted` is its last
    tombstone since `since`, also if it exists again. `events` are rows of `group_events` since
    `since`, and `members` are rows of `group_members`. The committed offsets are within their logs
    since `in_range_since`, and the last loop of rebalances ended at `loop_ended_at`; both None if
    no change of status since `since` shows it.
    """

    group_id: str
    at: datetime
    since: datetime
    known_until: datetime
    group_type: str | None
    is_simple: bool
    status: str
    reason: str
    is_healthy: bool
    lag: int | None
    partitions: Sequence[PartitionHistory]
    uncommitted: Sequence[UncommittedPartition]
    transactions: Sequence[OpenTransaction]
    deleted: GroupDeletion | None
    members: Sequence[Row]
    events: Sequence[Row]
    series: LagHistory
    in_range_since: datetime | None = None
    loop_ended_at: datetime | None = None
    cause: Cause | None = None
    rules: StatusRules = field(default_factory=StatusRules)
