"""Prometheus counters and gauges of a run."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streaming.clock import utc_now

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryProgress

_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class RunMetrics:
    """Metrics of this process; counts that are in the tables come from there instead."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.micro_batch_seconds = Histogram(
            "coordinator_state_run_micro_batch_seconds",
            "Duration of micro-batches by phase, with Spark's names; triggerExecution is the whole",
            ["phase"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.input_rows = Counter(
            "coordinator_state_run_input_rows",
            "Rows that micro-batches received from the source; one row packs many records",
            registry=registry,
        )
        self.processed_rows_per_second = Gauge(
            "coordinator_state_run_processed_rows_per_second",
            "Input rows per second of the last micro-batch",
            registry=registry,
        )
        self.restarts = Counter(
            "coordinator_state_run_restarts",
            "Restarts of the query after a failure",
            registry=registry,
        )
        self.last_error = Gauge(
            "coordinator_state_run_last_error_timestamp_seconds",
            "Time of the last failure of the query, by the class of the error",
            ["error"],
            registry=registry,
        )
        self.maintenance = Counter(
            "coordinator_state_run_upkeep",
            "Rounds of maintenance of the tables, by outcome: done or failed",
            ["outcome"],
            registry=registry,
        )
        self.sampling = Counter(
            "coordinator_state_run_sampling",
            "Rounds of offset samples, by outcome: done or failed",
            ["outcome"],
            registry=registry,
        )
        self.sampling_seconds = Gauge(
            "coordinator_state_run_sampling_seconds",
            "Duration of the last round of offset samples, with its write",
            registry=registry,
        )
        self.evaluation = Counter(
            "coordinator_state_run_evaluation",
            "Evaluations of lag and status, by outcome: done or failed",
            ["outcome"],
            registry=registry,
        )
        self.evaluation_seconds = Gauge(
            "coordinator_state_run_evaluation_seconds",
            "Duration of the last evaluation of lag and status, with its writes",
            registry=registry,
        )
        self.evaluation_interval_seconds = Gauge(
            "coordinator_state_run_evaluation_interval_seconds",
            "Shortest time from the start of the last evaluation to the next one",
            registry=registry,
        )
        for outcome in ("done", "failed"):
            self.maintenance.labels(outcome)
            self.sampling.labels(outcome)
            self.evaluation.labels(outcome)
        self.samples_dropped = Counter(
            "coordinator_state_run_samples_dropped",
            "Offset samples dropped because log_offsets could not be written",
            registry=registry,
        )
        self.sampled_partitions = Gauge(
            "coordinator_state_run_sampled_partitions",
            "Partitions of the newest sample, by the state of their log",
            ["state"],
            registry=registry,
        )
        self.unreadable_log_ends = Gauge(
            "coordinator_state_run_unreadable_log_ends",
            "Sampled logs whose last records cannot be decoded",
            registry=registry,
        )

    def micro_batch(self, progress: StreamingQueryProgress) -> None:
        """Count a finished micro-batch."""
        for phase, duration_ms in progress.durationMs.items():
            self.micro_batch_seconds.labels(phase).observe(duration_ms / 1000)
        self.input_rows.inc(progress.numInputRows)
        self.processed_rows_per_second.set(progress.processedRowsPerSecond)

    def failed(self, error: Exception) -> None:
        """Record the time and the class of the query's last error."""
        self.last_error.clear()
        self.last_error.labels(type(error).__name__).set(utc_now().timestamp())

    def maintained(self, is_done: bool) -> None:
        """Count a round of maintenance."""
        self.maintenance.labels("done" if is_done else "failed").inc()

    def sampled(self, is_done: bool, seconds: float) -> None:
        """Count a sample of the logs, and record its duration."""
        self.sampling.labels("done" if is_done else "failed").inc()
        self.sampling_seconds.set(seconds)

    def evaluated(self, seconds: float, interval_s: float) -> None:
        """Record the duration of an evaluation, and how long the next one waits."""
        self.evaluation_seconds.set(seconds)
        self.evaluation_interval_seconds.set(interval_s)

    def seen_logs(self, states: Iterable[str], unreadable_ends: int) -> None:
        """Record the states of the logs in the newest sample."""
        self.sampled_partitions.clear()
        for state, partitions in Tally(states).items():
            self.sampled_partitions.labels(state).set(partitions)
        self.unreadable_log_ends.set(unreadable_ends)
