"""The commands `maintain` and `reload`: upkeep of tables.

Their Python APIs are `streaming.run.maintenance` and `streaming.reload.requests`.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import timedelta

import click

from streaming.cli.options import (
    Parsed,
    history_retention_option,
    option,
    output_option,
    tables_option,
    usage_error,
)
from streaming.tables.durations import parse_duration, parse_history_retention
from streaming.views.output import Output


@click.command()
@tables_option
@history_retention_option(type=Parsed("interval", parse_history_retention))
@option(
    "--snapshot-retention",
    type=Parsed("interval", parse_duration),
    metavar="INTERVAL",
    help="How long snapshots are kept. [default: the setting of the last run]",
)
@output_option
def maintain(
    *,
    tables: str,
    history_retention: timedelta,
    snapshot_retention: timedelta | None,
    output: Output,
) -> None:
    """Delete files that no snapshot needs, and compact small files.

    `run` does this every ten minutes. Use this command if `run` has `--upkeep-interval off`, or if
    no `run` writes to the folder. Stop a `run` on this machine first. For tables in an object
    store, `maintain` and `run` can work at the same time. The command is idempotent. It first
    migrates tables of an earlier release. It always keeps the snapshot from which `run` continues.
    Python API: streaming.run.maintenance.maintain.

    \b
    Examples:
      coordinator-state maintain --tables tables
      coordinator-state maintain --tables tables --history-retention "30 days" --output json
    """
    from streaming.run.maintenance import maintain as maintain_folder
    from streaming.tables.maintenance import TableMaintenance

    done = maintain_folder(
        tables, history_retention=history_retention, snapshot_retention=snapshot_retention
    )
    columns = [field.name for field in fields(TableMaintenance)]
    output.rows((asdict(maintenance) for maintenance in done), columns)


@click.command()
@tables_option
@option(
    "--log-partition",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Partition of __consumer_offsets, see partition-for; repeatable.",
)
@option("--all", is_flag=True, help="Reload all log partitions of the tables.")
@output_option
def reload(
    *,
    tables: str,
    log_partition: tuple[int, ...],
    all: bool,
    output: Output,
) -> None:
    """Request a reload of log partitions from their log start.

    When the log is read to its end, the reload replaces their rows in one commit per table. Until
    then the tables keep the old rows, and the state is `loading`. A `run` that is writing the
    tables starts the reload within seconds; otherwise the next `run` does. `show progress` shows
    its progress. Some reloads are automatic, see docs/reload.md. Python API:
    streaming.reload.requests.request_reload.

    \b
    Examples:
      coordinator-state reload --tables tables --log-partition 7 --log-partition 12
      coordinator-state reload --tables tables --all
    """
    from streaming.reload.requests import request_reload

    if all == bool(log_partition):
        raise usage_error("give either --log-partition N or --all")
    asked = request_reload(tables, None if all else log_partition)
    output.result(
        {"log_partitions": asked},
        f"{len(asked)} log partition{'s' if len(asked) > 1 else ''} "
        f"({', '.join(map(str, asked))}) will be reloaded by the current `run`, or by the next one",
    )
