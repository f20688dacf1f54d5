"""Metrics of `run` that are computed at each scrape: progress of the tables, health, readiness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streaming.metrics.cluster_families import (
    RECORDS,
    RECORDS_UNACCOUNTED,
    records_total,
    records_unaccounted_total,
)
from streaming.metrics.families import OWN_LOG_PARTITIONS, Gauge
from streaming.run.monitoring.run_monitor import RunMonitor

_NEXT_OFFSET = OWN_LOG_PARTITIONS[0]
_BEHIND = Gauge(
    "coordinator_state_run_log_partition_behind_offsets",
    "Record offsets of a partition of __consumer_offsets that the tables do not have yet",
    {"log_partition": "log_partition"},
    "behind",
)
_HEALTHY = Gauge("coordinator_state_run_healthy", "1 if /health answers 200", {}, "value")
_READY = Gauge("coordinator_state_run_ready", "1 if /ready answers 200", {}, "value")
GAUGES = (_BEHIND, _HEALTHY, _READY, _NEXT_OFFSET)
COUNTERS = (RECORDS, RECORDS_UNACCOUNTED)


@dataclass(slots=True, eq=False)
class RunCollector(Collector):
    """Collects from memory; a scrape reads neither tables nor brokers."""

    monitor: RunMonitor
    cluster_id: str

    def collect(self) -> Iterator[Metric]:
        """Yield the progress and the outcomes of each log partition, health and readiness."""
        cluster = [("cluster_name", self.cluster_id)]
        rows = [
            {"log_partition": number, **row} for number, row in self.monitor.log_partitions.items()
        ]
        behind = self.monitor.offsets_behind()
        yield _NEXT_OFFSET.of(cluster, rows)
        yield _BEHIND.of(
            cluster, [{"log_partition": number, "behind": left} for number, left in behind.items()]
        )
        yield records_total(cluster, rows)
        yield records_unaccounted_total(cluster, rows)
        is_healthy, _ = self.monitor.health()
        yield _HEALTHY.of_cluster(cluster, is_healthy)
        is_ready, _ = self.monitor.readiness()
        yield _READY.of_cluster(cluster, is_ready)
