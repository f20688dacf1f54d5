"""`coordinator-state reload`; its Python twin is `streaming.reload.requests.request_reload`."""

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
    help="A partition of __consumer_offsets, see partition-for; may be given again.",
)
@option("--all", is_flag=True, help="All log partitions of the tables.")
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
    """Have log partitions loaded again from their log start on.

    Their rows are replaced, in one commit per table, once their log is read to its end; until then
    the tables keep what they have and say `loading`. A `run` that is writing the tables begins
    within seconds, else the next one does. `show progress` tells how far it is. It also happens by
    itself where it must; docs/reload.md says when. The Python twin is
    streaming.reload.requests.request_reload.

    \b
    Examples:
      coordinator-state reload --tables tables --log-partition 7 --log-partition 12
      coordinator-state reload --tables tables --all
    """
    from streaming.reload.requests import request_reload

    if all == bool(log_partition):
        raise click.UsageError("name --log-partition N, or --all", ctx)
    asked = request_reload(tables, None if all else log_partition)
    output_of(output).result(
        {"log_partitions": asked},
        f"{len(asked)} log partition{'s' if len(asked) > 1 else ''} "
        f"({', '.join(map(str, asked))}) will be loaded again by the running `run`, or by the next",
    )
