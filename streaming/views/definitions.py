"""The views on the tables: their columns, and their SELECT if SQL can express them.

`streaming.views.snapshot` computes `group_lag`, `group_status` and `topics` with rules of the core;
the first two have the columns of the tables that `run` keeps. Each other view is a SELECT that
DuckDB and Spark both understand: an engine with the tables in its catalog can use it without this
program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import pyarrow as pa

from coordinator_state.apply.columns import Int32, nullable, schema_of
from streaming.lag.evaluation import GROUP_LAG_ROW, GROUP_STATUS_ROW
from streaming.tables.schemas import ALERTS, ALL_TABLES


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringOffsetRow:
    """The time at which a committed offset expires."""

    group_id: str
    topic: str
    partition: Int32
    log_partition: Int32
    group_type: str | None
    state: str | None
    committed_offset: int
    commit_timestamp: datetime
    expires_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleGroupRow:
    """A group known only from its offsets: its consumers call `assign()` and never join."""

    log_partition: Int32
    group_id: str
    offsets: int
    last_commit_timestamp: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionRow:
    """A transaction that keeps offsets of a group pending.

    The columns from `transactional_id` on are null if `__transaction_state` is not followed or not
    loaded. `is_marker_lost` is also null if the tables do not have both logs up to their ends;
    `coordinator_state.insight.transaction_owner` has the rule.
    """

    log_partition: Int32
    producer_id: int
    producer_epoch: Annotated[int, pa.int16()]
    group_id: str
    client_id: str | None
    client_host: str | None
    offsets: int
    since: datetime
    transactional_id: str | None
    transaction_state: str | None
    abort_timestamp: datetime | None
    is_marker_lost: bool | None
    is_two_phase_commit: bool | None


VIEWS: Final[Mapping[str, pa.Schema]] = {
    "group_lag": GROUP_LAG_ROW,
    "group_status": GROUP_STATUS_ROW,
    "partition_status": nullable(schema_of(PartitionStatusRow)),
    "topics": nullable(schema_of(TopicRow)),
    "expiring_offsets": nullable(schema_of(ExpiringOffsetRow)),
    "simple_groups": nullable(schema_of(SimpleGroupRow)),
    "open_transactions": nullable(schema_of(OpenTransactionRow)),
    "hanging_transactions": nullable(schema_of(OpenTransactionRow)),
}
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    **{table.name: table.schema for table in (*ALL_TABLES, ALERTS)},
    **VIEWS,
}
"""The columns of every table and view by name."""

_OPEN_TRANSACTIONS: Final = """
        WITH loaded AS (
          SELECT count(*) > 0 AND min(state) = 'current' AND max(state) = 'current' AS is_loaded,
                 bool_and(next_offset >= high_watermark AND records_quarantined = 0) AS is_whole
          FROM topic_progress
          WHERE log_topic = '__transaction_state'
        ), producers AS (
          SELECT *, row_number() OVER (
                   PARTITION BY producer_id ORDER BY last_update_timestamp DESC NULLS LAST
                 ) AS place
          FROM transactions
        ), newest AS (
          SELECT log_partition, producer_id,
                 max(coalesce(record_timestamp, commit_timestamp)) AS at
          FROM pending_offsets
          GROUP BY log_partition, producer_id
        ), held AS (
          SELECT log_partition, producer_id, max(producer_epoch) AS producer_epoch, group_id,
                 max_by(client_id, record_offset) AS client_id,
                 max_by(client_host, record_offset) AS client_host,
                 count(*) AS offsets, min(coalesce(record_timestamp, commit_timestamp)) AS since
          FROM pending_offsets
          GROUP BY log_partition, producer_id, group_id
        ), owned AS (
          SELECT h.*, l.is_loaded, t.transactional_id, t.state, t.timeout_ms, t.abort_timestamp,
                 coalesce(t.state IN ('Ongoing', 'PrepareCommit', 'PrepareAbort')
                   AND t.start_timestamp <= n.at + INTERVAL '1' MINUTE, false) AS is_open,
                 n.at < moment() - INTERVAL '1' MINUTE
                   AND coalesce(t.last_update_timestamp < moment() - INTERVAL '1' MINUTE, true)
                   AS is_settled,
                 l.is_loaded AND l.is_whole AND p.state = 'current'
                   AND p.next_offset >= p.high_watermark AS is_at_end
          FROM held AS h
          JOIN newest AS n ON n.log_partition = h.log_partition AND n.producer_id = h.producer_id
          CROSS JOIN loaded AS l
          LEFT JOIN producers AS t ON l.is_loaded AND t.place = 1 AND t.producer_id = h.producer_id
          LEFT JOIN load_progress AS p ON p.log_partition = h.log_partition
        )
        SELECT log_partition, producer_id, producer_epoch, group_id, client_id, client_host,
               offsets, since, transactional_id, state AS transaction_state,
               CASE WHEN is_open THEN abort_timestamp END AS abort_timestamp,
               CASE WHEN is_at_end THEN NOT is_open AND is_settled END AS is_marker_lost,
               CASE WHEN is_loaded
                 THEN is_open AND state = 'Ongoing' AND timeout_ms = 2147483647
               END AS is_two_phase_commit
        FROM owned
    """

# The rules are those of `coordinator_state.replay.expiry`. Not every engine can show a later time
# than that of the last literal.
_EXPIRING_OFFSETS: Final = """
        WITH held AS (
          SELECT DISTINCT p.log_partition, p.group_id, p.topic, p.partition
          FROM pending_offsets AS p
          JOIN load_progress AS l ON l.log_partition = p.log_partition
          WHERE l.semantics = 'coordinator'
        ), ruled AS (
          SELECT o.group_id, o.topic, o.partition, o.log_partition, g.group_type, g.state,
                 o.committed_offset, o.commit_timestamp, o.expire_timestamp, g.state_timestamp,
                 CASE
                   WHEN g.group_id IS NULL
                     THEN 'never: the group is deleted'
                   WHEN g.group_type = 'share'
                     THEN 'never: share groups have no offsets here'
                   WHEN g.group_type = 'classic' AND g.state <> 'Empty' AND (
                     g.state <> 'Stable' OR coalesce(g.protocol_type, '') <> 'consumer'
                     OR g.subscribed_topics IS NULL)
                     THEN 'never: the group has members, and their subscription is unknown'
                   WHEN array_contains(g.subscribed_topics, o.topic)
                     THEN 'never: the group subscribes to the topic'
                   WHEN h.group_id IS NOT NULL
                     THEN 'never: a transactional commit is pending'
                   WHEN o.expire_timestamp IS NOT NULL
                     THEN concat('the commit', chr(39), 's own expire timestamp')
                   WHEN g.group_type = 'classic' AND g.state = 'Empty'
                     AND coalesce(g.protocol_type, '') <> '' AND g.state_timestamp IS NOT NULL
                     THEN 'retention after the group became Empty'
                   ELSE 'retention after the commit'
                 END AS reason
          FROM group_offsets AS o
          LEFT JOIN groups AS g ON g.log_partition = o.log_partition AND g.group_id = o.group_id
          LEFT JOIN held AS h ON h.log_partition = o.log_partition AND h.group_id = o.group_id
            AND h.topic = o.topic AND h.partition = o.partition
        )
        SELECT group_id, topic, partition, log_partition, group_type, state, committed_offset,
               commit_timestamp,
               CASE WHEN reason NOT LIKE 'never:%' THEN least(
                 CASE reason
                   WHEN 'retention after the commit' THEN commit_timestamp + offsets_retention()
                   WHEN 'retention after the group became Empty'
                     THEN state_timestamp + offsets_retention()
                   ELSE expire_timestamp
                 END, TIMESTAMP '9999-12-31 23:59:59.999Z') END AS expires_at,
               reason
        FROM ruled
    """

SELECTS: Final[Mapping[str, str]] = {
    "partition_status": """
        SELECT group_id, topic, partition, status, reason FROM group_lag
    """,
    "expiring_offsets": _EXPIRING_OFFSETS,
    "simple_groups": """
        SELECT g.log_partition, g.group_id, count(o.topic) AS offsets,
               max(o.commit_timestamp) AS last_commit_timestamp
        FROM groups AS g
        LEFT JOIN group_offsets AS o
          ON o.log_partition = g.log_partition AND o.group_id = g.group_id
        WHERE g.record_offset = -1 AND g.group_type <> 'external'
        GROUP BY g.log_partition, g.group_id
    """,
    "open_transactions": _OPEN_TRANSACTIONS,
    # Complete in itself: in Spark a view in a catalog must not refer to one of a session.
    "hanging_transactions": _OPEN_TRANSACTIONS.replace(
        "FROM owned",
        "FROM owned WHERE since < moment() - INTERVAL '15' MINUTE "
        "AND NOT (is_open AND state = 'Ongoing' AND timeout_ms = 2147483647)",
    ),
}
"""`moment()` is the time of the snapshot, `offsets_retention()` the cluster's retention of offsets;
15 minutes are `StatusRules.hanging_after_ms`, 2147483647 is `TWO_PHASE_COMMIT_TIMEOUT_MS`."""


def in_duckdb(select: str, offsets_retention_ms: int) -> str:
    """A SELECT for DuckDB; `moment()` is a macro there."""
    return select.replace("offsets_retention()", f"to_milliseconds({offsets_retention_ms})")


def in_spark(select: str, offsets_retention_ms: int) -> str:
    """A SELECT for Spark; `moment()` is the time of each query."""
    # Spark adds the days of an interval literal in the time zone of the session, where a day may
    # have 23 or 25 hours.
    retention = f"make_interval(0, 0, 0, 0, 0, 0, {offsets_retention_ms / 1000})"
    in_words = select.replace("moment()", "current_timestamp()")
    return in_words.replace("offsets_retention()", retention)
