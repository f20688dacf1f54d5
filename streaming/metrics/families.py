"""Names, labels and help texts of the metrics, and their creation from rows of views.

Metrics of groups and partitions have the names of kafka-lag-exporter (or, as an option, of
kminion): existing dashboards and rules keep working. All other metrics are `coordinator_state_...`.

Source: seglo/kafka-lag-exporter src/main/scala/com/lightbend/kafkalagexporter/Metrics.scala at
v0.8.2; redpanda-data/kminion prometheus/exporter.go at 4f3867a.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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
        found = 1 if self.column is None else row[self.column]
        return found if found is None or self.divisor == 1 else found / self.divisor

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
            "Last group consumed offset of a partition",
            _PARTITION,
            "committed_offset",
        ),
        Gauge(
            "kafka_consumergroup_group_lag",
            "Group offset lag of a partition",
            _PARTITION,
            "lag",
        ),
        Gauge(
            "kafka_consumergroup_group_lag_seconds",
            "Group time lag of a partition; a lower bound if no offset sample is old enough",
            _PARTITION,
            "time_lag_at_least_ms",
            _MS,
        ),
    ),
    logs=(
        Gauge(
            "kafka_partition_latest_offset",
            "Latest offset of a partition",
            _LOG,
            "log_end_offset",
        ),
        Gauge(
            "kafka_partition_earliest_offset",
            "Earliest offset of a partition",
            _LOG,
            "log_start_offset",
        ),
    ),
    topics=(
        Gauge(
            "kafka_consumergroup_group_topic_sum_lag",
            "Sum of group offset lag across topic partitions",
            _TOPIC,
            "lag",
        ),
    ),
    groups=(
        Gauge(
            "kafka_consumergroup_group_max_lag",
            "Max group offset lag",
            _GROUP,
            "max_lag",
        ),
        Gauge(
            "kafka_consumergroup_group_max_lag_seconds",
            "Max group time lag; a lower bound if no offset sample is old enough",
            _GROUP,
            "max_time_lag_at_least_ms",
            _MS,
        ),
        Gauge(
            "kafka_consumergroup_group_sum_lag",
            "Sum of group offset lag",
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
            "The number of messages a consumer group is lagging behind the latest offset of a "
            "partition",
            {**_KMINION_TOPIC, "partition_id": "partition"},
            "lag",
        ),
    ),
    logs=(
        Gauge(
            "kminion_kafka_topic_partition_high_water_mark",
            "Partition High Water Mark",
            _KMINION_LOG,
            "log_end_offset",
        ),
        Gauge(
            "kminion_kafka_topic_partition_low_water_mark",
            "Partition Low Water Mark",
            _KMINION_LOG,
            "log_start_offset",
        ),
    ),
    topics=(
        Gauge(
            "kminion_kafka_consumer_group_topic_lag",
            "The number of messages a consumer group is lagging behind across all partitions in a "
            "topic",
            _KMINION_TOPIC,
            "lag",
        ),
        Gauge(
            "kminion_kafka_consumer_group_topic_offset_sum",
            "The sum of all committed group offsets across all partitions in a topic",
            _KMINION_TOPIC,
            "committed_offset",
        ),
    ),
    groups=(
        Gauge(
            "kminion_kafka_consumer_group_members",
            "The number of members in the consumer group",
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
        "Members of the group",
        _GROUP,
        "member_count",
    ),
    Gauge(
        "coordinator_state_group_lag_seconds_is_lower_bound",
        "1 if the max group time lag is a lower bound, 0 if it is exact",
        _GROUP,
        "is_lower_bound",
    ),
    Gauge(
        "coordinator_state_group_last_commit_age_seconds",
        "Time since the group's last commit",
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
        "Time until the first uncommitted record is deleted, estimated from the last deletions",
        _GROUP,
        "min_retention_margin_ms",
        _MS,
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

OTHER_TOPIC_BEHIND = Gauge(
    "coordinator_state_topic_offsets_behind",
    "Record offsets of another internal topic that are not in the tables yet",
    {"log_topic": "log_topic"},
    "behind",
)
TRANSACTIONS_BY_STATE = Gauge(
    "coordinator_state_transactions",
    "Transactional ids by the state of their transaction",
    {"state": "state"},
    "transactions",
)
TOPIC_COLUMNS = frozenset(
    {
        *("log_topic", "next_offset", "high_watermark"),
        *(f"records_{name}" for name in ("applied", "ignored", "quarantined", "unaccounted")),
    }
)
"""The columns of `topic_progress` in metrics."""

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

OUTCOMES = ("applied", "superseded", "ignored", "quarantined")


def records_total(cluster: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Metric:
    """The counter of records of `__consumer_offsets` by outcome."""
    names = [name for name, _ in cluster]
    family = CounterMetricFamily(
        "coordinator_state_records",
        "Records of __consumer_offsets by outcome",
        labels=[*names, "outcome"],
    )
    for outcome in OUTCOMES:
        total = sum(row[f"records_{outcome}"] for row in rows)
        family.add_metric([*(value for _, value in cluster), outcome], total)
    return family


def topic_records_total(cluster: Sequence[tuple[str, str]], rows: Sequence[Row]) -> Metric:
    """The counter of records of the other internal topics by topic and outcome."""
    names = [name for name, _ in cluster]
    family = CounterMetricFamily(
        "coordinator_state_topic_records",
        "Records of the other internal topics by outcome; unaccounted is a bug of this program",
        labels=[*names, "log_topic", "outcome"],
    )
    for row in rows:
        for outcome in ("applied", "ignored", "quarantined", "unaccounted"):
            labels = [*(value for _, value in cluster), row["log_topic"], outcome]
            family.add_metric(labels, row[f"records_{outcome}"])
    return family


def records_unaccounted_total(
    cluster: Sequence[tuple[str, str]], rows: Sequence[Row]
) -> CounterMetricFamily:
    """The counter of records whose outcomes do not add up to the records of a micro-batch."""
    family = CounterMetricFamily(
        "coordinator_state_records_unaccounted",
        "Records of __consumer_offsets counted under no outcome, or under two",
        labels=[name for name, _ in cluster],
    )
    family.add_metric(
        [value for _, value in cluster], sum(row["records_unaccounted"] or 0 for row in rows)
    )
    return family


def gauge(name: str, text: str, cluster: Sequence[tuple[str, str]], value: float | None) -> Metric:
    """A gauge of the whole cluster, without a sample if its value is unknown."""
    return Gauge(name, text, {}, "value").of(cluster, [{"value": value}])
