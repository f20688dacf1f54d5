"""`coordinator-state verify`; its Python twin is `streaming.answers.verify.verify_cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from streaming.commands.options import (
    bootstrap_servers_option,
    kafka_option,
    log_partitions_of,
    log_partitions_option,
    option,
    output_option,
    tables_option,
)
from streaming.output import Output, output_of, write_note

if TYPE_CHECKING:
    from streaming.answers.verification import Verification

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
    kafka: Mapping[str, str],
    output: str,
) -> None:
    """Compare the tables with the broker's own answers.

    Compared are groups, members of classic groups that are Stable, committed offsets with leader
    epoch and metadata, and which offsets are pending in a transaction. Traffic may go on: an
    answer that moves while it is compared is looked at again, and told apart if it never rests.
    Exit status 1 where anything differs, or where the tables do not catch up in time. The Python
    twin is streaming.answers.verify.verify_cluster.

    \b
    Examples:
      coordinator-state verify --bootstrap-servers localhost:9092 --tables tables
      coordinator-state verify --config run.toml --timeout 10 --output json
    """
    from streaming.answers.verify import verify_cluster

    verification = verify_cluster(
        bootstrap_servers,
        tables,
        kafka=kafka,
        timeout_s=timeout,
        log_partitions=log_partitions_of(log_partitions),
    )
    show_verification(verification, output_of(output), is_json=output == "json")
    ctx.exit(0 if verification.is_equal else EXIT_DIFFERENT)


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
