"""`coordinator-state run`: keep the tables; its Python twin is `streaming.run.query.run_query`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click
from click.core import ParameterSource

from streaming.cli.options import (
    bootstrap_servers_option,
    history_retention_option,
    kafka_option,
    log_partitions_of,
    log_partitions_option,
    option,
    tables_option,
)
from streaming.run.signals import stop_on_signals
from streaming.run.stderr import is_live
from streaming.source import MOST_RECORDS_PER_TRIGGER


@click.command()
@bootstrap_servers_option
@tables_option
@option(
    "--checkpoint",
    metavar="DIR",
    help="Where Spark keeps the query's checkpoint. "
    "[default: checkpoints/<name of the tables folder>]",
)
@option(
    "--trigger",
    metavar="INTERVAL",
    default="1 second",
    show_default=True,
    help="Time between the starts of two micro-batches.",
)
@option(
    "--lag-interval",
    metavar="INTERVAL",
    default="5 seconds",
    show_default=True,
    help="Time between two samples of the logs that groups read, into log_offsets; or off.",
)
@option(
    "--snapshot-retention",
    metavar="INTERVAL",
    default="1 hour",
    show_default=True,
    help="How long the tables can be read as they were (show --as-of, the page's past moments).",
)
@history_retention_option
@option(
    "--upkeep-interval",
    metavar="INTERVAL",
    default="10 minutes",
    show_default=True,
    help="How often older files are deleted and small ones put together; or off, for `maintain`.",
)
@option("--available-now", is_flag=True, help="Stop when the end the log has now is reached.")
@option(
    "--semantics",
    type=click.Choice(["auto", "coordinator", "scala"]),
    default="auto",
    show_default=True,
    help="The rules of the coordinator since Kafka 4, or of the Scala one before; "
    "auto asks the cluster.",
)
@option(
    "--history",
    type=click.Choice(["off", "sampled", "all"]),
    default="sampled",
    show_default=True,
    help="What offset_commits keeps: nothing, at least the last commit of each key and "
    "micro-batch, or every commit.",
)
@option(
    "--max-records-per-trigger",
    type=click.IntRange(min=1),
    help="The most records of one micro-batch; by default as many as fit in memory by an estimate, "
    f"and no more than {MOST_RECORDS_PER_TRIGGER}.",
)
@option(
    "--max-bytes-per-trigger",
    type=click.IntRange(min=1),
    help="The most bytes of one micro-batch, by an estimate; not bounded by default.",
)
@log_partitions_option
@option("--change-data-feed", is_flag=True, help="Turn on Delta's change data feed for new tables.")
@option(
    "--catalog",
    metavar="[CATALOG.]DATABASE",
    help="Name the tables in a database of Spark's catalog too: Hive's metastore as hive-site.xml "
    "in SPARK_CONF_DIR says, or another that is configured there.",
)
@option(
    "--retry-timeout",
    metavar="INTERVAL",
    default="10 minutes",
    show_default=True,
    help="How long the query waits for brokers that are away before it fails and starts again.",
)
@option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How often a query that failed is started again without a micro-batch between. Brokers or "
    "tables that are away do not count, unless it is 0 or with --available-now.",
)
@option(
    "--http-port",
    type=click.IntRange(min=0, max=65_535),
    help="Serve /metrics, /health and /ready on this port, 0 takes any free one. [default: not]",
)
@option(
    "--http-host",
    default="127.0.0.1",
    show_default=True,
    help="The address for them; 0.0.0.0 for every one.",
)
@option(
    "--health-timeout",
    metavar="INTERVAL",
    default="10 minutes",
    show_default=True,
    help="How long a micro-batch may take before /health says that the query hangs.",
)
@option("--master", default="local[2]", show_default=True, help="The Spark master.")
@kafka_option
@option("--silent", is_flag=True, help="Show no progress.")
@click.pass_context
def run(ctx: click.Context, /, *, silent: bool, log_partitions: str | None, **options: Any) -> None:
    """Replay __consumer_offsets into Delta tables, and go on.

    Starts at the beginning of the log the first time and goes on from the checkpoint after that.
    Ctrl-C and SIGTERM let the running micro-batch finish. Progress and one line per micro-batch
    go to stderr. docs/metrics.md has what --http-port serves. The Python twin is
    streaming.run.query.run_query(RunSettings(...)).

    \b
    Examples:
      coordinator-state run --bootstrap-servers localhost:9092 --tables tables
      coordinator-state run --bootstrap-servers localhost:9092 --tables tables --available-now
      coordinator-state run --config run.toml --http-port 8000 --log-format json
      coordinator-state run --config run.toml --trigger "5 seconds" --history all
    """
    from streaming.run.progress_display import ProgressDisplay
    from streaming.run.query import run_query
    from streaming.run.settings import RunSettings

    sources = {name: ctx.get_parameter_source(name) for name in ("trigger", "available_now")}
    if set(sources.values()) == {ParameterSource.COMMANDLINE}:
        raise click.UsageError("--trigger and --available-now exclude each other", ctx)
    settings = RunSettings.checked(log_partitions=log_partitions_of(log_partitions), **options)
    display = nullcontext() if silent else ProgressDisplay(is_terminal=is_live())
    with stop_on_signals() as stop, display as on_progress:
        run_query(settings, on_progress=on_progress, stop=stop)
