"""The command `coordinator-state metrics`; its Python API is `streaming.metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from streaming.cli.options import Choice, Duration, option, port_option, tables_option
from streaming.cli.serving import serve

DEFAULT_PORT = 8000


@click.command()
@tables_option
@port_option(default=DEFAULT_PORT)
@option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 for all interfaces. Everyone who can reach it can read the "
    "metrics.",
)
@option(
    "--names",
    type=Choice(["lag-exporter", "kminion"]),
    default="lag-exporter",
    show_default=True,
    help="Names of the lag and offset metrics: those of kafka-lag-exporter or of kminion.",
)
@option("--cluster-name", help="Value of the label cluster_name. [default: the cluster id]")
@option(
    "--by",
    type=Choice(["partition", "topic", "group"]),
    default="partition",
    show_default=True,
    help="Most detailed series to serve: per partition, topic or group.",
)
@option(
    "--max-series",
    type=click.IntRange(min=0),
    default=100_000,
    show_default=True,
    help="Maximum number of series of alerts, groups, topics and partitions. A series counts once "
    "more for each further 512 bytes of labels. Above the maximum, series of partitions are "
    "dropped first, and series of healthy groups before those of other groups.",
)
@option(
    "--collect-interval",
    type=Duration(),
    default="5s",
    show_default=True,
    help="Time between two reads of the tables while scrapes arrive. After a slow read, the pause "
    "is as long as the read.",
)
def metrics(
    *,
    tables: str,
    port: int,
    host: str,
    names: str,
    cluster_name: str | None,
    by: str,
    max_series: int,
    collect_interval: float,
) -> None:
    """Serve /metrics for Prometheus: lag, status, freshness and accounting.

    While scrapes arrive, the command reads the tables every five seconds (--collect-interval). A
    scrape gets the cached result of the last read. deploy/ has a Grafana dashboard and Prometheus
    alert rules.
    Python API: streaming.metrics.endpoint.create_app, a WSGI application, and
    streaming.metrics.collector.TablesCollector, for your own registry.

    \b
    Examples:
      coordinator-state metrics --tables tables
      coordinator-state metrics --tables tables --port 9308 --by topic
      coordinator-state metrics --tables tables --max-series 20000 --collect-interval 30s
    """
    from streaming.http.own_names import on_loopback
    from streaming.http.server import serving
    from streaming.metrics.collector import TablesCollector
    from streaming.metrics.endpoint import create_app
    from streaming.metrics.families import NAMES
    from streaming.metrics.scrapes import Scrapes
    from streaming.tables.reader import TableReader

    TableReader(tables)
    collector = TablesCollector(
        tables=tables,
        cluster_name=cluster_name,
        names=NAMES[names],
        by=by,
        max_series=max_series,
    )
    scrapes = Scrapes(collector.collect, collect_interval)
    app = on_loopback(create_app(scrapes), host)

    @contextmanager
    def serving_scrapes() -> Iterator[str]:
        with scrapes.ahead(), serving(app, host=host, port=port) as address:
            yield address

    serve(serving_scrapes(), "metrics are at {address}metrics")
