"""Collects the metrics of a tables folder, as of one micro-batch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from coordinator_state.apply.columns import with_columns
from coordinator_state.insight.group_status import Status
from streaming.alerts.alert import AlertState
from streaming.alerts.alerts_table import read_alerts
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import lag_totals, tables_known_until
from streaming.lag.open_transactions import with_owners
from streaming.lag.paces import KnownPaces
from streaming.lag.topic_loads import topic_loads
from streaming.metrics.cluster_families import (
    ALERTS_UNTOLD,
    COLLECTED_AT,
    OLDEST_PENDING,
    OTHER_TOPIC_BEHIND,
    OUTCOMES,
    PENDING,
    PENDING_WITHOUT_MARKER,
    POLL_TIME,
    SCRAPE_DURATION,
    SERIES_LEFT_OUT,
    TABLES_BEHIND,
    TABLES_WRITTEN_AT,
    TRANSACTIONS_BY_STATE,
    UP,
    Cluster,
    records_total,
    records_unaccounted_total,
    topic_records_total,
)
from streaming.metrics.families import (
    LAG_EXPORTER,
    OWN_ALERTS,
    OWN_GROUPS,
    OWN_LOG_PARTITIONS,
    Gauge,
    Names,
)
from streaming.metrics.recent_events import COUNTS, with_recent_events
from streaming.metrics.row_family import RowFamily
from streaming.metrics.series_limit import SeriesLimit
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, PENDING_OFFSETS, TRANSACTIONS

logger = logging.getLogger(__name__)

DEFAULT_MAX_SERIES = 100_000
_ALERTS = pa.schema(
    [
        *((name, pa.string()) for name in ("rule", "group_id", "topic")),
        ("partition", pa.int32()),
        *((name, pa.string()) for name in ("severity", "state", "muted", "alert")),
    ]
)


@dataclass(slots=True, eq=False)
class TablesCollector(Collector):
    """Reads a tables folder at each collection, one collection at a time.

    Attributes:
        tables: the tables folder.
        cluster_name: the label `cluster_name`; by default the cluster id.
        names: the naming scheme of the metrics.
        by: the finest level of series: "partition", "topic" or "group".
        max_series: the limit of series with labels that clients choose, see `SeriesLimit`. Series
            of partitions are left out first, and those of healthy groups before others. The metric
            `coordinator_state_series_left_out` has their number.
    """

    tables: str
    cluster_name: str | None = None
    names: Names = LAG_EXPORTER
    by: str = "partition"
    max_series: int = DEFAULT_MAX_SERIES
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _leaves_out: bool = False
    _paces: KnownPaces = field(default_factory=KnownPaces)

    def describe(self) -> list[Metric]:
        """No metrics: otherwise a registry would collect all of them to learn their names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics of the newest tables; only `coordinator_state_up` (0) if unreadable."""
        metrics: list[Metric] = []
        with self._lock:
            try:
                metrics = list(self._collect())
            except Exception as error:
                logger.warning(
                    "%(tables)s cannot be read: %(error)s", {"tables": self.tables, "error": error}
                )
                logger.debug("traceback of the warning above", exc_info=True)
        yield UP.of_cluster((), bool(metrics))
        yield from metrics

    def _collect(self) -> Iterator[Metric]:
        started = time.monotonic()
        reader = TableReader(self.tables)
        cluster = [("cluster_name", self.cluster_name or reader.cluster_id)]
        yield COLLECTED_AT.of_cluster(cluster, reader.moment.timestamp())
        yield from _of_the_tables(reader, cluster)
        yield from _of_other_topics(reader, cluster)
        limit = SeriesLimit(self.max_series)
        yield from _of_alerts(reader, cluster, limit)
        yield from self._of_groups(reader, cluster, limit)
        self._log_left_out(limit)
        yield SERIES_LEFT_OUT.of_cluster(cluster, sum(limit.left_out.values()))
        seconds = time.monotonic() - started
        yield SCRAPE_DURATION.of_cluster(cluster, seconds)
        if self.names is LAG_EXPORTER:
            yield POLL_TIME.of_cluster(cluster, seconds * 1000)

    def _of_groups(
        self, reader: TableReader, cluster: Cluster, limit: SeriesLimit
    ) -> Iterator[Metric]:
        """The metrics of groups, then of their topics, their partitions, and the logs of these."""
        named = cluster if self.names.has_cluster else []
        # Ages and rates of kept rows are up to a minute old: a series would have steps.
        evaluation = Evaluation.of(reader, known=self._paces)
        lags, groups = evaluation.lags, _groups(evaluation)
        if evaluation.stale is not None:
            # The lag is old by an unknown time: an autoscaler or a rule must not act on it.
            lags, groups = lags.slice(0, 0), _with_status_alone(groups)
        else:
            groups = with_recent_events(reader, groups)
        of_statuses = {status.value: status.rank for status in Status}
        of_groups = zip(groups["group_id"].to_pylist(), groups["status"].to_pylist(), strict=True)
        ranks = {group_id: of_statuses[status] for group_id, status in of_groups}
        gauges = (*self.names.groups, *OWN_GROUPS)
        groups = limit.fitting("groups", gauges, groups, "group_id", ranks)
        yield from _families(self.names.groups, named, groups)
        yield from _families(OWN_GROUPS, cluster, groups)
        if self.by != "group":
            topics = lag_totals(lags, "topic").join(
                _offset_sums(lags), ["group_id", "topic"], join_type="left outer"
            )
            gauges = self.names.topics
            topics = limit.fitting("topics of groups", gauges, topics, "group_id", ranks)
            yield from _families(gauges, named, topics)
        if self.by == "partition":
            gauges, logs = self.names.partitions, _logs(lags)
            lags = limit.fitting("partitions of groups", gauges, lags, "group_id", ranks)
            yield from _families(gauges, named, lags)
            gauges = self.names.logs
            logs = limit.fitting("partitions of topics", gauges, logs, "topic", {})
            yield from _families(gauges, named, logs)

    def _log_left_out(self, limit: SeriesLimit) -> None:
        """Log once when series are left out, and once when no longer."""
        if bool(limit.left_out) == self._leaves_out:
            return
        self._leaves_out = bool(limit.left_out)
        if self._leaves_out:
            levels = ", ".join(f"{count:,} of {level}" for level, count in limit.left_out.items())
            logger.warning(
                "%(left_out)s series are left out because there are more than --max-series "
                "%(max_series)s: %(levels)s",
                {
                    "left_out": f"{sum(limit.left_out.values()):,}",
                    "max_series": self.max_series,
                    "levels": levels,
                },
            )
        else:
            logger.info("series are no longer left out")


def _groups(evaluation: Evaluation) -> pa.Table:
    """The groups with their status and their totals."""
    lags = evaluation.lags
    totals = lag_totals(lags, "group").drop_columns("group_state")
    is_bound = pc.and_(pc.is_null(lags["time_lag_ms"]), pc.is_valid(lags["time_lag_at_least_ms"]))
    is_lower_bound = pc.is_in(totals["group_id"], pc.unique(lags.filter(is_bound)["group_id"]))
    bounds = {"is_lower_bound": is_lower_bound, "is_lag_lower_bound": totals["is_lag_lower_bound"]}
    totals = totals.drop_columns("is_lag_lower_bound")
    for name, is_bound_of_group in bounds.items():
        totals = totals.append_column(name, pc.cast(is_bound_of_group, pa.int64()))
    statuses = evaluation.statuses.select(_OF_STATUS)
    return statuses.join(totals, "group_id", join_type="left outer").sort_by("group_id")


_IDENTITY: Final = ["group_id", "group_type", "group_state", "status"]
_OF_STATUS: Final = [*_IDENTITY, "member_count", "growth_per_s", "time_to_catch_up_ms"]


def _with_status_alone(groups: pa.Table) -> pa.Table:
    """The groups with their type, state and status; all other values are null."""
    others = {
        name: pa.nulls(groups.num_rows, groups.schema.field(name).type)
        for name in groups.column_names
        if name not in _IDENTITY
    }
    counts = {name: pa.nulls(groups.num_rows, pa.int64()) for name in COUNTS}
    return with_columns(groups, others | counts)


def _families(gauges: Sequence[Gauge], cluster: Cluster, rows: pa.Table) -> Iterator[Metric]:
    return (RowFamily(gauge, cluster, rows) for gauge in gauges)


def _logs(lags: pa.Table) -> pa.Table:
    """Log start and log end of each partition that a group reads."""
    logs = lags.group_by(["topic", "partition"]).aggregate(
        [("log_end_offset", "max"), ("log_start_offset", "max")]
    )
    return logs.rename_columns(["topic", "partition", "log_end_offset", "log_start_offset"])


def _offset_sums(lags: pa.Table) -> pa.Table:
    sums = lags.group_by(["group_id", "topic"]).aggregate([("committed_offset", "sum")])
    return sums.rename_columns(["group_id", "topic", "committed_offset"])


def _of_the_tables(reader: TableReader, cluster: Cluster) -> Iterator[Metric]:
    """The metrics of freshness, outcomes and transactions."""
    counts = (*OUTCOMES, "unaccounted")
    columns = ["log_partition", "next_offset", *(f"records_{count}" for count in counts)]
    progress = reader.read(LOAD_PROGRESS.name, columns)
    known = tables_known_until(reader)
    rows: list[dict[str, Any]] = progress.join(known, "log_partition").to_pylist()
    for row in rows:
        row["behind_s"] = _seconds_since(row["known_until"], reader.moment)
    yield from (gauge.of(cluster, rows) for gauge in OWN_LOG_PARTITIONS)
    behind = [row["behind_s"] for row in rows if row["behind_s"] is not None]
    is_known = behind and len(behind) == len(rows)
    yield TABLES_BEHIND.of_cluster(cluster, max(behind) if is_known else None)
    written_at = Freshness.of(reader).written_at
    yield TABLES_WRITTEN_AT.of_cluster(
        cluster, None if written_at is None else written_at.timestamp()
    )
    yield records_total(cluster, rows)
    yield records_unaccounted_total(cluster, rows)
    pending = reader.read(PENDING_OFFSETS.name, ["commit_timestamp"])["commit_timestamp"]
    yield PENDING.of_cluster(cluster, len(pending))
    oldest = _seconds_since(pc.min(pending).as_py(), reader.moment)
    yield OLDEST_PENDING.of_cluster(cluster, oldest)


def _of_other_topics(reader: TableReader, cluster: Cluster) -> Iterator[Metric]:
    """The metrics of the internal topics besides `__consumer_offsets`, if any is followed."""
    rows = [asdict(load) for load in topic_loads(reader).values()]
    if not rows:
        return
    yield OTHER_TOPIC_BEHIND.of(cluster, rows)
    yield topic_records_total(cluster, rows)
    states = reader.read(TRANSACTIONS.name, ["state"])["state"].value_counts().to_pylist()
    counted = [{"state": state["values"], "transactions": state["counts"]} for state in states]
    yield TRANSACTIONS_BY_STATE.of(cluster, counted)
    keys = reader.read(PENDING_OFFSETS.name, ["log_partition", "group_id", "producer_id"])
    is_lost = with_owners(reader, keys)["is_marker_lost"]
    yield PENDING_WITHOUT_MARKER.of_cluster(cluster, pc.sum(is_lost).as_py() or 0)


def _of_alerts(reader: TableReader, cluster: Cluster, limit: SeriesLimit) -> Iterator[Metric]:
    """The metrics of alerts; no alerts if `alert run` never ran."""
    alerts = read_alerts(reader).values()
    current = [alert for alert in alerts if alert.state is not AlertState.RESOLVED]
    rows = [
        {
            **alert.key._asdict(),
            "severity": alert.severity,
            "state": alert.state.value,
            "muted": "true" if alert.muted_by else "false",
            "alert": str(alert.key),
        }
        for alert in current
    ]
    ranks = {str(alert.key): int(alert.state is AlertState.FIRING) for alert in current}
    table = pa.Table.from_pylist(rows, _ALERTS)
    yield from _families(
        OWN_ALERTS, cluster, limit.fitting("alerts", OWN_ALERTS, table, "alert", ranks)
    )
    yield ALERTS_UNTOLD.of_cluster(
        cluster,
        sum(
            alert.state is AlertState.FIRING and not alert.muted_by and not alert.is_sent_as_firing
            for alert in alerts
        ),
    )


def _seconds_since(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else (now - moment).total_seconds()
