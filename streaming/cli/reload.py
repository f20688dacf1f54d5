"""The command `coordinator-state reload`; its Python API is `streaming.reload.requests`."""

from __future__ import annotations

import click

from streaming.cli.options import option, output_option, tables_option
from streaming.views.output import output_of


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
@click.pass_context
def reload(
    ctx: click.Context,
    /,
    *,
    tables: str,
    log_partition: tuple[int, ...],
    all: bool,
    output: str,
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
        raise click.UsageError("give either --log-partition N or --all", ctx)
    asked = request_reload(tables, None if all else log_partition)
    output_of(output).result(
        {"log_partitions": asked},
        f"{len(asked)} log partition{'s' if len(asked) > 1 else ''} "
        f"({', '.join(map(str, asked))}) will be reloaded by the current `run`, or by the next one",
    )
