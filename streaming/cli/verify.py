"""The command `coordinator-state verify`; its Python API is `streaming.verify.verify`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import click

from streaming.cli.options import (
    DURATION,
    bootstrap_servers_option,
    exit_with_difference,
    kafka_option,
    log_partitions_option,
    option,
    output_option,
    tables_option,
)
from streaming.cli.signals import stop_on_signals
from streaming.errors import ConfigurationError
from streaming.run.progress_display import LiveLine
from streaming.run.stderr import write_note
from streaming.views.output import Output

if TYPE_CHECKING:
    from streaming.verify.verification import Verification

_COLUMNS = ("answer", "field", "broker", "tables")


@click.command()
@bootstrap_servers_option
@tables_option
@log_partitions_option
@option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    help="Maximum seconds for the tables to catch up with the log.",
)
@option(
    "--settle-timeout",
    type=DURATION,
    default="30s",
    help="How long to repeat the comparison of answers that change meanwhile.",
)
@option(
    "--groups",
    type=click.IntRange(min=1),
    help="Number of groups to compare, chosen at random each time. [default: all]",
)
@option(
    "--every",
    type=DURATION,
    help="Repeat the comparison at this interval (60s, 5m, 1h) until Ctrl-C.",
)
@kafka_option
@output_option
def verify(
    *,
    bootstrap_servers: str,
    tables: str,
    log_partitions: list[int] | None,
    timeout: float,
    settle_timeout: float,
    groups: int | None,
    every: float | None,
    kafka: Mapping[str, str],
    output: Output,
) -> None:
    """Compare the tables with the broker's own answers.

    Compares groups of every type with state and epochs, members with assignments (of classic groups
    only while they are Stable), committed offsets with leader epoch and metadata, and pending
    offsets. Traffic may continue: an answer that changes during the comparison is compared again.
    Exits with status 1 if an answer differs, if an answer changed in every round and was not
    compared, or if the tables do not catch up within --timeout. With --every, it also exits with
    status 1 if any comparison failed. Python API: streaming.verify.verify.verify_cluster.

    \b
    Examples:
      coordinator-state verify --bootstrap-servers localhost:9092 --tables tables
      coordinator-state verify --config run.toml --timeout 10 --output json
      coordinator-state verify --config run.toml --groups 500 --every 60s
    """
    from streaming.verify.verify import verify_cluster

    def compare() -> bool:
        with LiveLine(is_terminal=False, first_after_s=3) as line:
            verification = verify_cluster(
                bootstrap_servers,
                tables,
                kafka=kafka,
                timeout_s=timeout,
                settle_timeout_s=settle_timeout,
                log_partitions=log_partitions,
                group_count=groups,
                on_behind=lambda behind: line.show(_waiting(behind, timeout)),
            )
        if every is not None and output.is_text:
            click.echo(datetime.now().astimezone().isoformat(" ", "seconds"))
        output.result(verification.to_json(), verification.summary)
        show_differences(verification, output)
        _note_next_command(verification, tables)
        return verification.is_equal and verification.is_complete

    is_verified = compare()
    if every is not None:
        with stop_on_signals() as stop:
            while not stop.wait(every):
                try:
                    is_verified &= compare()
                except (ConfigurationError, TimeoutError) as error:
                    # A transient failure, such as a broker restart, does not end the loop.
                    write_note(f"not compared: {error}")
    if not is_verified:
        exit_with_difference()


def _waiting(behind: Mapping[int, int], timeout_s: float) -> str:
    return (
        f"waiting up to {timeout_s:.0f} s for the tables: {len(behind)} log partitions lack "
        f"{sum(behind.values())} record offsets"
    )


def _note_next_command(verification: Verification, tables: str) -> None:
    differing = sorted({key.group_id for key in verification.differing})
    if differing:
        write_note(
            f"{len(differing)} groups differ; records of the first: coordinator-state show records "
            f"--tables {shlex.quote(tables)} --group {shlex.quote(differing[0])}"
        )


def show_differences(verification: Verification, output: Output) -> None:
    """Print the answers that differ in a text, and notes about groups not fully compared."""
    output.details(verification.difference_rows, _COLUMNS)
    for note in verification.notes if output.is_text else ():
        write_note(note)
