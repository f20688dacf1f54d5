"""Names, labels and help texts of the metrics of groups, and their creation from rows of views.

Metrics of groups and partitions have the names of kafka-lag-exporter (or, as an option, of
kminion): existing dashboards and rules keep working. All other metrics are `coordinator_state_...`;
`streaming.metrics.cluster_families` has those of whole clusters.

Source: seglo/kafka-lag-exporter src/main/scala/com/lightbend/kafkalagexporter/Metrics.scala at
v0.8.2; redpanda-data/kminion prometheus/exporter.go at 4f3867a.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge of rows; `labels` maps the names of labels to columns.

    Its value is `column` divided by `divisor`, or 1 without a column.
    """

    name: str
    help: str
    labels: dict[str, str]
    column: str | None = None
    divisor: int = 1

    def value(self, row: Row) -> float | int | None:
        """The value of a row; None if it is unknown."""
        value = 1 if self.column is None else row[self.column]
        return value if value is None or self.divisor == 1 else value / self.divisor

    def of(self, cluster: Sequence[tuple[str, str]], rows: Iterable[Row]) -> GaugeMetricFamily:
        """The family with a sample for each row that has a value."""
        names = [name for name, _ in cluster]
        family = GaugeMetricFamily(self.name, self.help, labels=[*names, *self.labels])
        own = [value for _, value in cluster]
        for row in rows:
            value = self.value(row)
            if value is not None:
                labels = ["" if row[c] is None else str(row[c]) for c in self.labels.values()]
                family.add_metric([*own, *labels], value)
        return family

    def of_cluster(
        self, cluster: Sequence[tuple[str, str]], value: float | None
    ) -> GaugeMetricFamily:
        """The family of a gauge without labels; without a sample if the value is unknown."""
        return self.of(cluster, [{str(self.column): value}])


_MS = 1000
"""Milliseconds per second: metrics are in s, columns in ms."""
_GROUP = {"group": "group_id"}
_TOPIC = {**_GROUP, "topic": "topic"}
_PARTITION = {
    **_TOPIC,
    "partition": "partition",
    "member_host": "client_host",
    "consumer_id": "member_id",
    "client_id": "client_id",
}
_LOG = {"topic": "topic", "partition": "partition"}


@dataclass(frozen=True, slots=True)
class Names:
    """The gauges of one naming scheme, by the kind of their rows."""

    partitions: tuple[Gauge, ...]
    logs: tuple[Gauge, ...]
    topics: tuple[Gauge, ...]
    groups: tuple[Gauge, ...]
    has_cluster: bool = True


LAG_EXPORTER = Names(
    partitions=(
        Gauge(
            "kafka_consumergroup_group_offset",
            "Committed offset of the group in the partition",
            _PARTITION,
            "committed_offset",
        ),
        Gauge(
            "kafka_consumergroup_group_lag",
            "Lag of the group in the partition, in records",
            _PARTITION,
            "lag",
        ),
        Gauge(
            "kafka_consumergroup_group_lag_seconds",
            "Time lag of the group in the partition; a lower bound if no sample is old enough",
            _PARTITION,
            "time_lag_at_least_ms",
            _MS,
        ),
    ),
    logs=(
        Gauge(
            "kafka_partition_latest_offset",
            "Log end offset of the partition",
            _LOG,
            "log_end_offset",
        ),
        Gauge(
            "kafka_partition_earliest_offset",
            "Log start offset of the partition",
            _LOG,
            "log_start_offset",
        ),
    ),
    topics=(
        Gauge(
            "kafka_consumergroup_group_topic_sum_lag",
            "Sum of the lag of the group in the partitions of the topic",
            _TOPIC,
            "lag",
        ),
    ),
    groups=(
        Gauge(
            "kafka_consumergroup_group_max_lag",
            "Greatest lag of the group in a partition",
            _GROUP,
            "max_lag",
        ),
        Gauge(
            "kafka_consumergroup_group_max_lag_seconds",
            "Greatest time lag of the group; a lower bound if no sample is old enough",
            _GROUP,
            "max_time_lag_at_least_ms",
            _MS,
        ),
        Gauge(
            "kafka_consumergroup_group_sum_lag",
            "Sum of the lag of the group in all partitions",
            _GROUP,
            "lag",
        ),
    ),
)

_KMINION_TOPIC = {"group_id": "group_id", "topic_name": "topic"}
_KMINION_LOG = {"topic_name": "topic", "partition_id": "partition"}
KMINION = Names(
    partitions=(
        Gauge(
            "kminion_kafka_consumer_group_topic_partition_lag",
            "Lag of the group in the partition, in records",
            {**_KMINION_TOPIC, "partition_id": "partition"},
            "lag",
        ),
    ),
    logs=(
        Gauge(
            "kminion_kafka_topic_partition_high_water_mark",
            "High watermark of the partition",
            _KMINION_LOG,
            "log_end_offset",
        ),
        Gauge(
            "kminion_kafka_topic_partition_low_water_mark",
            "Log start offset of the partition",
            _KMINION_LOG,
            "log_start_offset",
        ),
    ),
    topics=(
        Gauge(
            "kminion_kafka_consumer_group_topic_lag",
            "Sum of the lag of the group in the partitions of the topic",
            _KMINION_TOPIC,
            "lag",
        ),
        Gauge(
            "kminion_kafka_consumer_group_topic_offset_sum",
            "Sum of the committed offsets of the group in the partitions of the topic",
            _KMINION_TOPIC,
            "committed_offset",
        ),
    ),
    groups=(
        Gauge(
            "kminion_kafka_consumer_group_members",
            "Number of members of the group",
            {"group_id": "group_id"},
            "member_count",
        ),
    ),
    has_cluster=False,
)

NAMES = {"lag-exporter": LAG_EXPORTER, "kminion": KMINION}

OWN_GROUPS = (
    Gauge(
        "coordinator_state_group_status",
        "1 for the current status of the group",
        {**_GROUP, "status": "status"},
    ),
    Gauge(
        "coordinator_state_group_info",
        "1 for each group, with its type and state",
        {**_GROUP, "type": "group_type", "state": "group_state"},
    ),
    Gauge(
        "coordinator_state_group_members",
        "Number of members of the group",
        _GROUP,
        "member_count",
    ),
    Gauge(
        "coordinator_state_group_lag_is_lower_bound",
        "1 if the lag of the group is a lower bound, as members never commit; 0 if it is exact",
        _GROUP,
        "is_lag_lower_bound",
    ),
    Gauge(
        "coordinator_state_group_lag_seconds_is_lower_bound",
        "1 if the greatest time lag of the group is a lower bound, 0 if it is exact",
        _GROUP,
        "is_lower_bound",
    ),
    Gauge(
        "coordinator_state_group_last_commit_age_seconds",
        "Time since the last commit of the group",
        _GROUP,
        "min_commit_age_ms",
        _MS,
    ),
    Gauge(
        "coordinator_state_group_data_lost_records",
        "Records that were deleted before the group read them",
        _GROUP,
        "data_lost",
    ),
    Gauge(
        "coordinator_state_group_retention_margin_seconds",
        "Time until the oldest uncommitted record is deleted, estimated from the last deletions",
        _GROUP,
        "min_retention_margin_ms",
        _MS,
    ),
    Gauge(
        "coordinator_state_group_lag_growth_per_second",
        "Growth of the lag of the group, in records per second; below 0 if it gets less",
        _GROUP,
        "growth_per_s",
    ),
    Gauge(
        "coordinator_state_group_time_to_catch_up_seconds",
        "Time in which the group catches up at the present rates",
        _GROUP,
        "time_to_catch_up_ms",
        _MS,
    ),
    Gauge(
        "coordinator_state_group_rebalances",
        "Rebalances of the group in the last five minutes",
        _GROUP,
        "rebalances",
    ),
    Gauge(
        "coordinator_state_group_member_joins",
        "Members that joined the group in the last five minutes",
        _GROUP,
        "member_joins",
    ),
    Gauge(
        "coordinator_state_group_member_leaves",
        "Members that left the group in the last five minutes, also by a time-out",
        _GROUP,
        "member_leaves",
    ),
    Gauge(
        "coordinator_state_group_aborted_commits",
        "Commits of the group in the last five minutes whose transaction was aborted",
        _GROUP,
        "aborted_commits",
    ),
)

_LOG_PARTITION = {"log_partition": "log_partition"}
OWN_LOG_PARTITIONS = (
    Gauge(
        "coordinator_state_log_partition_next_offset",
        "Next offset of a partition of __consumer_offsets: all records before it are in the tables",
        _LOG_PARTITION,
        "next_offset",
    ),
    Gauge(
        "coordinator_state_log_partition_behind_seconds",
        "Time by which the tables are behind a partition of __consumer_offsets",
        _LOG_PARTITION,
        "behind_s",
    ),
)

OWN_ALERTS = (
    Gauge(
        "coordinator_state_alert",
        "1 for each pending or firing alert of alert run",
        {
            **{"rule": "rule", "severity": "severity", "state": "state", "muted": "muted"},
            **{**_GROUP, "topic": "topic", "partition": "partition"},
        },
    ),
)
