"""Names, labels, values and help texts of the metrics, and the rows that have their series.

Metrics of groups and partitions have the names of kafka-lag-exporter (or, as an option, of
kminion): existing dashboards and rules keep working. All other metrics are `coordinator_state_...`.

Source: seglo/kafka-lag-exporter src/main/scala/com/lightbend/kafkalagexporter/Metrics.scala at
v0.8.2; redpanda-data/kminion prometheus/exporter.go at 4f3867a.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        rows: its rows, which have a series each: a name in `SELECTS`.
        labels: the names of its labels, which are columns of the rows.
        name: its name; that of a counter ends in `_total`.
        value: the value of a row, in SQL; a row where it is null has no series.
        help: its help text, without characters that need an escape.
    """

    rows: str
    labels: tuple[str, ...]
    name: str
    value: str
    help: str

    @property
    def kind(self) -> str:
        """Its type."""
        return "counter" if self.name.endswith("_total") else "gauge"


def declared(text: str) -> dict[str, Metric]:
    """Metrics by their names: a line for rows and labels, one for name and value, one for help."""
    metrics, rows, labels, name, value = {}, "", "", "", ""
    for line in text.splitlines():
        if line.startswith("    "):
            metrics[name] = Metric(rows, tuple(labels.split()), name, value, line.strip())
        elif line.startswith("  "):
            name, _, value = line.strip().partition(" = ")
        else:
            rows, _, labels = line.partition(":")
    return metrics


METRICS: Final = declared("""
partitions: cluster_name group topic partition member_host consumer_id client_id
  kafka_consumergroup_group_offset = committed_offset
    Committed offset of the group in the partition
  kafka_consumergroup_group_lag = lag
    Lag of the group in the partition, in records
  kafka_consumergroup_group_lag_seconds = time_lag_at_least_ms / 1000
    Time lag of the group in the partition; a lower bound if no sample is old enough
topics: cluster_name group topic
  kafka_consumergroup_group_topic_sum_lag = lag
    Sum of the lag of the group in the partitions of the topic
groups: cluster_name group
  kafka_consumergroup_group_max_lag = max_lag
    Greatest lag of the group in a partition
  kafka_consumergroup_group_max_lag_seconds = max_time_lag_at_least_ms / 1000
    Greatest time lag of the group; a lower bound if no sample is old enough
  kafka_consumergroup_group_sum_lag = lag
    Sum of the lag of the group in all partitions
logs: cluster_name topic partition
  kafka_partition_latest_offset = log_end_offset
    Log end offset of the partition
  kafka_partition_earliest_offset = log_start_offset
    Log start offset of the partition
scrape: cluster_name
  kafka_consumergroup_poll_time_ms = seconds * 1000
    Duration of this collection, in milliseconds

partitions: group_id topic_name partition_id
  kminion_kafka_consumer_group_topic_partition_lag = lag
    Lag of the group in the partition, in records
topics: group_id topic_name
  kminion_kafka_consumer_group_topic_lag = lag
    Sum of the lag of the group in the partitions of the topic
  kminion_kafka_consumer_group_topic_offset_sum = committed_offset
    Sum of the committed offsets of the group in the partitions of the topic
groups: group_id
  kminion_kafka_consumer_group_members = member_count
    Number of members of the group
logs: topic_name partition_id
  kminion_kafka_topic_partition_high_water_mark = log_end_offset
    High watermark of the partition
  kminion_kafka_topic_partition_low_water_mark = log_start_offset
    Log start offset of the partition

groups: cluster_name group status
  coordinator_state_group_status = 1
    1 for the current status of the group
groups: cluster_name group type state
  coordinator_state_group_info = 1
    1 for each group, with its type and state
groups: cluster_name group
  coordinator_state_group_members = member_count
    Number of members of the group
  coordinator_state_group_lag_is_lower_bound = is_lag_lower_bound::INT
    1 if the lag of the group is a lower bound, as members never commit; 0 if it is exact
  coordinator_state_group_lag_seconds_is_lower_bound = is_time_lag_lower_bound::INT
    1 if the greatest time lag of the group is a lower bound, 0 if it is exact
  coordinator_state_group_last_commit_age_seconds = min_commit_age_ms / 1000
    Time since the last commit of the group
  coordinator_state_group_data_lost_records = data_lost
    Records that were deleted before the group read them
  coordinator_state_group_retention_margin_seconds = min_retention_margin_ms / 1000
    Time until the oldest uncommitted record is deleted, estimated from the last deletions
alerts: cluster_name rule severity state muted group topic partition
  coordinator_state_alert = 1
    1 for each pending or firing alert of alert run

up:
  coordinator_state_up = 1
    1 if the tables can be read
collection: cluster_name
  coordinator_state_collected_timestamp_seconds = collected_at
    Time at which the tables were read for this collection
  coordinator_state_tables_written_timestamp_seconds = written_at
    Time at which run last wrote the tables or confirmed an offset sample
tables_behind: cluster_name
  coordinator_state_tables_behind_seconds = behind_s
    Time by which the tables are behind __consumer_offsets, for the worst partition
pending: cluster_name
  coordinator_state_pending_offsets = offsets
    Pending transactional commits: their marker is not read yet
  coordinator_state_pending_offsets_oldest_seconds = oldest_s
    Age of the oldest pending transactional commit
  coordinator_state_pending_offsets_marker_lost = marker_lost
    Pending transactional commits that stay pending until somebody aborts their transaction
transactions: cluster_name state
  coordinator_state_transactions = transactions
    Transactional ids by the state of their transaction
other_topics: cluster_name log_topic
  coordinator_state_topic_offsets_behind = behind
    Record offsets of another internal topic that are not in the tables yet
untold: cluster_name
  coordinator_state_alerts_untold = alerts
    Firing alerts that are not muted and that no sink has accepted yet
scrape: cluster_name
  coordinator_state_series_left_out = left_out
    Series left out because there are more than --max-series
  coordinator_state_scrape_seconds = seconds
    Duration of this collection
log_partitions: cluster_name log_partition
  coordinator_state_log_partition_next_offset = next_offset
    Next offset of a partition of __consumer_offsets: all records before it are in the tables
  coordinator_state_log_partition_behind_seconds = behind_s
    Time by which the tables are behind a partition of __consumer_offsets
records: cluster_name outcome
  coordinator_state_records_total = records
    Records of __consumer_offsets by outcome
unaccounted: cluster_name
  coordinator_state_records_unaccounted_total = records
    Records of __consumer_offsets counted under no outcome, or under two: a bug of this program
topic_records: cluster_name log_topic outcome
  coordinator_state_topic_records_total = records
    Records of the other internal topics by outcome; unaccounted is a bug of this program
""")
"""All metrics of the tables by their names."""


NAMES: Final = {"lag-exporter": "kafka_", "kminion": "kminion_"}
"""The first part of the names of lag and offsets, by naming scheme."""


def metrics_of(rows: str, names: str) -> tuple[Metric, ...]:
    """The metrics of rows that a naming scheme has; ours are in all."""
    prefixes = NAMES[names], "coordinator_state_"
    return tuple(
        metric
        for metric in METRICS.values()
        if metric.rows == rows and metric.name.startswith(prefixes)
    )


LEVELS: Final = {
    "alerts": "alerts",
    "groups": "groups",
    "topics": "topics of groups",
    "partitions": "partitions of groups",
    "logs": "partitions of topics",
}
"""Rows whose labels clients choose, with the words of a log line about series left out.

All rows of an `owner` are kept or left out together, and those of owners with a high `rank` are
kept first.
"""

SELECTS: Final[Mapping[str, str]] = {
    "up": "SELECT 1",
    "alerts": """
        SELECT row(rule, group_id, topic, partition)::VARCHAR AS owner, state = 'firing' AS rank,
          rule, severity, state, coalesce(muted_by, '') <> '' AS muted, group_id AS "group", topic,
          partition
        FROM alerts WHERE state <> 'resolved'""",
    "groups": """
        SELECT owner, rank, group_id, group_id AS "group", group_type AS type, group_state AS state,
          status, member_count, totals.*
        FROM group_status JOIN ranks ON owner = group_id LEFT JOIN (
          SELECT group_id AS of_group, sum(lag) AS lag, max(lag) AS max_lag,
            bool_or(is_lag_lower_bound) AS is_lag_lower_bound,
            max(time_lag_at_least_ms) AS max_time_lag_at_least_ms,
            bool_or(time_lag_ms IS NULL AND time_lag_at_least_ms IS NOT NULL)
              AS is_time_lag_lower_bound,
            min(commit_age_ms) AS min_commit_age_ms, sum(data_lost) AS data_lost,
            min(retention_margin_ms) AS min_retention_margin_ms
          FROM group_lag GROUP BY group_id
        ) AS totals ON of_group = group_id""",
    "topics": """
        SELECT owner, rank, group_id, group_id AS "group", topic, topic AS topic_name,
          sum(lag) AS lag, sum(committed_offset) AS committed_offset
        FROM group_lag JOIN ranks ON owner = group_id GROUP BY ALL""",
    "partitions": """
        SELECT *, group_id AS "group", topic AS topic_name, partition AS partition_id,
          client_host AS member_host, member_id AS consumer_id
        FROM group_lag JOIN ranks ON owner = group_id""",
    "logs": """
        SELECT topic AS owner, 0 AS rank, topic, topic AS topic_name, partition,
          partition AS partition_id, max(log_start_offset) AS log_start_offset,
          max(log_end_offset) AS log_end_offset
        FROM group_lag GROUP BY topic, partition""",
    "collection": "FROM collection",
    "log_partitions": """
        SELECT log_partition, next_offset, collected_at - epoch(known_until) AS behind_s
        FROM load_progress LEFT JOIN known_until USING (log_partition), collection""",
    "tables_behind": """
        SELECT CASE WHEN count(*) = count(known_until) THEN max(collected_at - epoch(known_until))
          END AS behind_s
        FROM load_progress LEFT JOIN known_until USING (log_partition), collection""",
    "records": """
        UNPIVOT (
          SELECT coalesce(sum(records_applied), 0) AS applied,
            coalesce(sum(records_superseded), 0) AS superseded,
            coalesce(sum(records_ignored), 0) AS ignored,
            coalesce(sum(records_quarantined), 0) AS quarantined
          FROM load_progress
        ) ON COLUMNS(*) INTO NAME outcome VALUE records""",
    "unaccounted": "SELECT coalesce(sum(records_unaccounted), 0) AS records FROM load_progress",
    "pending": """
        SELECT count(*) AS offsets,
          max(collected_at) - epoch(min(commit_timestamp)) AS oldest_s,
          CASE WHEN EXISTS (FROM topic_progress) THEN count(*) FILTER (is_marker_lost) END
            AS marker_lost
        FROM pending_owners, collection""",
    "other_topics": """
        SELECT log_topic, sum(greatest(high_watermark - next_offset, 0)) AS behind
        FROM topic_progress GROUP BY log_topic""",
    "topic_records": """
        UNPIVOT (
          SELECT log_topic, sum(records_applied) AS applied, sum(records_ignored) AS ignored,
            sum(records_quarantined) AS quarantined, sum(records_unaccounted) AS unaccounted
          FROM topic_progress GROUP BY log_topic
        ) ON COLUMNS(* EXCLUDE log_topic) INTO NAME outcome VALUE records""",
    "transactions": "SELECT state, count(*) AS transactions FROM transactions GROUP BY state",
    "untold": """
        SELECT count(*) AS alerts FROM alerts
        WHERE state = 'firing' AND coalesce(muted_by, '') = ''
          AND NOT coalesce(list_contains([notice.state FOR notice IN sent], 'firing'), false)""",
    "scrape": "FROM scrape",
}
"""The rows of metrics, over the tables and views of a snapshot, and over tables of a collection:

- `collection`: a row; when the tables were read (`collected_at`) and written (`written_at`), in s
- `known_until`: the time up to which the tables have the records of a log partition
- `ranks`: groups as owners, with the rank of their status
- `pending_owners`: pending offsets, with `is_marker_lost`
- `scrape`: a row; the duration of the collection (`seconds`), and the number of series left out
"""
