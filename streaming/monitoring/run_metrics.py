"""What is counted of a run, for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryProgress

_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class RunMetrics:
    """Counters of one process; what the tables count is read from them instead."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.micro_batch_seconds = Histogram(
            "coordinator_state_run_micro_batch_seconds",
            "How long the phases of micro-batches took, by Spark's names; triggerExecution is all",
            ["phase"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.input_rows = Counter(
            "coordinator_state_run_input_rows",
            "Rows that Spark handed on, each of which packs many records",
            registry=registry,
        )
        self.processed_rows_per_second = Gauge(
            "coordinator_state_run_processed_rows_per_second",
            "Such rows a second of the last micro-batch",
            registry=registry,
        )
        self.restarts = Counter(
            "coordinator_state_run_restarts",
            "How often the query was started again after it failed",
            registry=registry,
        )
        self.last_error = Gauge(
            "coordinator_state_run_last_error_timestamp_seconds",
            "When the query failed last, by the class of the error",
            ["error"],
            registry=registry,
        )
        self.upkeep = Counter(
            "coordinator_state_run_upkeep",
            "Runs of the upkeep",
            ["outcome"],
            registry=registry,
        )
        for outcome in ("done", "failed"):
            self.upkeep.labels(outcome)

    def micro_batch(self, progress: StreamingQueryProgress) -> None:
        """Count a finished micro-batch."""
        for phase, duration_ms in progress.durationMs.items():
            self.micro_batch_seconds.labels(phase).observe(duration_ms / 1000)
        self.input_rows.inc(progress.numInputRows)
        self.processed_rows_per_second.set(progress.processedRowsPerSecond)

    def failed(self, error: Exception) -> None:
        """Note of what the query failed."""
        self.last_error.clear()
        self.last_error.labels(type(error).__name__).set(time.time())

    def tidied_up(self, is_done: bool) -> None:
        """Count a run of the upkeep."""
        self.upkeep.labels("done" if is_done else "failed").inc()
