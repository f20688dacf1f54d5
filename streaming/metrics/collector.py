"""What a scrape answers: the tables as they are then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from coordinator_state.group_status import StatusRules
from streaming.alerts.alert import AlertState
from streaming.alerts.alerts_table import read_alerts
from streaming.lag.group_lag import group_lag, lag_totals, tables_known_until
from streaming.lag.group_status import group_statuses
from streaming.metrics.families import (
    LAG_EXPORTER,
    OUTCOMES,
    OWN_ALERTS,
    OWN_GROUPS,
    OWN_LOG_PARTITIONS,
    Gauge,
    Names,
    gauge,
    records_total,
    records_unaccounted_total,
)
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, PENDING_OFFSETS

logger = logging.getLogger(__name__)

Cluster = Sequence[tuple[str, str]]
DEFAULT_MAX_SERIES = 100_000


@dataclass(slots=True, eq=False)
class TablesCollector(Collector):
    """Reads a tables folder at each scrape, one scrape at a time.

    `by` is how fine series are: "partition", "topic" or "group". Where there would be more than
    `max_series` of partitions they are left out, and `coordinator_state_series_left_out` says how
    many. `cluster_name` is the cluster id unless it is given.
    """

    tables: str
    cluster_name: str | None = None
    names: Names = LAG_EXPORTER
    by: str = "partition"
    max_series: int = DEFAULT_MAX_SERIES
    rules: StatusRules = field(default_factory=StatusRules)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def describe(self) -> list[Metric]:
        """Nothing: asked for names, a registry would scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric of the tables as they are now; `coordinator_state_up` is 0 without them."""
        found: list[Metric] = []
        with self._lock:
            try:
                found = list(self._collect())
            except Exception as error:
                logger.warning(
                    "%(tables)s cannot be read: %(error)s", {"tables": self.tables, "error": error}
                )
                logger.debug("trace of the warning above", exc_info=True)
        yield gauge("coordinator_state_up", "Whether the tables can be read", (), bool(found))
        yield from found

    def _collect(self) -> Iterator[Metric]:
        started = time.monotonic()
        reader = TableReader(self.tables)
        cluster = [("cluster_name", self.cluster_name or reader.cluster_id)]
        named = cluster if self.names.has_cluster else []
        lags = group_lag(reader)
        yield from self._of_partitions(cluster, named, lags)
        if self.by != "group":
            topics = lag_totals(lags, "topic").join(
                _offset_sums(lags), ["group_id", "topic"], join_type="left outer"
            )
            yield from _families(self.names.topics, named, topics)
        groups = self._groups(reader, lags)
        yield from _families(self.names.groups, named, groups)
        yield from _families(OWN_GROUPS, cluster, groups)
        yield from _of_the_tables(reader, cluster)
        yield from _of_alerts(reader, cluster)
        seconds = time.monotonic() - started
        yield gauge(
            "coordinator_state_scrape_seconds", "How long this scrape took", cluster, seconds
        )
        if self.names is LAG_EXPORTER:
            text = "Group time poll time"
            yield gauge("kafka_consumergroup_poll_time_ms", text, cluster, seconds * 1000)

    def _of_partitions(self, cluster: Cluster, named: Cluster, lags: pa.Table) -> Iterator[Metric]:
        left_out = 0
        if self.by == "partition":
            logs = lags.group_by(["topic", "partition"]).aggregate(
                [("log_end_offset", "max"), ("log_start_offset", "max")]
            )
            logs = logs.rename_columns(["topic", "partition", "log_end_offset", "log_start_offset"])
            of_partitions, of_logs = self.names.partitions, self.names.logs
            series = lags.num_rows * len(of_partitions) + logs.num_rows * len(of_logs)
            if series <= self.max_series:
                yield from _families(of_partitions, named, lags)
                yield from _families(of_logs, named, logs)
            else:
                left_out = series
        yield gauge(
            "coordinator_state_series_left_out",
            "Series of partitions that were left out, since they are more than --max-series",
            cluster,
            left_out,
        )

    def _groups(self, reader: TableReader, lags: pa.Table) -> pa.Table:
        statuses = group_statuses(reader, rules=self.rules, lags=lags)
        statuses = statuses.select(["group_id", "group_type", "group_state", "status"])
        members = reader.read("groups", ["group_id", "member_count"])
        members = members.group_by("group_id").aggregate([("member_count", "max")])
        members = members.rename_columns(["group_id", "member_count"])
        totals = lag_totals(lags, "group").drop_columns("group_state")
        found = statuses.join(members, "group_id", join_type="left outer")
        return found.join(totals, "group_id", join_type="left outer").sort_by("group_id")


def _families(gauges: Sequence[Gauge], cluster: Cluster, rows: pa.Table) -> Iterator[Metric]:
    found: list[dict[str, Any]] = rows.to_pylist()
    return (one.of(cluster, found) for one in gauges)


def _offset_sums(lags: pa.Table) -> pa.Table:
    sums = lags.group_by(["group_id", "topic"]).aggregate([("committed_offset", "sum")])
    return sums.rename_columns(["group_id", "topic", "committed_offset"])


def _of_the_tables(reader: TableReader, cluster: Cluster) -> Iterator[Metric]:
    """Freshness, accounting and transactions."""
    counts = (*OUTCOMES, "unaccounted")
    columns = ["log_partition", "next_offset", *(f"records_{count}" for count in counts)]
    progress = reader.read(LOAD_PROGRESS.name, columns)
    known = tables_known_until(reader)
    rows: list[dict[str, Any]] = progress.join(known, "log_partition").to_pylist()
    for row in rows:
        row["behind_s"] = _seconds_since(row["known_until"], reader.moment)
    yield from (one.of(cluster, rows) for one in OWN_LOG_PARTITIONS)
    behind = [row["behind_s"] for row in rows if row["behind_s"] is not None]
    yield gauge(
        "coordinator_state_tables_behind_seconds",
        "How far the tables are behind __consumer_offsets, at the worst",
        cluster,
        max(behind) if behind and len(behind) == len(rows) else None,
    )
    yield records_total(cluster, rows)
    yield records_unaccounted_total(cluster, rows)
    pending = reader.read(PENDING_OFFSETS.name, ["commit_timestamp"])["commit_timestamp"]
    yield gauge(
        "coordinator_state_pending_offsets",
        "Transactional offsets that wait for the end of their transaction",
        cluster,
        len(pending),
    )
    oldest = _seconds_since(pc.min(pending).as_py(), reader.moment)
    yield gauge(
        "coordinator_state_pending_offsets_oldest_seconds",
        "For how long the oldest of them has waited",
        cluster,
        oldest,
    )


def _of_alerts(reader: TableReader, cluster: Cluster) -> Iterator[Metric]:
    """What `alert run` knows; nothing where it never ran."""
    alerts = read_alerts(reader).values()
    rows = [
        {
            **alert.key._asdict(),
            "severity": alert.severity,
            "state": alert.state.value,
            "muted": "true" if alert.muted_by else "false",
        }
        for alert in alerts
        if alert.state is not AlertState.RESOLVED
    ]
    yield from (one.of(cluster, rows) for one in OWN_ALERTS)
    yield gauge(
        "coordinator_state_alerts_untold",
        "Alerts that fire and that no sink has taken yet, muted ones aside",
        cluster,
        sum(
            alert.state is AlertState.FIRING and not alert.muted_by and not alert.is_told_as_firing
            for alert in alerts
        ),
    )


def _seconds_since(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else (now - moment).total_seconds()
