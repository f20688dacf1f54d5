"""The command `coordinator-state run`; its Python API is `streaming.run.query.run_query`."""

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
    help="Folder of the query's checkpoint. [default: checkpoints/<name of the tables folder>]",
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
    help="Time between two offset samples of the topics that groups read, in log_offsets; or off.",
)
@option(
    "--snapshot-retention",
    metavar="INTERVAL",
    default="1 hour",
    show_default=True,
    help="How long snapshots can be read (show --as-of, past moments on the page).",
)
@history_retention_option
@option(
    "--upkeep-interval",
    metavar="INTERVAL",
    default="10 minutes",
    show_default=True,
    help="Time between two rounds of maintenance, which deletes old files and compacts small "
    "ones; or off, to use `maintain`.",
)
@option("--available-now", is_flag=True, help="Read up to the current high watermarks, then stop.")
@option(
    "--semantics",
    type=click.Choice(["auto", "coordinator", "scala"]),
    default="auto",
    show_default=True,
    help="Loader's rules: coordinator (Kafka 4), scala (Kafka 2 and 3), or auto, which asks the "
    "cluster.",
)
@option(
    "--history",
    type=click.Choice(["off", "sampled", "all"]),
    default="sampled",
    show_default=True,
    help="Commits that offset_commits keeps: none, at least the last one of each key per "
    "micro-batch, or all.",
)
@option(
    "--max-records-per-trigger",
    type=click.IntRange(min=1),
    help="Maximum records of a micro-batch. [default: an estimate of how many fit in memory, at "
    f"most {MOST_RECORDS_PER_TRIGGER}]",
)
@option(
    "--max-bytes-per-trigger",
    type=click.IntRange(min=1),
    help="Maximum estimated bytes of a micro-batch. [default: no limit]",
)
@log_partitions_option
@option("--change-data-feed", is_flag=True, help="Turn on Delta's change data feed for new tables.")
@option(
    "--catalog",
    metavar="[CATALOG.]DATABASE",
    help="Also register the tables in a database of a Spark catalog: the Hive metastore of "
    "hive-site.xml in SPARK_CONF_DIR, or another catalog that is configured there.",
)
@option(
    "--retry-timeout",
    metavar="INTERVAL",
    default="10 minutes",
    show_default=True,
    help="How long the query retries unreachable brokers before it fails and is restarted.",
)
@option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Maximum restarts of a failed query without a finished micro-batch in between. Failures "
    "caused by unreachable brokers or tables do not count, unless this is 0 or --available-now "
    "is set.",
)
@option(
    "--http-port",
    type=click.IntRange(min=0, max=65_535),
    help="Serve /metrics, /health and /ready on this port; 0 takes any free port. [default: off]",
)
@option(
    "--http-host",
    default="127.0.0.1",
    show_default=True,
    help="Address to serve them on; 0.0.0.0 for all interfaces.",
)
@option(
    "--health-timeout",
    metavar="INTERVAL",
    default="10 minutes",
    show_default=True,
    help="How long a micro-batch may take before /health reports that the query hangs.",
)
@option("--master", default="local[2]", show_default=True, help="The Spark master.")
@kafka_option
@option("--silent", is_flag=True, help="Do not show progress.")
@click.pass_context
def run(ctx: click.Context, /, *, silent: bool, log_partitions: str | None, **options: Any) -> None:
    """Replay __consumer_offsets into Delta tables continuously.

    The first run starts at the log start. Later runs continue from the checkpoint. On Ctrl-C or
    SIGTERM the current micro-batch is finished first. Progress and one line per micro-batch go to
    stderr. docs/metrics.md describes the endpoints of --http-port. Python API:
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
