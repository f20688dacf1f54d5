"""The lists that people see: each is declared once, as a query.

Columns have their names in the tables and views. The page, its files and its link to the SQL page,
the API, the tools for agents and the command line select from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

from coordinator_state.insight.sql_literal import sql_literal
from streaming.tables.rows import SEVERITIES
from streaming.tables.schemas import STATE_CURRENT
from streaming.views.list_query import (
    Column,
    Condition,
    ListQuery,
    any_of,
    chosen,
    columns,
    equal,
    has_part,
    in_group,
    in_sql,
    lines,
    rank,
)

HistoryTable: TypeAlias = Literal["group_events", "offset_commits", "group_records"]
TIME: Final = "record_timestamp"
PLACES: Final[Mapping[HistoryTable, Sequence[str]]] = {
    "group_events": ("log_partition", "record_offset", "event_number"),
    "offset_commits": ("log_partition", "record_offset"),
    "group_records": ("log_partition", "record_offset"),
}
"""The columns that order the rows of one time."""
_ENDED: Final[Sequence[Condition]] = (
    ("producer_id", ">=", 0),
    ("outcome", "in", ["committed", "aborted"]),
)
_LAST: Final = (1 << 63) - 1
"""The place of a row without a time."""
GROUPS: Final = (
    Column("group_id", "Group", "own", "group_id", is_ascending=True),
    *columns("status", status="Status"),
    *columns("own", why="Why"),
    *columns("lag", lag="Lag"),
    Column(
        *("history", "Recent lag", "own"),
        css="history",
        about="Over the last hour, or since the first data",
    ),
    Column("trend", "Trend", "own", "growth_per_s"),
    Column("time_lag", "Time lag", "own", "max_time_lag_at_least_ms", is_number=True),
    Column(
        *("since", "Status since", "own"),
        css="low",
        about="Time of the evaluation that first had the status",
    ),
    Column("state", "State", "own", "group_state", css="low", is_ascending=True),
    Column("members", "Members", "number", "member_count", css="low"),
    Column(
        *("margin", "Retention margin", "duration", "min_retention_margin_ms"),
        css="low",
        is_ascending=True,
    ),
)
"""The columns of groups; all behind the second can be left out."""
_PARTITIONS: Final = (
    *columns("topic", topic="Topic"),
    *columns("place", partition="Partition"),
    Column("status", "Status", "own", "rank"),
    *columns("number", committed_offset="Committed", log_end_offset="Log end"),
    Column("lag", "Lag", "own", "lag", is_number=True),
    Column("time_lag_at_least_ms", "Time lag", "own", "time_lag_at_least_ms", is_number=True),
    *columns("ago", commit_timestamp="Last commit"),
    Column("client_id", "Owner", "own", "client_id", is_ascending=True),
    *columns("number", pending_offset="Pending"),
)
_TOPIC_GROUPS: Final = (
    *columns("group", group_id="Group"),
    *columns("status", status="Status"),
    *columns("why", reason="Why"),
    *columns("number", readers="Members", partitions="Partitions"),
    *columns("time_lag", max_time_lag_at_least_ms="Time lag"),
)
_BLOCKED: Final = (
    *columns("group", group_id="Group"),
    *columns("topic", topic="Topic"),
    *columns("place", partition="Partition"),
    *columns("number", committed_offset="Committed", last_stable_offset="Last stable"),
    *columns("number", log_end_offset="Log end", lag="Lag"),
)
_PROGRESS: Final = (
    *columns("place", log_partition="Log partition"),
    Column("state", "State", "own", "state", is_ascending=True),
    *columns("number", next_offset="Next offset", behind="Behind", records_read="Read"),
    *columns("number", records_pending="Pending", records_quarantined="Quarantined"),
    *columns("number", unaccounted="Unaccounted", batch_id="Micro-batch"),
    *columns("ago", updated_at="Written"),
)
_QUARANTINE: Final = (
    *columns("ago", record_timestamp="When"),
    *columns("text", log_topic="Topic"),
    *columns("place", log_partition="Log partition", record_offset="Record"),
    *columns("why", reason="Why"),
)
_TOPIC_LOADS: Final = (
    *columns("text", log_topic="Topic"),
    *columns("number", log_partitions="Log partitions"),
    Column("current", "Current", "own", is_number=True),
    *columns("number", behind="Behind", records_read="Read", records_quarantined="Quarantined"),
    *columns("number", records_unaccounted="Unaccounted"),
)
_TOPICS: Final = (
    *columns("topic", topic="Topic"),
    Column("status", "Worst status", "own", "rank"),
    *columns("number", readers="Readers"),
    Column("slowest_group_id", "Slowest reader", "own", "slowest_group_id", is_ascending=True),
    Column("lag", "Its lag", "own", "lag", is_number=True),
    Column(
        *("max_time_lag_at_least_ms", "Its time lag", "own", "max_time_lag_at_least_ms"),
        is_number=True,
    ),
    *columns("number", produce_rate_per_s="Produced/s"),
    Column("min_retention_margin_ms", "Retention margin", "duration", is_ascending=True),
    *columns("number", partitions="Partitions", partitions_unread="Not read"),
)
_TOPIC_PARTITIONS: Final = (
    *columns("place", partition="Partition"),
    *columns("number", log_start_offset="Log start", last_stable_offset="Last stable"),
    *columns("number", log_end_offset="Log end", produce_rate_per_s="Produced/s"),
    Column("share", "Share", "own", is_number=True),
    *columns("number", groups="Groups", max_lag="Greatest lag"),
)
_ALERTS: Final = (
    *columns("text", rule="Rule"),
    *columns("own", state="State"),
    *columns("text", severity="Severity"),
    *columns("group", group_id="Group"),
    *columns("own", topic="Topic"),
    Column("reason", "Why", "own", css="why"),
    *columns("number", value="Value", fired_value="At firing"),
    *columns("ago", since="Since", resolved_at="Resolved"),
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
        sort=chosen(sort, GROUPS, "-rank", ["partitions_not_ok"]),
        shown=GROUPS,
        then=[_MOST_LAG, "group_id"],
        key={"group_id": str},
    )


def group_partitions(
    group_id: str,
    *,
    topics: Sequence[str] = (),
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
            *in_group(group_id),
            *any_of("topic", topics),
            *(equal("member_id", member_id) if member_id else []),
        ],
        filters=[*has_part("topic", search)],
        statuses=statuses,
        sort=chosen(sort, _PARTITIONS, "-rank"),
        shown=_PARTITIONS,
        then=["topic", "partition"],
        key={"topic": str, "partition": int},
        reads=_lags("group_id", [group_id]),
    )


def lags_of(name: str, values: Sequence[str]) -> ListQuery:
    """The rows of `group_lag` with any of these values in a column."""
    return ListQuery(
        source="group_lag",
        within=[*any_of(name, values)],
        then=["group_id", "topic", "partition"],
        reads=_lags(name, values),
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
        reads=_lags("group_id", group_ids),
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
        sort=chosen(sort, _TOPIC_GROUPS, "-rank", ("lag", "max_lag", "skew")),
        shown=_TOPIC_GROUPS,
        then=[_MOST_LAG, "group_id"],
        key={"group_id": str},
        reads=_lags("topic", [topic]),
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
        shown=_BLOCKED,
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
        sort=chosen(sort, _PROGRESS, "log_partition"),
        shown=_PROGRESS,
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
        shown=_QUARANTINE,
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
        shown=_TOPIC_LOADS,
    )


def groups_at(group_id: str | None) -> ListQuery:
    """The groups whose changes a page shows, as of one of its two moments."""
    return ListQuery(
        source="group_status",
        columns="group_id, status, group_state, partitions, lag",
        within=in_group(group_id),
        then=["group_id"],
    )


def offsets_at(group_id: str | None) -> ListQuery:
    """The committed offsets whose changes a page shows, as of one of its two moments."""
    return ListQuery(
        source="group_lag",
        columns="group_id, topic, partition, committed_offset",
        within=[*in_group(group_id), "committed_offset IS NOT NULL"],
        then=["group_id", "topic", "partition"],
        reads=_lags("group_id", [group_id]) if group_id is not None else ("", ()),
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
        within=in_group(group_id),
        then=["client_id", "member_id"],
    )


def share_partitions(group_id: str) -> ListQuery:
    """The delivery state of each partition of a share group."""
    return ListQuery(
        source="share_partitions",
        columns="* EXCLUDE (log_partition, record_offset)",
        within=in_group(group_id),
        reads=("share_partitions", [("group_id", "=", group_id)]),
        then=["topic", "partition"],
    )


def history(
    table: HistoryTable,
    *,
    group_id: str | None = None,
    topic: str | None = None,
    events: Collection[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> ListQuery:
    """The rows of a table of history, newest first.

    Args:
        table: the table. Only `group_events` has events.
        group_id: the group; all groups if None.
        topic: only rows of this topic.
        events: names of events; all if empty.
        since: the beginning of the period.
        until: the end of the period.
    """
    conditions: list[Condition] = []
    if group_id is not None:
        conditions.append(("group_id", "=", group_id))
    if topic is not None:
        conditions.append(("topic", "=", topic))
    if events:
        conditions.append(("event", "in", sorted(set(events))))
    conditions += during(since, until)
    return _history(table, conditions)


def _history(table: HistoryTable, conditions: Sequence[Condition]) -> ListQuery:
    places = PLACES[table]
    return ListQuery(
        source=table,
        columns="* EXCLUDE (day)",
        within=[*in_sql(conditions)],
        then=[f"{TIME} DESC NULLS LAST", *(f"{place} DESC" for place in places)],
        key={
            f"coalesce(-epoch_us({TIME}), {_LAST})": int,
            **{f"-{place}": int for place in places},
        },
        reads=(table, conditions),
    )


def during(since: datetime | None, until: datetime | None) -> Iterator[Condition]:
    """The conditions of a period of a table of history."""
    for operator, moment in ((">=", since), ("<=", until)):
        if moment is not None:
            yield "day", operator, moment.date()
            yield TIME, operator, moment


def ended_transactions(group_id: str, since: datetime, until: datetime) -> ListQuery:
    """The commits of a group in transactions that ended."""
    conditions = [("group_id", "=", group_id), *during(since, until), *_ENDED]
    return _history("offset_commits", conditions)


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
        sort=chosen(sort, _TOPICS, "-rank"),
        shown=_TOPICS,
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
        shown=_TOPIC_PARTITIONS,
        reads=_lags("topic", [topic]),
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
            "t.abort_timestamp, t.is_marker_lost, t.is_two_phase_commit, p.producer_epoch,",
            "p.group_id, p.client_id, p.client_host, p.topic, p.partition, p.committed_offset,",
            "p.log_partition",
        ),
        within=in_group(group_id),
        then=["t.since", "p.producer_id", "p.topic", "p.partition"],
    )


def alerts(*, states: Sequence[str] = (), group_ids: Sequence[str] = ()) -> ListQuery:
    """The alerts of `alert run`, by default of all states and groups.

    Those that fire come first, then by severity and age, the newest first.
    """
    order = "list_position(['firing', 'pending', 'resolved'], state)"
    severity = f"list_position({list(SEVERITIES)}, severity)"
    return ListQuery(
        source="alerts",
        filters=[*any_of("state", states), *any_of("group_id", group_ids)],
        then=[order, severity, "since DESC", "rule", "group_id", "topic", "partition"],
        shown=_ALERTS,
        key={
            **{"rule": str, "coalesce(group_id, '')": str, "coalesce(topic, '')": str},
            **{"coalesce(partition, -1)": int, "epoch_us(since)": int},
        },
        # They are always those of now, also in a snapshot that is kept for a while.
        reads=("alerts", ()),
    )


def _lags(name: str, values: Sequence[str]) -> tuple[str, Sequence[Condition]]:
    return "group_lag", [(name, "in", values)]
