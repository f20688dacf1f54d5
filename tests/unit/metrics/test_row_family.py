"""Series of rows as text: the same as prometheus_client makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.families import Gauge
from streaming.metrics.row_family import RowFamily, formatted

GAUGE = Gauge("lag", 'A "help"\nof \\two lines', {"group": "group_id", "no": "partition"}, "lag")
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n{},= '), max_size=9
)


Row = tuple[str | None, int | None, float | None]


def _table(rows: Sequence[Row], kind: pa.DataType) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    types = (pa.string(), pa.int32(), kind)
    arrays = [
        pa.array(column, column_type) for column, column_type in zip(columns, types, strict=True)
    ]
    return pa.table(arrays, names=["group_id", "partition", "lag"])


@given(
    rows=st.lists(
        st.tuples(
            st.none() | TEXTS, st.none() | st.integers(0, 99), st.none() | st.integers(-9, 2**53)
        ),
        unique_by=lambda row: (row[0] or "", row[1]),
    ),
    cluster=TEXTS,
    divisor=st.sampled_from([1, 1000]),
    is_openmetrics=st.booleans(),
)
def test_the_lines_say_the_same_as_those_of_prometheus_client(
    rows: list[tuple[str | None, int | None, int | None]],
    cluster: str,
    divisor: int,
    is_openmetrics: bool,
) -> None:
    gauge = Gauge(GAUGE.name, GAUGE.help, GAUGE.labels, GAUGE.column, divisor)
    named = [("cluster_name", cluster)]
    table = _table(rows, pa.int64())
    ours = formatted([RowFamily(gauge, named, table)], is_openmetrics=is_openmetrics)
    theirs = formatted([gauge.of(named, table.to_pylist())], is_openmetrics=is_openmetrics)
    assert _parsed(ours, is_openmetrics) == _parsed(theirs, is_openmetrics)
    assert ours.count(b"\n") == theirs.count(b"\n")


def test_a_registry_gets_the_same_samples() -> None:
    table = _table([("g", 1, 5), ("h", None, None), (None, None, 7)], pa.int64())
    family = RowFamily(GAUGE, [("cluster_name", "c")], table)
    assert family == GAUGE.of([("cluster_name", "c")], table.to_pylist())


@pytest.mark.parametrize("value", [0.1, 1e300, 5e-324, float("inf"), float("-inf")])
def test_any_number_can_be_read_back(value: float) -> None:
    table = _table([("g", 1, value)], pa.float64())
    [family] = _parsed(formatted([RowFamily(GAUGE, [], table)], is_openmetrics=False), False)
    assert [sample.value for sample in family.samples] == [value]


def test_a_gauge_without_a_column_is_1_for_each_row() -> None:
    table = _table([("g", 1, None), ("h", 2, 5)], pa.int64())
    family = RowFamily(Gauge("info", "Info", {"group": "group_id"}), [], table)
    assert family.lines() == b'info{group="g"} 1\ninfo{group="h"} 1\n'


def _parsed(text: bytes, is_openmetrics: bool) -> list[Metric]:
    parse = openmetrics_families if is_openmetrics else text_string_to_metric_families
    return list(parse(text.decode()))
