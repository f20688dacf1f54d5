"""docs/metrics-reference.md: every metric with its type, labels and help text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from prometheus_client.metrics import MetricWrapperBase

from docsite.markdown import Parts, code, prose, table
from streaming.metrics.families import LEVELS, METRICS, NAMES, Metric
from streaming.run.monitoring.endpoints import RUN_METRICS
from streaming.run.monitoring.run_metrics import RunMetrics

_COLUMNS: Final = ("metric", "type", "labels", "meaning")
Row = tuple[str, str, str, str]


def _table(rows: Iterable[Row]) -> str:
    return table(_COLUMNS, rows)


def _declared(metric: Metric) -> Row:
    return _row(metric.name, metric.kind, metric.labels, metric.help)


def _of_prefix(prefix: str) -> list[Metric]:
    return [metric for metric in METRICS.values() if metric.name.startswith(prefix)]


def _table_of_prefix(prefix: str) -> str:
    return _table(map(_declared, _of_prefix(prefix)))


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


_OWN: Final = _of_prefix("coordinator_state_")
METRICS_REFERENCE: Final[Parts] = {
    **{name: partial(_table_of_prefix, prefix) for name, prefix in NAMES.items()},
    "groups": lambda: _table(_declared(metric) for metric in _OWN if metric.rows in LEVELS),
    "tables": lambda: _table(_declared(metric) for metric in _OWN if metric.rows not in LEVELS),
    "run": lambda: _table(
        [
            *(_process_metric(metric) for metric in _own_metrics()),
            *map(_declared, RUN_METRICS.values()),
        ]
    ),
}
