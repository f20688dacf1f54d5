"""The endpoints `/metrics`, `/health` and `/ready` of a run, and the metrics of each scrape."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from streaming.http.compression import Compression
from streaming.http.own_names import on_loopback
from streaming.http.server import serving
from streaming.kafka.client import TRIES_ONCE_MS
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient
from streaming.metrics.cluster_families import (
    RECORDS,
    RECORDS_UNACCOUNTED,
    records_total,
    records_unaccounted_total,
)
from streaming.metrics.families import OWN_LOG_PARTITIONS, Gauge
from streaming.run.beat import beating
from streaming.run.monitoring.run_monitor import HighWatermarks, RunMonitor
from streaming.run.settings import RunSettings
from streaming.run.stderr import write_dated_note
from streaming.tables.durations import parse_duration

_READY_WITHIN: Final = timedelta(seconds=10)
"""The age, plus a trigger's interval, of the oldest high watermarks that `/ready` compares with."""
_NEXT_OFFSET = OWN_LOG_PARTITIONS[0]
_BEHIND = Gauge(
    "coordinator_state_run_log_partition_behind_offsets",
    "Record offsets of a partition of __consumer_offsets that the tables do not have yet",
    {"log_partition": "log_partition"},
    "behind",
)
_HEALTHY = Gauge("coordinator_state_run_healthy", "1 if /health answers 200", {}, "value")
_READY = Gauge("coordinator_state_run_ready", "1 if /ready answers 200", {}, "value")
GAUGES = (_BEHIND, _HEALTHY, _READY, _NEXT_OFFSET)
COUNTERS = (RECORDS, RECORDS_UNACCOUNTED)


def create_app(monitor: RunMonitor, host: str = "127.0.0.1") -> ASGIApp:
    """Create the ASGI application for the address to listen on."""

    def metrics(request: Request) -> Response:
        registry, names = monitor.metrics.registry, request.query_params.getlist("name[]")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        text = encode(registry.restricted_registry(names) if names else registry)
        return Response(text, headers={"Content-Type": content_type})

    routes = [
        Route("/health", _answering(monitor.health)),
        Route("/ready", _answering(monitor.readiness)),
        Route("/metrics", metrics),
    ]
    return on_loopback(Starlette(routes=routes, middleware=[Middleware(Compression)]), host)


def _answering(
    check: Callable[[], tuple[bool, dict[str, Any]]],
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def answer(_request: Request) -> Response:
        # Needs no thread, so probes do not wait behind other requests.
        is_ok, facts = check()
        return JSONResponse(facts, 200 if is_ok else 503)

    return answer


@contextmanager
def monitored(settings: RunSettings, cluster_id: str) -> Iterator[RunMonitor]:
    """Yield the monitor of a run; serve it over HTTP if `http_port` is set.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    client = LogClient(
        settings.bootstrap_servers,
        kafka_client_config(settings.kafka),
        has_worked=True,
        retry_timeout_ms=TRIES_ONCE_MS,
    )

    def ask() -> dict[int, int]:
        log = client.refresh()
        wanted = settings.log_partitions or log.leaders
        # Leaderless log partitions are known from `load_progress`.
        return client.high_watermarks(log.with_leader.intersection(wanted))

    trigger = parse_duration(settings.trigger)
    ends = HighWatermarks(ask, _READY_WITHIN + trigger)
    monitor = RunMonitor(ends, parse_duration(settings.health_timeout) + trigger)
    if settings.http_port is None:
        yield monitor
        return
    monitor.metrics.registry.register(RunCollector(monitor, cluster_id))
    with (
        client,
        serving(
            create_app(monitor, settings.http_host),
            host=settings.http_host,
            port=settings.http_port,
            option="--http-port",
        ) as address,
        beating("high-watermarks", ends.interval, ends.sample),
    ):
        write_dated_note(
            f"metrics, health and readiness: {address}metrics {address}health {address}ready"
        )
        yield monitor


@dataclass(slots=True, eq=False)
class RunCollector(Collector):
    """Collects from memory; a scrape reads neither tables nor brokers."""

    monitor: RunMonitor
    cluster_id: str

    def collect(self) -> Iterator[Metric]:
        """Yield the progress and the outcomes of each log partition, health and readiness."""
        cluster = [("cluster_name", self.cluster_id)]
        rows = [
            {"log_partition": number, **row} for number, row in self.monitor.log_partitions.items()
        ]
        behind = self.monitor.offsets_behind()
        yield _NEXT_OFFSET.of(cluster, rows)
        yield _BEHIND.of(
            cluster, [{"log_partition": number, "behind": left} for number, left in behind.items()]
        )
        yield records_total(cluster, rows)
        yield records_unaccounted_total(cluster, rows)
        is_healthy, _ = self.monitor.health()
        yield _HEALTHY.of_cluster(cluster, is_healthy)
        is_ready, _ = self.monitor.readiness()
        yield _READY.of_cluster(cluster, is_ready)
