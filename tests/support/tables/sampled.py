"""The sampling of logs for a tables folder, and its metrics."""

from __future__ import annotations

from streaming.run.sampling import LogOffsetsSampling
from streaming.tables.opening import open_for_writing


def sampling_of(tables: str) -> LogOffsetsSampling:
    return LogOffsetsSampling(open_for_writing(tables, "test"), "localhost:1", {})


def metric(sampling: LogOffsetsSampling, name: str, **labels: str) -> float | None:
    registry = sampling.metrics.registry
    return registry.get_sample_value(f"coordinator_state_run_{name}", labels)
