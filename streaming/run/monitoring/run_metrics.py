"""Prometheus counters and gauges of a run."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from streaming.tables.clock import utc_now

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQueryProgress

_PREFIX: Final = "coordinator_state_run_"
_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class RunMetrics:
    """Metrics of this process; counts that are in the tables come from there instead."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.micro_batch_seconds = Histogram(
            f"{_PREFIX}micro_batch_seconds",
            "Duration of micro-batches by phase, with Spark's names; triggerExecution is the whole",
            ["phase"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.input_rows = self._counter(
            "input_rows",
            "Rows that micro-batches received from the source; one row packs many records",
        )
        self.processed_rows_per_second = self._gauge(
            "processed_rows_per_second", "Input rows per second of the last micro-batch"
        )
        self.restarts = self._counter("restarts", "Restarts of the query after a failure")
        self.last_error = self._gauge(
            "last_error_timestamp_seconds",
            "Time of the last failure of the query, by the class of the error",
            "error",
        )
        self.maintenance = self._outcomes(
            "upkeep", "Rounds of maintenance of the tables, by outcome: done or failed"
        )
        self.sampling = self._outcomes(
            "sampling", "Rounds of offset samples, by outcome: done or failed"
        )
        self.sampling_seconds = self._gauge(
            "sampling_seconds", "Duration of the last round of offset samples, with its write"
        )
        self.evaluation = self._outcomes(
            "evaluation", "Evaluations of lag and status, by outcome: done or failed"
        )
        self.evaluation_seconds = self._gauge(
            "evaluation_seconds",
            "Duration of the last evaluation of lag and status, with its writes",
        )
        self.evaluation_interval_seconds = self._gauge(
            "evaluation_interval_seconds",
            "Shortest time from the start of the last evaluation to the next one",
        )
        self.samples_dropped = self._counter(
            "samples_dropped", "Offset samples dropped because log_offsets could not be written"
        )
        self.sampled_partitions = self._gauge(
            "sampled_partitions",
            "Partitions of the newest sample, by the state of their log",
            "state",
        )
        self.unreadable_log_ends = self._gauge(
            "unreadable_log_ends", "Sampled logs whose last records cannot be decoded"
        )

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, description, labels, registry=self.registry)

    def _gauge(self, name: str, description: str, *labels: str) -> Gauge:
        return Gauge(_PREFIX + name, description, labels, registry=self.registry)

    def _outcomes(self, name: str, description: str) -> Counter:
        """A counter that has both outcomes from the start."""
        counter = self._counter(name, description, "outcome")
        for outcome in ("done", "failed"):
            counter.labels(outcome)
        return counter

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
