"""Answers about groups: their status, lag, members, and why they are behind."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from coordinator_state.insight.group_status import Status
from streaming.api.endpoints import Answer
from streaming.api.fields import described
from streaming.tables.rows import GroupLagRow, StatusRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag(GroupLagRow):
    """The lag of a group in a partition: a row of `group_lag`."""

    __pydantic_config__ = described("group_lag")

    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(StatusRow):
    """A group: its row of `group_status`, with further fields."""

    __pydantic_config__ = described("group_status", "groups")

    member_count: int | None
    min_retention_margin_ms: int | None
    """Estimated time until the first uncommitted record is deleted, in any partition."""
    status_since: datetime | None
    """Time of the evaluation of `run` that first had this status; null if there was none."""
    is_status_older: bool | None
    """Whether the status may have begun before `status_since`; null if `run` did not evaluate."""
    lag_of_partitions: list[PartitionLag] | None
    """Lag in each partition; null unless the request has `include=partitions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """A partition in an assignment."""

    __pydantic_config__ = described("log_offsets")

    topic: str | None
    """Topic name; null if only the topic id is known."""
    topic_id: str | None
    """Topic id; null in classic groups."""
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a streams group."""

    __pydantic_config__ = described()

    task_type: str | None
    """`active`, `standby` or `warmup`."""
    subtopology_id: str | None
    """Id of the subtopology."""
    partition: int | None
    """Partition of the source topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group."""

    __pydantic_config__ = described("group_members")

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_epoch: int | None
    member_state: str | None
    subscribed_topics: list[str] | None
    assignment: list[TopicPartition] | None
    tasks: list[Task] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetails(Group):
    """A group with its members."""

    __pydantic_config__ = described("group_status", "groups")

    protocol_type: str | None
    protocol: str | None
    leader: str | None
    generation: int | None
    group_epoch: int | None
    replay_warning: str | None
    members: list[Member]
    """Members, by member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordId:
    """The place of a record in `__consumer_offsets`."""

    __pydantic_config__ = described("coordinator_records")

    log_partition: int
    record_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A cause, and the records or the query that show it."""

    __pydantic_config__ = described()

    cause: str
    """Name of the cause."""
    text: str
    """Finding in one sentence, with numbers."""
    at: datetime | None
    """Time of the finding, or of its first event; null if it has none."""
    last_at: datetime | None
    """Time of its last event; null if there is only one."""
    record_ids: list[RecordId]
    """Records that show it."""
    sql: str | None
    """SELECT that shows it, for `coordinator-state sql`; null if records show it."""
    commands: list[str]
    """Commands of Kafka's tools that help, such as to abort a transaction."""


class GroupPage(Answer):
    """A page of groups, in the order of their ids."""

    total: int
    """Number of groups on all pages."""
    items: list[Group]
    """Groups of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


class OneGroup(Answer):
    """A group."""

    group: GroupDetails
    """The group."""


class PartitionLagPage(Answer):
    """A page of the partitions of a group, by topic and partition."""

    items: list[PartitionLag]
    """Partitions of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


class GroupExplanation(Answer):
    """Why a group is behind: evidence, the most direct cause first."""

    model_config = described("group_status")

    group_id: str
    status: Status | None
    reason: str | None
    lag: int | None
    is_behind: bool
    """Whether the group is behind."""
    behind_since: datetime | None
    """Earliest known time at which the group was behind; null if not behind, or unknown."""
    fallen_from: int | None
    """Greatest lag since then, if the lag has shrunk since; else null."""
    behind_for_longer: bool | None
    """Whether the group has been behind since before `behind_since`; null without that time."""
    evidence: list[Evidence]
    """Evidence, the most direct cause first."""
