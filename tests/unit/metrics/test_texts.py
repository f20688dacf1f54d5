"""Series as text: the same as prometheus_client makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from streaming.metrics.collection import Family, Texts, exposition
from streaming.metrics.families import METRICS
from streaming.views.query import asking

TRANSACTIONS = METRICS["coordinator_state_transactions"]
SECONDS = METRICS["coordinator_state_scrape_seconds"]
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n{},= '), max_size=9
)


def families_of(name: str, table: pa.Table, cluster_name: str = "c") -> list[Family]:
    """The metrics of rows that a table has, whether it is one of a snapshot or not."""
    with asking({"transactions": table}.__getitem__) as ask:
        return Texts(ask, "lag-exporter", cluster_name).families([name], {"scrape": table})


@given(states=st.lists(TEXTS), cluster=TEXTS, is_openmetrics=st.booleans())
def test_the_lines_say_the_same_as_those_of_prometheus_client(
    states: list[str], cluster: str, is_openmetrics: bool
) -> None:
    [family] = families_of(
        "transactions", pa.table({"state": pa.array(states, pa.string())}), cluster
    )
    ours = exposition([family], is_openmetrics=is_openmetrics)
    samples = sorted(Counter(states).items())
    theirs = of_prometheus_client(cluster, samples, is_openmetrics=is_openmetrics)
    assert parsed(ours, is_openmetrics) == parsed(theirs, is_openmetrics)
    assert ours.count(b"\n") == theirs.count(b"\n")


def of_prometheus_client(
    cluster: str, samples: Iterable[tuple[str, int]], *, is_openmetrics: bool
) -> bytes:
    family = GaugeMetricFamily(TRANSACTIONS.name, TRANSACTIONS.help, labels=TRANSACTIONS.labels)
    for state, count in samples:
        family.add_metric([cluster, state], count)

    class One(Collector):
        def collect(self) -> Iterable[Metric]:
            return [family]

    return (generate_openmetrics if is_openmetrics else generate_latest)(One())


def test_an_unknown_label_is_empty() -> None:
    [family] = families_of("transactions", pa.table({"state": pa.array([None], pa.string())}))
    assert family.lines == 'coordinator_state_transactions{cluster_name="c",state=""} 1\n'


@pytest.mark.parametrize("value", [0.1, 1e300, 5e-324, 2.0**53, float("inf"), float("-inf")])
def test_any_number_can_be_read_back(value: float) -> None:
    text = exposition(scrape_of([value]), is_openmetrics=False)
    values = {family.name: family.samples[0].value for family in parsed(text, False)}
    assert values[SECONDS.name] == value


def test_an_unknown_value_has_no_series() -> None:
    lines = {family.metric.name: family.lines for family in scrape_of([None])}
    assert lines[SECONDS.name] == ""
    assert lines["coordinator_state_series_left_out"].endswith(" 0\n")


def scrape_of(seconds: Sequence[float | None]) -> list[Family]:
    values = pa.array(seconds, pa.float64())
    return families_of("scrape", pa.table({"seconds": values, "left_out": [0] * len(values)}))


def test_no_help_text_needs_an_escape() -> None:
    assert not [metric for metric in METRICS.values() if set(metric.help) & set('\\"\n')]


def parsed(text: bytes, is_openmetrics: bool) -> list[Metric]:
    """The families of a text, with their series in order."""
    parse: Callable[[str], Iterable[Metric]] = text_string_to_metric_families
    families = list((openmetrics_families if is_openmetrics else parse)(text.decode()))
    for family in families:
        family.samples.sort(key=lambda sample: sorted(sample.labels.items()))
    return families
