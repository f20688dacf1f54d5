"""The endpoints `/metrics`, `/health` and `/ready` of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any, Final

from flask import Flask, Response, jsonify
from prometheus_client import make_wsgi_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from streaming.http.own_names import on_loopback
from streaming.http.server import serving
from streaming.kafka.client import TRIES_ONCE_MS
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient
from streaming.run.beat import beating
from streaming.run.monitoring.high_watermarks import HighWatermarks
from streaming.run.monitoring.run_collector import RunCollector
from streaming.run.monitoring.run_monitor import RunMonitor
from streaming.run.settings import RunSettings
from streaming.run.stderr import write_dated_note
from streaming.tables.durations import parse_duration

_READY_WITHIN: Final = timedelta(seconds=10)
"""The age, plus a trigger's interval, of the oldest high watermarks that `/ready` compares with."""


def create_app(monitor: RunMonitor, host: str = "127.0.0.1") -> Flask:
    """Create the WSGI application for the address to listen on."""
    app = Flask(__name__)
    app.add_url_rule("/health", "health", _answering(monitor.health))
    app.add_url_rule("/ready", "ready", _answering(monitor.readiness))
    metrics = make_wsgi_app(monitor.metrics.registry)
    every = DispatcherMiddleware(app.wsgi_app, {"/metrics": metrics})
    app.wsgi_app = on_loopback(every, host)  # type: ignore[assignment, method-assign]
    return app


def _answering(check: Callable[[], tuple[bool, dict[str, Any]]]) -> Callable[[], Response]:
    def answer() -> Response:
        is_ok, facts = check()
        response = jsonify(facts)
        response.status_code = 200 if is_ok else 503
        return response

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
        closing(client),
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
