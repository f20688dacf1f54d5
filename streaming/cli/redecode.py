"""`coordinator-state redecode`; its Python twin is `streaming.run.redecode.redecode`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from streaming.cli.options import (
    kafka_option,
    optional_bootstrap_servers_option,
    output_option,
    tables_option,
)
from streaming.views.output import output_of

if TYPE_CHECKING:
    from streaming.engine.redecode import Redecoded


@click.command()
@tables_option
@optional_bootstrap_servers_option
@kafka_option
@output_option
def redecode(
    *, tables: str, bootstrap_servers: str | None, kafka: Mapping[str, str], output: str
) -> None:
    """Decode quarantined records again, after an upgrade that knows more record types.

    Group records that can be decoded now go into coordinator_records, and their groups are rebuilt.
    An offset leaves the quarantine if a later one of its key is in the tables. The tables do not
    say whether any other offset is still valid: reload its log partition. Stop `run` first; in a
    store, a `run` that still writes ends. It can be repeated safely. With --bootstrap-servers the
    cluster is asked for topic names. The Python twin is streaming.run.redecode.redecode.

    \b
    Examples:
      coordinator-state redecode --tables tables
      coordinator-state redecode --tables tables --bootstrap-servers localhost:9092 --output json
    """
    from streaming.run.redecode import redecode as redecode_tables

    found = redecode_tables(tables, bootstrap_servers=bootstrap_servers, kafka=kafka)
    output_of(output).result(asdict(found), "\n".join(_sentences(found)))


def _sentences(found: Redecoded) -> list[str]:
    decoded = found.applied + found.superseded
    said = [
        f"{decoded} quarantined records decoded: {found.applied} applied to {found.groups} groups, "
        f"{found.superseded} superseded by later ones"
    ]
    said += [
        f"{count} offsets of log partition {log_partition} can be decoded, but the tables do not "
        "say what became of them: load that log partition again"
        for log_partition, count in sorted(found.waiting.items())
    ]
    said += [f"{count} stay: {reason}" for reason, count in sorted(found.undecodable.items())]
    return said
