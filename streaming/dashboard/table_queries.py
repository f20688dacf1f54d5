"""The query behind each table of the page, with the filters and the sort order of its address.

Columns have their names in the tables and views. A page shows some rows, the query gives all.
Values that clients chose are literals of `sql_literal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final, TypeAlias

from werkzeug.datastructures import MultiDict

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag_trend import Trend
from coordinator_state.insight.sql_literal import sql_literal

Arguments: TypeAlias = MultiDict[str, str]

_NO_ARGUMENTS: Final[Arguments] = MultiDict()
_STATUSES: Final = ", ".join(f"'{status.value}'" for status in Status)
_GROUP_COLUMNS: Final = (
    *("group_id", "rank", "group_state", "members", "partitions_not_ok", "lag", "growth_per_s"),
    *("max_time_lag_at_least_ms", "min_retention_margin_ms"),
)
_PARTITION_COLUMNS: Final = (
    *("topic", "partition", "committed_offset", "log_end_offset", "lag"),
    *("time_lag_at_least_ms", "rank", "commit_timestamp", "client_id", "pending_offset"),
)
_TOPIC_GROUP_COLUMNS: Final = (
    *("group_id", "rank", "partitions", "lag", "max_lag", "skew", "max_time_lag_at_least_ms"),
    "readers",
)
_PROGRESS_COLUMNS: Final = (
    *("log_partition", "state", "next_offset", "behind", "records_read", "records_quarantined"),
    *("records_pending", "unaccounted", "updated_at", "batch_id"),
)
_TEXTS: Final = frozenset({"group_id", "group_state", "topic", "client_id", "state"})


def _rank(status: str) -> str:
    """The severity of a status; greater is worse."""
    return f"list_position([{_STATUSES}], {status})"


def groups(arguments: Arguments) -> str:
    """The groups of the overview."""
    return _lines(
        "SELECT group_id, status, reason, group_state, group_type, member_count AS members,",
        "       partitions, partitions_not_ok, lag, max_time_lag_ms, max_time_lag_at_least_ms,",
        "       min_retention_margin_ms, growth_per_s, trend, status_since",
        "FROM group_status",
        _where(_groups_searched(arguments)),
        _order(arguments, _GROUP_COLUMNS, "-rank"),
    )


def groups_at(group_id: str | None) -> str:
    """The groups whose changes a page shows, as of one of its two moments."""
    return _lines(
        "SELECT group_id, status, group_state, partitions, lag",
        "FROM group_status",
        _where(_of_group(group_id)),
        "ORDER BY group_id",
    )


def offsets_at(group_id: str | None) -> str:
    """The committed offsets whose changes a page shows, as of one of its two moments."""
    return _lines(
        "SELECT group_id, topic, partition, committed_offset",
        "FROM group_lag",
        _where(_of_group(group_id)),
        "ORDER BY group_id, topic, partition",
    )


def group_partitions(group_id: str, arguments: Arguments = _NO_ARGUMENTS) -> str:
    """The partitions of a group, by default all of them."""
    return _lines(
        "SELECT topic, partition, status, reason,",
        "       * EXCLUDE (topic, partition, status, reason)",
        "FROM group_lag",
        _where(
            [
                *_of_group(group_id),
                *_equal("topic", arguments.get("topic")),
                *_equal("member_id", arguments.get("member")),
                *_searched("topic", "status", arguments),
            ]
        ),
        _order(arguments, _PARTITION_COLUMNS, "-rank"),
    )


def group_members(group_id: str) -> str:
    """The members of a group of any type; workers of Kafka Connect have their tasks as JSON."""
    return _lines(
        "SELECT member_id, client_id, client_host, group_instance_id, rack_id, assignment, tasks,",
        "       target_tasks, subscribed_topics, member_state, member_epoch, subscription_json,",
        "       assignment_json",
        "FROM group_members",
        _where(_of_group(group_id)),
        "ORDER BY client_id, member_id",
    )


def share_partitions(group_id: str) -> str:
    """The delivery state of each partition of a share group."""
    return _lines(
        "SELECT * EXCLUDE (log_partition, record_offset)",
        "FROM share_partitions",
        _where(_of_group(group_id)),
        "ORDER BY topic, partition",
    )


def group_records(group_id: str, since: datetime, until: datetime) -> str:
    """The records of a group that are no commits, with their bytes."""
    return _history("group_records", [*_of_group(group_id), *_within(since, until)])


def offset_commits(group_id: str, since: datetime, until: datetime) -> str:
    """The commits and tombstones of a group."""
    return _history("offset_commits", [*_of_group(group_id), *_within(since, until)])


def ended_transactions(group_id: str, since: datetime, until: datetime) -> str:
    """The commits of a group in transactions that ended."""
    in_transaction = "producer_id >= 0 AND outcome IN ('committed', 'aborted')"
    conditions = [*_of_group(group_id), *_within(since, until), in_transaction]
    return _history("offset_commits", conditions)


def events(
    names: Collection[str],
    group_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> str:
    """The events of a page, each one in a row.

    Args:
        names: names of events; all if empty.
        group_id: the group; all groups if None.
        since: the beginning of the period.
        until: the end of the period.
    """
    conditions = _of_group(group_id)
    if names:
        conditions.append(f"event IN ({', '.join(map(sql_literal, sorted(names)))})")
    conditions += _within(since, until)
    return _lines(
        "SELECT * EXCLUDE (day)",
        "FROM group_events",
        _where(conditions),
        "ORDER BY record_timestamp DESC NULLS LAST, log_partition, record_offset DESC,",
        "         event_number DESC",
    )


def topics() -> str:
    """The topics of which groups have committed offsets."""
    return _lines(
        "SELECT topic, count(*) AS readers,",
        "       arg_max(group_id, (coalesce(max_time_lag_at_least_ms, -1), lag)) AS slowest,",
        "       max(max_time_lag_at_least_ms) AS max_time_lag_at_least_ms,",
        "       min(min_retention_margin_ms) AS min_retention_margin_ms",
        "FROM (",
        "  SELECT topic, group_id, coalesce(sum(lag), -1) AS lag,",
        "         max(time_lag_at_least_ms) AS max_time_lag_at_least_ms,",
        "         min(retention_margin_ms) AS min_retention_margin_ms",
        "  FROM group_lag GROUP BY topic, group_id",
        ")",
        "GROUP BY topic ORDER BY topic",
    )


def topic_groups(topic: str, arguments: Arguments) -> str:
    """The groups that have committed offsets of a topic."""
    rank = _rank("status")
    return _lines(
        "SELECT * FROM (",
        f"  SELECT group_id, arg_max(status, {rank}) AS status,",
        f"         arg_max(reason, {rank}) AS reason, any_value(group_state) AS group_state,",
        "         count(DISTINCT member_id) AS readers, count(*) AS partitions,",
        "         sum(lag) AS lag, max(lag) AS max_lag, max(lag) / nullif(avg(lag), 0) AS skew,",
        "         max(time_lag_ms) AS max_time_lag_ms,",
        "         max(time_lag_at_least_ms) AS max_time_lag_at_least_ms",
        "  FROM group_lag",
        f"  WHERE topic = {sql_literal(topic)}",
        "  GROUP BY group_id",
        ")",
        _where(_searched("group_id", "status", arguments)),
        _order(arguments, _TOPIC_GROUP_COLUMNS, "-rank"),
    )


def topic_partitions(topic: str) -> str:
    """The partitions of a topic of which groups have committed offsets."""
    return _lines(
        "SELECT partition, max(log_start_offset) AS log_start_offset,",
        "       max(last_stable_offset) AS last_stable_offset,",
        "       max(log_end_offset) AS log_end_offset,",
        "       max(produce_rate_per_s) AS produce_rate_per_s,",
        "       max(produce_rate_per_s)",
        "         / nullif(sum(max(produce_rate_per_s)) OVER (), 0) AS share,",
        "       count(*) AS groups, max(lag) AS max_lag",
        "FROM group_lag",
        f"WHERE topic = {sql_literal(topic)}",
        "GROUP BY partition",
        "ORDER BY partition",
    )


def pending_offsets(group_id: str | None = None) -> str:
    """The pending offsets of ongoing transactions, of one group or all, each one in a row."""
    return _lines(
        "SELECT t.since, p.producer_id, t.transactional_id, t.transaction_state,",
        "       t.abort_timestamp, t.is_marker_lost, p.producer_epoch, p.group_id, p.client_id,",
        "       p.client_host, p.topic, p.partition, p.committed_offset, p.log_partition",
        "FROM pending_offsets AS p",
        "JOIN open_transactions AS t USING (log_partition, producer_id, group_id)",
        _where(_of_group(group_id)),
        "ORDER BY t.since, p.producer_id, p.topic, p.partition",
    )


def blocked_groups() -> str:
    """The groups that a transaction on their topic blocks."""
    return _lines(
        "SELECT group_id, topic, partition, committed_offset, last_stable_offset,",
        "       log_end_offset, lag",
        "FROM group_lag",
        "WHERE last_stable_offset < log_end_offset AND lag > 0 AND lag_to_last_stable = 0",
        "ORDER BY group_id, topic, partition",
    )


def alerts() -> str:
    """The alerts of `alert run`."""
    return _lines(
        "SELECT * FROM alerts",
        "ORDER BY list_position(['firing', 'pending', 'resolved'], state), since DESC",
    )


def load_progress(arguments: Arguments) -> str:
    """The load progress of each partition of `__consumer_offsets`."""
    return _lines(
        "SELECT log_partition, state, next_offset, high_watermark - next_offset AS behind,",
        "       records_read, records_applied, records_superseded, records_ignored,",
        "       records_quarantined, records_pending,",
        "       coalesce(records_unaccounted, 0) AS unaccounted, batch_id, updated_at",
        "FROM load_progress",
        _order(arguments, _PROGRESS_COLUMNS, "log_partition"),
    )


def topic_loads() -> str:
    """The load progress of the other internal topics."""
    return _lines(
        "SELECT log_topic, count(*) AS log_partitions,",
        "       count(*) FILTER (state = 'current') AS current,",
        "       sum(greatest(high_watermark - next_offset, 0)) AS behind,",
        "       sum(records_read) AS records_read,",
        "       sum(records_quarantined) AS records_quarantined,",
        "       sum(records_unaccounted) AS records_unaccounted",
        "FROM topic_progress",
        "GROUP BY log_topic",
        "ORDER BY log_topic",
    )


def quarantine() -> str:
    """The records that cannot be decoded."""
    return _lines(
        "SELECT record_timestamp, coalesce(log_topic, '__consumer_offsets') AS log_topic,",
        "       log_partition, record_offset, reason",
        "FROM quarantine",
        "ORDER BY record_timestamp DESC NULLS LAST",
    )


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)


def _of_group(group_id: str | None) -> list[str]:
    return [] if group_id is None else [f"group_id = {sql_literal(group_id)}"]


def _within(since: datetime | None, until: datetime | None) -> Iterator[str]:
    """The conditions of a period of a table with days."""
    for operator, moment in ((">=", since), ("<=", until)):
        if moment is not None:
            yield f"day {operator} DATE '{moment:%Y-%m-%d}'"
            yield f"record_timestamp {operator} TIMESTAMPTZ '{moment.isoformat()}'"


def _history(table: str, conditions: Collection[str]) -> str:
    return _lines(
        "SELECT * EXCLUDE (day)",
        f"FROM {table}",
        _where(conditions),
        "ORDER BY record_timestamp DESC NULLS LAST, log_partition, record_offset DESC",
    )


def _equal(name: str, value: str | None) -> list[str]:
    return [f"{name} = {sql_literal(value)}"] if value else []


def _searched(name: str, status: str, arguments: Arguments) -> Iterator[str]:
    """The conditions of a search form."""
    if arguments.get("search"):
        yield _has_part(name, arguments["search"])
    yield from _any_of(status, arguments.getlist("status"))


def _groups_searched(arguments: Arguments) -> Iterator[str]:
    """The conditions of the filters of the overview."""
    yield from _searched("group_id", "status", arguments)
    yield from _any_of("group_state", arguments.getlist("state"))
    yield from _any_of("group_type", arguments.getlist("type"))
    if arguments.get("trend") == Trend.GROWING.value:
        yield "growth_per_s > 0"
    if arguments.get("topic"):
        has_part = _has_part("topic", arguments["topic"])
        of_topic = _lines("SELECT group_id FROM group_lag", f"WHERE {has_part}")
        yield f"group_id IN ({of_topic})"


def _has_part(name: str, part: str) -> str:
    return f"contains(lower({name}), lower({sql_literal(part)}))"


def _any_of(name: str, values: Collection[str]) -> Iterator[str]:
    wanted = ", ".join(sql_literal(value) for value in values if value)
    if wanted:
        yield f"{name} IN ({wanted})"


def _where(conditions: Collection[str] | Iterator[str]) -> str:
    found = " AND ".join(conditions)
    return f"WHERE {found}" if found else ""


def _order(arguments: Arguments, columns: Collection[str], default: str) -> str:
    """The order of the address, or the default one; null comes last."""
    wanted = arguments.get("sort", default)
    name = wanted.removeprefix("-")
    if name not in columns:
        wanted, name = default, default.removeprefix("-")
    direction = " DESC" if wanted.startswith("-") else ""
    by = _rank("status") if name == "rank" else f"lower({name})" if name in _TEXTS else name
    return f"ORDER BY {by}{direction} NULLS LAST"
