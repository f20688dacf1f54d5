"""The view `topics`: all topics that the tables know, with the values of their readers.

A topic is known if a group reads it, or if it is sampled (`run --lag-topics all`). A partition is
read if it has a committed offset or a member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from streaming.lag.partition_statuses import ranks_of
from streaming.views.definitions import VIEWS

OF_LAGS: Final = (
    *("group_id", "topic", "partition", "topic_state", "produce_rate_per_s", "lag", "time_lag_ms"),
    *("time_lag_at_least_ms", "retention_margin_ms", "status"),
    *("committed_offset", "member_id", "group_type"),
)
"""The columns of `group_lag` that it needs."""
# A client may commit for any partition number, also for negative ones alone. Of equally bad or slow
# groups, the last by name counts.
_SELECT: Final = """
    WITH logs AS (
      SELECT topic, partition, max(topic_state) AS topic_state,
             max(produce_rate_per_s) AS produce_rate_per_s,
             coalesce(bool_or(committed_offset IS NOT NULL OR member_id IS NOT NULL
               OR group_type = 'share'), false) AS is_read
      FROM group_lag
      GROUP BY topic, partition
    ), named AS (
      SELECT topic, max(topic_state) AS topic_state, sum(produce_rate_per_s) AS produce_rate_per_s,
             greatest(max(partition)::BIGINT + 1, 0) AS partitions,
             count(*) FILTER (is_read) AS partitions_read
      FROM logs
      GROUP BY topic
    ), pairs AS (
      SELECT topic, group_id, TRY_CAST(sum(lag) AS BIGINT) AS lag,
             max(time_lag_ms) AS max_time_lag_ms,
             max(time_lag_at_least_ms) AS max_time_lag_at_least_ms,
             min(retention_margin_ms) AS retention_margin_ms
      FROM group_lag
      WHERE group_id IS NOT NULL
      GROUP BY topic, group_id
    ), slowest AS (
      SELECT topic, count(*) AS readers, min(retention_margin_ms) AS min_retention_margin_ms,
             max_by(pairs, (coalesce(max_time_lag_at_least_ms, -1), coalesce(lag, -1), group_id))
               AS pair
      FROM pairs
      GROUP BY topic
    ), worst AS (
      SELECT topic, max_by((status, group_id), (rank, coalesce(lag, -1), group_id))
               AS worst
      FROM group_lag
      WHERE status IS NOT NULL
      GROUP BY topic
    )
    SELECT topic, topic_state, worst[1] AS status, worst[2] AS worst_group_id,
           coalesce(readers, 0) AS readers, pair.group_id AS slowest_group_id, pair.lag AS lag,
           pair.max_time_lag_ms AS max_time_lag_ms,
           pair.max_time_lag_at_least_ms AS max_time_lag_at_least_ms, min_retention_margin_ms,
           produce_rate_per_s, partitions,
           CASE WHEN topic_state IS DISTINCT FROM 'gone' THEN partitions - partitions_read END
             AS partitions_unread
    FROM named LEFT JOIN slowest USING (topic) LEFT JOIN worst USING (topic)
    ORDER BY topic
"""


def topics_of(
    lags: pa.Table, unread: pa.Table, silent: Mapping[str, Sequence[Mapping[str, Any]]]
) -> pa.Table:
    """The rows of `topics`, in the order of the names.

    Args:
        lags: the rows of `group_lag` with the columns `OF_LAGS`, in any order.
        unread: the rows of `unread_logs`.
        silent: the assigned partitions of each group that are not in `lags`, with their members.
    """
    from streaming.views.query import asking

    names = ("topic", "partition", "member_id")
    schema = pa.schema([lags.schema.field(name) for name in ("group_id", *names)])
    assigned = [
        {"group_id": group_id, **{name: row[name] for name in names}}
        for group_id, rows in silent.items()
        for row in rows
    ]
    logs = unread.select(["topic", "partition", "state", "produce_rate_per_s"])
    rows = pa.concat_tables(
        [
            lags.select(OF_LAGS).append_column("rank", pa.array(ranks_of(lags["status"]))),
            pa.Table.from_pylist(assigned, schema),
            logs.rename_columns(["topic", "partition", "topic_state", "produce_rate_per_s"]),
        ],
        promote_options="default",
    )
    with asking(lambda _name: rows) as ask:
        return ask(_SELECT).cast(VIEWS["topics"])
