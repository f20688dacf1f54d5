"""Names, labels and help texts of the metrics of a whole cluster and of its internal topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily

from streaming.metrics.families import Gauge, Row

Cluster = Sequence[tuple[str, str]]


def _gauge(name: str, text: str) -> Gauge:
    return Gauge(name, text, {}, "value")


UP = _gauge("coordinator_state_up", "1 if the tables can be read")
COLLECTED_AT = _gauge(
    "coordinator_state_collected_timestamp_seconds",
    "Time at which the tables were read for this collection",
)
SERIES_LEFT_OUT = _gauge(
    "coordinator_state_series_left_out",
    "Series left out because there are more than --max-series",
)
SCRAPE_DURATION = _gauge("coordinator_state_scrape_seconds", "Duration of this collection")
POLL_TIME = _gauge(
    "kafka_consumergroup_poll_time_ms", "Duration of this collection, in milliseconds"
)
TABLES_BEHIND = _gauge(
    "coordinator_state_tables_behind_seconds",
    "Time by which the tables are behind __consumer_offsets, for the worst partition",
)
TABLES_WRITTEN_AT = _gauge(
    "coordinator_state_tables_written_timestamp_seconds",
    "Time at which run last wrote the tables or confirmed an offset sample",
)
PENDING = _gauge(
    "coordinator_state_pending_offsets",
    "Pending transactional commits: their marker is not read yet",
)
OLDEST_PENDING = _gauge(
    "coordinator_state_pending_offsets_oldest_seconds",
    "Age of the oldest pending transactional commit",
)
PENDING_WITHOUT_MARKER = _gauge(
    "coordinator_state_pending_offsets_marker_lost",
    "Pending transactional commits that stay pending until somebody aborts their transaction",
)
ALERTS_UNTOLD = _gauge(
    "coordinator_state_alerts_untold",
    "Firing alerts that are not muted and that no sink has accepted yet",
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

TABLE_GAUGES = (
    *(UP, COLLECTED_AT, TABLES_WRITTEN_AT, TABLES_BEHIND, PENDING, OLDEST_PENDING),
    *(PENDING_WITHOUT_MARKER, TRANSACTIONS_BY_STATE, OTHER_TOPIC_BEHIND, ALERTS_UNTOLD),
    *(SERIES_LEFT_OUT, SCRAPE_DURATION),
)
"""The gauges of a cluster in both naming schemes, except those of its log partitions."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter; the names of its samples end in `_total`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(self, cluster: Cluster) -> CounterMetricFamily:
        """Its family, without samples."""
        names = [name for name, _ in cluster]
        return CounterMetricFamily(self.name, self.help, labels=[*names, *self.labels])


RECORDS = Counter(
    "coordinator_state_records", "Records of __consumer_offsets by outcome", ("outcome",)
)
RECORDS_UNACCOUNTED = Counter(
    "coordinator_state_records_unaccounted",
    "Records of __consumer_offsets counted under no outcome, or under two: a bug of this program",
)
TOPIC_RECORDS = Counter(
    "coordinator_state_topic_records",
    "Records of the other internal topics by outcome; unaccounted is a bug of this program",
    ("log_topic", "outcome"),
)
COUNTERS = (RECORDS, RECORDS_UNACCOUNTED, TOPIC_RECORDS)

OUTCOMES = ("applied", "superseded", "ignored", "quarantined")
TOPIC_OUTCOMES = ("applied", "ignored", "quarantined", "unaccounted")


def records_total(cluster: Cluster, rows: Sequence[Row]) -> CounterMetricFamily:
    """The counter of records of `__consumer_offsets` by outcome."""
    family = RECORDS.family(cluster)
    for outcome in OUTCOMES:
        total = sum(row[f"records_{outcome}"] for row in rows)
        family.add_metric([*(value for _, value in cluster), outcome], total)
    return family


def topic_records_total(cluster: Cluster, rows: Sequence[Row]) -> CounterMetricFamily:
    """The counter of records of the other internal topics by topic and outcome."""
    family = TOPIC_RECORDS.family(cluster)
    for row in rows:
        for outcome in TOPIC_OUTCOMES:
            labels = [*(value for _, value in cluster), row["log_topic"], outcome]
            family.add_metric(labels, row[f"records_{outcome}"])
    return family


def records_unaccounted_total(cluster: Cluster, rows: Sequence[Row]) -> CounterMetricFamily:
    """The counter of records whose outcomes do not add up to the records of a micro-batch."""
    family = RECORDS_UNACCOUNTED.family(cluster)
    family.add_metric(
        [value for _, value in cluster], sum(row["records_unaccounted"] or 0 for row in rows)
    )
    return family
