"""docs/metrics-reference.md: every metric with its type, labels and help text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.metrics import MetricWrapperBase

from docsite.markdown import Parts, code, prose, table
from streaming.metrics.cluster_families import COUNTERS, POLL_TIME, TABLE_GAUGES, UP, Counter
from streaming.metrics.families import (
    KMINION,
    LAG_EXPORTER,
    OWN_ALERTS,
    OWN_GROUPS,
    OWN_LOG_PARTITIONS,
    Gauge,
    Names,
)
from streaming.run.monitoring import endpoints
from streaming.run.monitoring.run_metrics import RunMetrics

_CLUSTER: Final = "cluster_name"
_COLUMNS: Final = ("metric", "type", "labels", "meaning")
Row = tuple[str, str, str, str]


def _table(rows: Iterable[Row]) -> str:
    return table(_COLUMNS, rows)


def _gauges(names: Names) -> list[Row]:
    gauges = (*names.partitions, *names.topics, *names.groups, *names.logs)
    return [_gauge(gauge, has_cluster=names.has_cluster) for gauge in gauges]


def _gauge(gauge: Gauge, *, has_cluster: bool = True) -> Row:
    return _row(gauge.name, "gauge", [_CLUSTER] * has_cluster + [*gauge.labels], gauge.help)


def _counter(counter: Counter) -> Row:
    return _row(f"{counter.name}_total", "counter", [_CLUSTER, *counter.labels], counter.help)


def _own_metrics() -> list[MetricWrapperBase]:
    attributes = vars(RunMetrics()).values()
    return [attribute for attribute in attributes if isinstance(attribute, MetricWrapperBase)]


def _process_metric(metric: MetricWrapperBase) -> Row:
    (family,) = metric.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    # prometheus_client tells the labels of a family without samples nowhere else.
    return _row(name, family.type, metric._labelnames, family.documentation)


def _row(name: str, kind: str, labels: Iterable[str], text: str) -> Row:
    return code(name), kind, ", ".join(map(code, labels)), prose(text)


METRICS_REFERENCE: Final[Parts] = {
    "lag-exporter": lambda: _table([*_gauges(LAG_EXPORTER), _gauge(POLL_TIME)]),
    "kminion": lambda: _table(_gauges(KMINION)),
    "groups": lambda: _table(_gauge(gauge) for gauge in (*OWN_GROUPS, *OWN_ALERTS)),
    "tables": lambda: _table(
        [
            *(_gauge(gauge, has_cluster=gauge is not UP) for gauge in TABLE_GAUGES),
            *map(_gauge, OWN_LOG_PARTITIONS),
            *map(_counter, COUNTERS),
        ]
    ),
    "run": lambda: _table(
        [
            *(_process_metric(metric) for metric in _own_metrics()),
            *map(_gauge, endpoints.GAUGES),
            *map(_counter, endpoints.COUNTERS),
        ]
    ),
}
