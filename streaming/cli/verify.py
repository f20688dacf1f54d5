"""`coordinator-state verify`; its Python twin is `streaming.verify.verify.verify_cluster`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from streaming.cli.options import (
    Duration,
    bootstrap_servers_option,
    kafka_option,
    log_partitions_of,
    log_partitions_option,
    option,
    output_option,
    tables_option,
)
from streaming.errors import ConfigurationError
from streaming.run.signals import stop_on_signals
from streaming.run.stderr import write_note
from streaming.views.output import Output, output_of

if TYPE_CHECKING:
    from streaming.verify.verification import Verification

EXIT_DIFFERENT = 1
_COLUMNS = ("answer", "field", "broker", "tables")


@click.command()
@bootstrap_servers_option
@tables_option
@log_partitions_option
@option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds the tables may take to catch up with the log.",
)
@option(
    "--groups",
    type=click.IntRange(min=1),
    help="Compare so many groups, chosen at random each time; without, every group.",
)
@option(
    "--every",
    type=Duration(),
    help="Go on, once every DURATION: 60s, 5m or 1h. Ends with Ctrl-C.",
)
@kafka_option
@output_option
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    bootstrap_servers: str,
    tables: str,
    log_partitions: str | None,
    timeout: float,
    groups: int | None,
    every: float | None,
    kafka: Mapping[str, str],
    output: str,
) -> None:
    """Compare the tables with the broker's own answers.

    Compared are groups of every type with their state and epochs, their members (of classic groups
    while they are Stable) with their assignments, committed offsets with leader epoch and metadata,
    and which offsets are pending in a transaction. Traffic may go on: an answer that moves while it
    is compared is looked at again, and told apart if it never rests. Exit status 1 where anything
    differs, or where the tables do not catch up in time; with --every, if it was ever so. The
    Python twin is streaming.verify.verify.verify_cluster.

    \b
    Examples:
      coordinator-state verify --bootstrap-servers localhost:9092 --tables tables
      coordinator-state verify --config run.toml --timeout 10 --output json
      coordinator-state verify --config run.toml --groups 500 --every 60s
    """
    from streaming.verify.verify import verify_cluster

    def compare() -> bool:
        verification = verify_cluster(
            bootstrap_servers,
            tables,
            kafka=kafka,
            timeout_s=timeout,
            log_partitions=log_partitions_of(log_partitions),
            group_count=groups,
        )
        if every is not None and output != "json":
            click.echo(datetime.now().astimezone().isoformat(" ", "seconds"))
        show_verification(verification, output_of(output), is_json=output == "json")
        _say_where_to_look(verification, tables)
        return verification.is_equal

    is_equal = compare()
    if every is not None:
        with stop_on_signals() as stop:
            while not stop.wait(every):
                try:
                    is_equal &= compare()
                except (ConfigurationError, TimeoutError) as error:
                    # A broker that restarts is no reason to end a watch.
                    write_note(f"not compared: {error}")
    ctx.exit(0 if is_equal else EXIT_DIFFERENT)


def _say_where_to_look(verification: Verification, tables: str) -> None:
    differing = sorted({key.group_id for key in verification.differing})
    if differing:
        write_note(
            f"{len(differing)} groups differ; records of one: coordinator-state show records "
            f"--tables {shlex.quote(tables)} --group {shlex.quote(differing[0])}"
        )


def show_verification(verification: Verification, output: Output, *, is_json: bool) -> None:
    """The verdict, what differs, and beside it what was left out of the comparison."""
    differences: list[dict[str, Any]] = [
        {
            "answer": str(difference.key),
            **difference.key._asdict(),
            "field": difference.field,
            "broker": difference.broker,
            "tables": difference.tables,
        }
        for difference in verification.differences
    ]
    output.result(
        {
            "is_equal": verification.is_equal,
            "equal": verification.counts,
            "differences": differences,
            "moving": [key._asdict() for key in sorted(verification.moving)],
            "behind": verification.behind,
            "notes": verification.notes,
        },
        verification.summary,
    )
    if is_json:
        return
    if differences:
        output.rows(differences, _COLUMNS)
    for note in verification.notes:
        write_note(note)
