"""Collects the metrics of a tables folder as text, as of one micro-batch.

Clients choose labels. A series therefore counts once, and once more for each 512 bytes of its
labels: the limit of series also bounds the bytes of an answer. It applies level by level: alerts,
groups, topics, partitions. Each level uses the rest of the levels before it.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.sql_literal import sql_literal
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import tables_known_until
from streaming.lag.open_transactions import with_owners
from streaming.lag.paces import KnownPaces
from streaming.lag.partition_statuses import ranks_of
from streaming.metrics.families import LEVELS, METRICS, SELECTS, Metric, metrics_of
from streaming.tables.reader import TableReader
from streaming.tables.schemas import PENDING_OFFSETS
from streaming.views.query import Ask, asking
from streaming.views.snapshot import Snapshot

logger = logging.getLogger(__name__)

_CLUSTER: Final = "cluster_name"
LABEL_BYTES: Final = 512
"""A series counts twice from this number of bytes in label values; usual names are shorter."""
_FINER: Final = {
    "partition": (),
    "topic": ("partitions", "logs"),
    "group": ("topics", "partitions", "logs"),
}
"""The levels that each value of `by` leaves out."""


class Family(NamedTuple):
    """A metric and the lines of its series, which both formats share."""

    metric: Metric
    lines: str


@dataclass(slots=True, eq=False)
class TablesMetrics:
    """Reads a tables folder at each collection; there is one collection at a time.

    Attributes:
        tables: the tables folder.
        cluster_name: the label `cluster_name`; by default the cluster id.
        names: the naming scheme of the metrics, one of `NAMES`.
        by: the finest level of series: "partition", "topic" or "group".
        max_series: the limit of series with labels that clients choose. Series of partitions are
            left out first, and those of healthy groups before others. The metric
            `coordinator_state_series_left_out` has their number.
    """

    tables: str
    cluster_name: str | None = None
    names: str = "lag-exporter"
    by: str = "partition"
    max_series: int = 100_000
    _leaves_out: bool = False
    _paces: KnownPaces = field(default_factory=KnownPaces)

    def collect(self) -> list[Family]:
        """All metrics of the newest tables; only `coordinator_state_up` (0) if unreadable."""
        try:
            return self._collect()
        except Exception as error:
            logger.warning(
                "%(tables)s cannot be read: %(error)s", {"tables": self.tables, "error": error}
            )
            logger.debug("traceback of the warning above", exc_info=True)
            return [Family(METRICS["coordinator_state_up"], "coordinator_state_up 0\n")]

    def _collect(self) -> list[Family]:
        began_s = time.monotonic()
        reader = TableReader(self.tables)
        # Ages and rates of kept rows are up to a minute old: a series would have steps.
        evaluation = Evaluation.of(reader, known=self._paces)
        tables = _own_tables(reader, evaluation.statuses)
        left, left_out = self.max_series, dict[str, int]()
        with asking(Snapshot(reader, evaluation=evaluation).queried) as ask:
            texts = Texts(ask, self.names, self.cluster_name or reader.cluster_id)
            levels = [name for name in LEVELS if name not in _FINER[self.by]]
            for name in levels:
                rows = ask(texts.select(name), **tables)
                tables[_fitting_rows(name)], cost, left_out[name] = _fitting(ask, rows, left)
                left -= cost
            self._log_left_out(left_out)
            seconds, of_all_levels = time.monotonic() - began_s, sum(left_out.values())
            scrape = {"seconds": seconds, "left_out": of_all_levels}
            tables["scrape"] = pa.Table.from_pylist([scrape])
            others = [name for name in SELECTS if name not in LEVELS]
            return texts.families([*others, *levels], tables)

    def _log_left_out(self, left_out: Mapping[str, int]) -> None:
        """Log once when series are left out, and once when no longer."""
        count = sum(left_out.values())
        if bool(count) == self._leaves_out:
            return
        self._leaves_out = bool(count)
        if not count:
            logger.info("series are no longer left out")
            return
        logger.warning(
            "%(left_out)s series are left out because there are more than --max-series "
            "%(max_series)s: %(levels)s",
            {
                "left_out": f"{count:,}",
                "max_series": self.max_series,
                "levels": ", ".join(
                    f"{count:,} of {LEVELS[name]}" for name, count in left_out.items() if count
                ),
            },
        )


def _own_tables(reader: TableReader, statuses: pa.Table) -> dict[str, pa.Table]:
    """The tables in `SELECTS` that no snapshot has."""
    written_at = Freshness.of(reader).written_at
    times_s = {
        "collected_at": reader.moment.timestamp(),
        "written_at": None if written_at is None else written_at.timestamp(),
    }
    of_pending = ["log_partition", "group_id", "producer_id", "commit_timestamp"]
    pending = reader.read(PENDING_OFFSETS.name, of_pending)
    return {
        "collection": pa.Table.from_pylist([times_s]),
        "known_until": tables_known_until(reader),
        "ranks": pa.table({"owner": statuses["group_id"], "rank": ranks_of(statuses["status"])}),
        "pending_owners": with_owners(reader, pending),
    }


@dataclass(frozen=True, slots=True)
class Texts:
    """Selects the rows of metrics, and makes lines of them."""

    ask: Ask
    names: str
    cluster_name: str

    def select(self, name: str) -> str:
        """Rows with their escaped labels, and a column with the value of each metric.

        Those of a level also have the number of their series, and the cost of all of them.
        """
        metrics = metrics_of(name, self.names)
        labels = sorted({label for metric in metrics for label in metric.labels} - {_CLUSTER})
        columns = [f"{_escaped(_quoted(label))} AS {_quoted(label)}" for label in labels]
        columns += [f"{_escaped(sql_literal(self.cluster_name))} AS {_CLUSTER}"]
        columns += [f"{metric.value} AS {metric.name}" for metric in metrics]
        if name in LEVELS:
            series = " + ".join(f"({metric.name} IS NOT NULL)::INT" for metric in metrics)
            size_bytes = f"strlen(concat({', '.join(map(_quoted, labels))}))"
            columns += ["owner", "rank", f"{series} AS series"]
            columns += [f"series * (1 + {size_bytes} // {LABEL_BYTES}) AS cost"]
        order = "ORDER BY ALL" if name in LEVELS else ""
        return "\n".join((f"SELECT {', '.join(columns)}", f"FROM ({SELECTS[name]})", order))

    def families(self, names: Iterable[str], tables: Mapping[str, pa.Table]) -> list[Family]:
        """The metrics of rows; `tables` has those rows of levels that fit."""
        metrics = {name: metrics_of(name, self.names) for name in names}
        selects = [self._lines(name, metrics[name]) for name in metrics if metrics[name]]
        answer = self.ask("\nUNION ALL\n".join(selects), **tables)
        lines: dict[str, list[str]] = defaultdict(list)
        for name, line in zip(*(column.to_pylist() for column in answer.columns), strict=True):
            lines[name].append(line or "")
        return [
            Family(metric, "".join(lines[metric.name]))
            for of_rows in metrics.values()
            for metric in of_rows
        ]

    def _lines(self, name: str, metrics: Sequence[Metric]) -> str:
        """A row for each metric of each row: its name and its line, null without a value."""
        names = ", ".join(f"'{metric.name}'" for metric in metrics)
        source = _fitting_rows(name) if name in LEVELS else f"({self.select(name)})"
        lines = ", ".join(map(_line, metrics))
        return "\n".join((f"SELECT unnest([{names}]), unnest([{lines}])", f"FROM {source}"))


def _line(metric: Metric) -> str:
    labels = ", ',', ".join(f"""'{label}="', "{label}", '"'""" for label in metric.labels)
    labels = f"'{{', {labels}, '}}', " if labels else ""
    line = f"concat('{metric.name}', {labels}' ', {metric.name}, chr(10))"
    return f"CASE WHEN {metric.name} IS NOT NULL THEN {line} END"


def _fitting_rows(name: str) -> str:
    """The name of the rows of a level that fit; tables of a snapshot have the others."""
    return f"fitting_{name}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _escaped(value: str) -> str:
    text = f"coalesce({value}::VARCHAR, '')"
    return rf"""replace(replace(replace({text}, '\', '\\'), chr(10), '\n'), '"', '\"')"""


def _fitting(ask: Ask, rows: pa.Table, left: int) -> tuple[pa.Table, int, int]:
    """The rows of the owners that fit, their cost, and the number of series that are left out.

    Owners are taken in this order: without long labels, by highest rank, by name. If an owner does
    not fit, smaller ones after it may still fit.
    """
    cost_of_all = pc.sum(rows["cost"]).as_py() or 0
    if cost_of_all <= left:
        return rows, cost_of_all, 0
    owners = ask(
        """
        SELECT owner, sum(series)::BIGINT AS series, sum(cost)::BIGINT AS cost FROM rows
        GROUP BY owner ORDER BY sum(cost) > sum(series), max(rank) DESC, owner
        """,
        rows=rows,
    )
    fitting, fitting_cost, left_out = [], 0, 0
    for owner, series, cost in zip(*(column.to_pylist() for column in owners.columns), strict=True):
        if fitting_cost + cost <= left:
            fitting.append(owner)
            fitting_cost += cost
        else:
            left_out += series
    is_fitting = pc.is_in(rows["owner"], pa.array(fitting, rows["owner"].type))
    return rows.filter(is_fitting), fitting_cost, left_out


def exposition(families: list[Family], *, is_openmetrics: bool) -> bytes:
    """The text of all metrics in the format of OpenMetrics or Prometheus."""
    parts = []
    for metric, lines in families:
        name = metric.name.removesuffix("_total") if is_openmetrics else metric.name
        parts.append(f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n{lines}")
    return "".join([*parts, "# EOF\n" if is_openmetrics else ""]).encode()
