"""A gauge with a series for each row of a table, formatted as text by Arrow.

prometheus_client formats one sample after the other in Python: a second for 100,000 series. Its
formats of Prometheus and OpenMetrics have the same lines for gauges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from streaming.metrics.families import Gauge

_TEXT = pa.large_string()
_ESCAPES = (("\\", r"\\"), ("\n", r"\n"), ('"', r"\""))


class RowFamily(Metric):
    """The family of a gauge over rows; rows whose value is unknown have no series."""

    def __init__(self, gauge: Gauge, cluster: Sequence[tuple[str, str]], rows: pa.Table) -> None:
        super().__init__(gauge.name, gauge.help, "gauge")
        del self.samples  # made from the rows when a registry asks for them
        if gauge.column is not None:
            rows = rows.filter(pc.is_valid(rows[gauge.column]))
        self._labels: dict[str, Any] = {
            **dict(cluster),
            **{name: _texts(rows[column]) for name, column in gauge.labels.items()},
        }
        self._values = _values(gauge, rows)

    @cached_property
    def samples(self) -> list[Sample]:  # type: ignore[override]
        """The samples, for prometheus_client."""
        columns = [
            [label] * len(self._values) if isinstance(label, str) else label.to_pylist()
            for label in self._labels.values()
        ]
        return [
            Sample(self.name, dict(zip(self._labels, labels, strict=True)), value)
            for *labels, value in zip(*columns, self._values.to_pylist(), strict=True)
        ]

    def lines(self) -> bytes:
        """The lines of the series, without those about the family."""
        parts: list[Any] = [self.name]
        for number, (name, value) in enumerate(sorted(self._labels.items())):
            parts += [f'{"," if number else "{"}{name}="', _escaped(value), '"']
        parts += ["} " if self._labels else " ", _numbers(self._values), "\n"]
        parts = [pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in parts]
        joined = pc.binary_join_element_wise(*parts, pa.scalar("", _TEXT))
        return b"".join(_bytes_of(chunk) for chunk in joined.chunks)


def _values(gauge: Gauge, rows: pa.Table) -> pa.ChunkedArray:
    if gauge.column is None:
        return pa.chunked_array([pa.repeat(pa.scalar(1), rows.num_rows)])
    values = rows[gauge.column]
    if gauge.divisor == 1:
        return values
    return pc.divide(pc.cast(values, pa.float64(), safe=False), float(gauge.divisor))


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.cast(column, _TEXT), "")


def _numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    # Arrow spells 1 as "1", but true as "true".
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int64())
    return pc.cast(values, _TEXT)


def _escaped(value: Any) -> Any:
    """A label value, or a column of them, as within quotes."""
    if isinstance(value, str):
        value = pa.scalar(value, _TEXT)
    for character, escape in _ESCAPES:
        matches = pc.match_substring(value, character)
        if pc.any(matches).as_py() if isinstance(value, pa.ChunkedArray) else matches.as_py():
            value = pc.replace_substring(value, character, escape)
    return value


def _bytes_of(texts: pa.LargeStringArray) -> bytes:
    """All texts of an array, one right after the other."""
    if not len(texts):
        return b""
    _, offsets, data = texts.buffers()
    at = memoryview(offsets).cast("q")
    first, last = at[texts.offset], at[texts.offset + len(texts)]
    return memoryview(data)[first:last].tobytes()


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
