"""The lists that people see: each is declared once, as a query.

Columns have their names in the tables and views. The page, its files and its link to the SQL page,
the API and the tools for agents select from them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from coordinator_state.insight.sql_literal import sql_literal
from streaming.served.list_query import (
    ListQuery,
    any_of,
    chosen,
    during,
    equal,
    has_part,
    lines,
    of_group,
    rank,
)
from streaming.tables.schemas import STATE_CURRENT

_GROUPS_SORTED_BY: Final = (
    *("group_id", "rank", "group_state", "member_count", "partitions_not_ok", "lag"),
    *("growth_per_s", "max_time_lag_at_least_ms", "min_retention_margin_ms"),
)
_PARTITIONS_SORTED_BY: Final = (
    *("topic", "partition", "committed_offset", "log_end_offset", "lag"),
    *("time_lag_at_least_ms", "rank", "commit_timestamp", "client_id", "pending_offset"),
)
_TOPIC_GROUPS_SORTED_BY: Final = (
    *("group_id", "rank", "partitions", "lag", "max_lag", "skew", "max_time_lag_at_least_ms"),
    "readers",
)
_PROGRESS_SORTED_BY: Final = (
    *("log_partition", "state", "next_offset", "behind", "records_read", "records_quarantined"),
    *("records_pending", "unaccounted", "updated_at", "batch_id"),
)
_TOPICS_SORTED_BY: Final = (
    *("topic", "rank", "readers", "slowest_group_id", "lag", "max_time_lag_at_least_ms"),
    *("partitions", "produce_rate_per_s", "min_retention_margin_ms", "partitions_unread"),
)
TOPICS_NOT_READ: Final = {
    "topics": "readers = 0",
    "partitions": "readers > 0 AND partitions_unread > 0",
}
"""The conditions of topics that groups do not read, or not whole."""
_OF_TOTALS: Final = (
    "count(*) AS partitions,",
    "TRY_CAST(sum(lag) AS BIGINT) AS lag, max(lag) AS max_lag,",
    "bool_or(is_lag_lower_bound) AS is_lag_lower_bound,",
    "max(time_lag_ms) AS max_time_lag_ms,",
    "max(time_lag_at_least_ms) AS max_time_lag_at_least_ms",
)
_MOST_LAG: Final = "lag DESC NULLS LAST"


def groups(
    *,
    search: str = "",
    group_ids: Sequence[str] = (),
    statuses: Sequence[str] = (),
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    topics: Sequence[str] = (),
    topic_part: str = "",
    is_growing: bool = False,
    sort: str = "-rank",
) -> ListQuery:
    """Groups, by default all of them, worst first.

    Args:
        search: a part of the group id, in any case.
        group_ids: any of them.
        statuses: any of them.
        states: any of them.
        types: any of them.
        topics: groups that read any of them.
        topic_part: groups that read a topic whose name has this part.
        is_growing: groups whose lag grows.
        sort: the order.
    """
    readers = [*any_of("topic", topics), *has_part("topic", topic_part)]
    filters = [
        *has_part("group_id", search),
        *any_of("group_id", group_ids),
        *any_of("group_state", states),
        *any_of("group_type", types),
        *(["growth_per_s > 0"] if is_growing else []),
        *(
            lines("group_id IN (SELECT group_id FROM group_lag", f"WHERE {condition})")
            for condition in readers
        ),
    ]
    return ListQuery(
        source="group_status",
        columns="group_id, status, reason, * EXCLUDE (group_id, status, reason)",
        filters=filters,
        statuses=statuses,
        sort=chosen(sort, _GROUPS_SORTED_BY, "-rank"),
        then=[_MOST_LAG, "group_id"],
    )


def group_partitions(
    group_id: str,
    *,
    topic: str = "",
    member_id: str = "",
    search: str = "",
    statuses: Sequence[str] = (),
    sort: str = "-rank",
) -> ListQuery:
    """The partitions of a group, by default all of them, worst first."""
    return ListQuery(
        source="group_lag",
        columns="topic, partition, status, reason, * EXCLUDE (topic, partition, status, reason)",
        within=[
            *of_group(group_id),
            *(equal("topic", topic) if topic else []),
            *(equal("member_id", member_id) if member_id else []),
        ],
        filters=[*has_part("topic", search)],
        statuses=statuses,
        sort=chosen(sort, _PARTITIONS_SORTED_BY, "-rank"),
        then=["topic", "partition"],
        lags_of=("group_id", [group_id]),
    )


def lags_of(name: str, values: Sequence[str]) -> ListQuery:
    """The rows of `group_lag` with any of these values in a column."""
    return ListQuery(
        source="group_lag",
        within=[*any_of(name, values)],
        then=["group_id", "topic", "partition"],
        lags_of=(name, values),
    )


def group_totals(group_ids: Sequence[str], by: str) -> ListQuery:
    """The lag of groups by topic or by member, the greatest first.

    A member that has no partition has no row; partitions without a member have one. `share` is the
    part of the lag of all partitions of the group, null if there is none.
    """
    return ListQuery(
        columns="*, lag / nullif(sum(lag) OVER (PARTITION BY group_id), 0) AS share",
        source=lines(
            "(",
            f"  SELECT group_id, {by}, arg_max(status, {rank('status')}) AS status,",
            *(f"         {total}" for total in _OF_TOTALS),
            "  FROM group_lag",
            f"  WHERE {next(any_of('group_id', group_ids))}",
            f"  GROUP BY group_id, {by}",
            ")",
        ),
        then=["group_id", _MOST_LAG, "partitions DESC", by],
        lags_of=("group_id", group_ids),
    )


def topic_groups(
    topic: str,
    *,
    search: str = "",
    statuses: Sequence[str] = (),
    sort: str = "-rank",
) -> ListQuery:
    """The groups that read a topic, each with its lag over all partitions.

    The status and the reason are the worst of a partition. `skew` is the greatest lag of a
    partition divided by the mean lag, and `readers` the number of members that have a partition.
    """
    worst = f"({rank('status')}, coalesce(lag, -1), -CAST(partition AS BIGINT))"
    return ListQuery(
        source=lines(
            "(",
            f"  SELECT group_id, arg_max(status, {worst}) AS status,",
            f"         arg_max(reason, {worst}) AS reason, any_value(group_state) AS group_state,",
            "         any_value(topic_state) AS topic_state,",
            "         count(DISTINCT member_id) AS readers,",
            *(f"         {total}" for total in (*_OF_TOTALS[:-1], f"{_OF_TOTALS[-1]},")),
            "         max(lag) / nullif(avg(lag), 0) AS skew",
            "  FROM group_lag",
            f"  WHERE {equal('topic', topic)[0]}",
            "  GROUP BY group_id",
            ")",
        ),
        filters=[*has_part("group_id", search)],
        statuses=statuses,
        sort=chosen(sort, _TOPIC_GROUPS_SORTED_BY, "-rank"),
        then=[_MOST_LAG, "group_id"],
        lags_of=("topic", [topic]),
    )


def blocked_groups() -> ListQuery:
    """The groups that a transaction on their topic blocks."""
    return ListQuery(
        source="group_lag",
        columns=lines(
            "group_id, topic, partition, committed_offset, last_stable_offset,",
            "log_end_offset, lag",
        ),
        within=["last_stable_offset < log_end_offset", "lag > 0", "lag_to_last_stable = 0"],
        then=["group_id", "topic", "partition"],
    )


def load_progress(*, is_all: bool = True, sort: str = "log_partition") -> ListQuery:
    """The load progress of partitions of `__consumer_offsets`.

    Not all are those that have records or are not read to their end.
    """
    is_current = f"state IS NOT DISTINCT FROM '{STATE_CURRENT}'"
    has_work = f"(records_read > 0 OR behind <> 0 OR unaccounted > 0 OR NOT {is_current})"
    return ListQuery(
        source=lines(
            "(",
            "  SELECT log_partition, state, next_offset, high_watermark - next_offset AS behind,",
            "         records_read, records_applied, records_superseded, records_ignored,",
            "         records_quarantined, records_pending,",
            "         coalesce(records_unaccounted, 0) AS unaccounted, batch_id, updated_at",
            "  FROM load_progress",
            ")",
        ),
        within=[] if is_all else [has_work],
        sort=chosen(sort, _PROGRESS_SORTED_BY, "log_partition"),
        then=["log_partition"],
    )


def quarantine() -> ListQuery:
    """The records that cannot be decoded, newest first."""
    return ListQuery(
        source="quarantine",
        columns=lines(
            "record_timestamp, coalesce(log_topic, '__consumer_offsets') AS log_topic,",
            "log_partition, record_offset, reason",
        ),
        then=["record_timestamp DESC NULLS LAST", "log_topic", "log_partition", "record_offset"],
    )


def topic_loads() -> ListQuery:
    """The load progress of the other internal topics."""
    return ListQuery(
        source=lines(
            "(",
            "  SELECT log_topic, count(*) AS log_partitions,",
            f"         count(*) FILTER (state = '{STATE_CURRENT}') AS current,",
            "         CAST(sum(greatest(high_watermark - next_offset, 0)) AS BIGINT) AS behind,",
            "         CAST(sum(records_read) AS BIGINT) AS records_read,",
            "         CAST(sum(records_quarantined) AS BIGINT) AS records_quarantined,",
            "         CAST(sum(records_unaccounted) AS BIGINT) AS records_unaccounted",
            "  FROM topic_progress",
            "  GROUP BY log_topic",
            ")",
        ),
        then=["log_topic"],
    )


def groups_at(group_id: str | None) -> ListQuery:
    """The groups whose changes a page shows, as of one of its two moments."""
    return ListQuery(
        source="group_status",
        columns="group_id, status, group_state, partitions, lag",
        within=of_group(group_id),
        then=["group_id"],
    )


def offsets_at(group_id: str | None) -> ListQuery:
    """The committed offsets whose changes a page shows, as of one of its two moments."""
    return ListQuery(
        source="group_lag",
        columns="group_id, topic, partition, committed_offset",
        within=[*of_group(group_id), "committed_offset IS NOT NULL"],
        then=["group_id", "topic", "partition"],
    )


def group_members(group_id: str) -> ListQuery:
    """The members of a group of any type; workers of Kafka Connect have their tasks as JSON."""
    return ListQuery(
        source="group_members",
        columns=lines(
            "member_id, client_id, client_host, group_instance_id, rack_id, assignment,",
            "tasks, target_tasks, subscribed_topics, member_state, member_epoch,",
            "subscription_json, assignment_json",
        ),
        within=of_group(group_id),
        then=["client_id", "member_id"],
    )


def share_partitions(group_id: str) -> ListQuery:
    """The delivery state of each partition of a share group."""
    return ListQuery(
        source="share_partitions",
        columns="* EXCLUDE (log_partition, record_offset)",
        within=of_group(group_id),
        then=["topic", "partition"],
    )


def group_records(group_id: str, since: datetime, until: datetime) -> ListQuery:
    """The records of a group that are no commits, with their bytes."""
    return _history("group_records", [*of_group(group_id), *during(since, until)])


def offset_commits(group_id: str, since: datetime, until: datetime) -> ListQuery:
    """The commits and tombstones of a group."""
    return _history("offset_commits", [*of_group(group_id), *during(since, until)])


def ended_transactions(group_id: str, since: datetime, until: datetime) -> ListQuery:
    """The commits of a group in transactions that ended."""
    in_transaction = ["producer_id >= 0", *any_of("outcome", ("committed", "aborted"))]
    conditions = [*of_group(group_id), *during(since, until), *in_transaction]
    return _history("offset_commits", conditions)


def events(
    names: Collection[str],
    group_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ListQuery:
    """The events of a page, each in a row.

    Args:
        names: names of events; all if empty.
        group_id: the group; all groups if None.
        since: the beginning of the period.
        until: the end of the period.
    """
    return _history(
        "group_events",
        [*of_group(group_id), *any_of("event", sorted(names)), *during(since, until)],
        ["event_number DESC"],
    )


def topics(
    *,
    search: str = "",
    statuses: Sequence[str] = (),
    readers: str = "",
    sort: str = "-rank",
) -> ListQuery:
    """The known topics, those with the worst status first, and of equal ones the slowest.

    Args:
        search: a part of the name, in any case.
        statuses: any of them.
        readers: "topics" for topics without readers, "partitions" for topics of which some
            partitions are not read, or empty for all.
        sort: the order.
    """
    return ListQuery(
        source="topics",
        within=[TOPICS_NOT_READ[readers]] if readers in TOPICS_NOT_READ else [],
        filters=[*has_part("topic", search)],
        statuses=statuses,
        sort=chosen(sort, _TOPICS_SORTED_BY, "-rank"),
        then=["max_time_lag_at_least_ms DESC NULLS LAST", _MOST_LAG, "topic"],
    )


def read_topics(search: str) -> ListQuery:
    """The names of the topics that groups read, with a part in any case."""
    return ListQuery(
        source="(SELECT DISTINCT topic FROM group_lag)",
        within=[*has_part("topic", search)],
        then=["topic"],
    )


def topic_partitions(topic: str) -> ListQuery:
    """The partitions of a topic that groups read."""
    return ListQuery(
        source=lines(
            "(",
            "  SELECT partition, max(log_start_offset) AS log_start_offset,",
            "         max(last_stable_offset) AS last_stable_offset,",
            "         max(log_end_offset) AS log_end_offset,",
            "         max(produce_rate_per_s) AS produce_rate_per_s,",
            "         max(produce_rate_per_s)",
            "           / nullif(sum(max(produce_rate_per_s)) OVER (), 0) AS share,",
            "         count(*) AS groups, max(lag) AS max_lag",
            "  FROM group_lag",
            f"  WHERE topic = {sql_literal(topic)}",
            "  GROUP BY partition",
            ")",
        ),
        then=["partition"],
    )


def pending_offsets(group_id: str | None = None) -> ListQuery:
    """The pending offsets of ongoing transactions, of one group or all, each in a row."""
    return ListQuery(
        source=lines(
            "pending_offsets AS p",
            "JOIN open_transactions AS t USING (log_partition, producer_id, group_id)",
        ),
        columns=lines(
            "t.since, p.producer_id, t.transactional_id, t.transaction_state,",
            "t.abort_timestamp, t.is_marker_lost, p.producer_epoch, p.group_id, p.client_id,",
            "p.client_host, p.topic, p.partition, p.committed_offset, p.log_partition",
        ),
        within=of_group(group_id),
        then=["t.since", "p.producer_id", "p.topic", "p.partition"],
    )


def alerts() -> ListQuery:
    """The alerts of `alert run`, those that fire first."""
    order = "list_position(['firing', 'pending', 'resolved'], state)"
    return ListQuery(
        source="alerts",
        then=[order, "since DESC", "rule", "group_id", "topic", "partition"],
    )


def _history(table: str, conditions: Sequence[str], then: Sequence[str] = ()) -> ListQuery:
    """Rows of a table with days, newest first."""
    newest = ("record_timestamp DESC NULLS LAST", "log_partition", "record_offset DESC")
    return ListQuery(
        source=table,
        columns="* EXCLUDE (day)",
        within=conditions,
        then=[*newest, *then],
    )
