"""The text of a scrape, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from streaming.metrics.row_family import RowFamily

_EOF: Final = b"# EOF\n"
"""The last line of OpenMetrics."""


def formatted(metrics: Iterable[Metric], *, is_openmetrics: bool) -> bytes:
    """The text of all metrics."""
    generate = generate_openmetrics if is_openmetrics else generate_latest
    parts = []
    for metric in metrics:
        is_of_rows = isinstance(metric, RowFamily)
        shown = Metric(metric.name, metric.documentation, metric.type) if is_of_rows else metric
        parts.append(generate(_One(shown)).removesuffix(_EOF))
        if isinstance(metric, RowFamily):
            parts.append(metric.lines())
    return b"".join([*parts, _EOF if is_openmetrics else b""])


@dataclass(frozen=True, slots=True, eq=False)
class _One(Collector):
    """A registry of one metric."""

    metric: Metric

    def collect(self) -> list[Metric]:
        return [self.metric]
