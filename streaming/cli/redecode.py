"""The command `coordinator-state redecode`; its Python API is `streaming.run.redecode`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from coordinator_state.insight.group_status import count_text
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
    """Decode quarantined records again, after an upgrade that supports more record types.

    Group records that can now be decoded move to coordinator_records, and their groups are rebuilt.
    An offset commit leaves the quarantine if a later commit of its key is in the tables. For other
    commits the tables cannot tell whether they are still valid: reload their log partition. Stop
    `run` first. In an object store, a `run` that is still writing is fenced and exits. The command
    is idempotent. With --bootstrap-servers it asks the cluster for topic names. Python API:
    streaming.run.redecode.redecode.

    \b
    Examples:
      coordinator-state redecode --tables tables
      coordinator-state redecode --tables tables --bootstrap-servers localhost:9092 --output json
    """
    from streaming.run.redecode import redecode as redecode_tables

    redecoded = redecode_tables(tables, bootstrap_servers=bootstrap_servers, kafka=kafka)
    output_of(output).result(asdict(redecoded), "\n".join(_sentences(redecoded)))


def _sentences(redecoded: Redecoded) -> list[str]:
    decoded = redecoded.applied + redecoded.superseded
    lines = [
        f"{decoded} quarantined records decoded: {redecoded.applied} applied to "
        f"{redecoded.groups} groups, {redecoded.superseded} superseded by later ones"
    ]
    lines += [
        f"{count} offset commits of log partition {log_partition} can be decoded, but their "
        "outcome is unknown: reload that log partition with `coordinator-state reload`"
        for log_partition, count in sorted(redecoded.waiting.items())
    ]
    lines += [
        f"{count_text(count, 'record')} {'stays' if count == 1 else 'stay'} in quarantine: {reason}"
        for reason, count in sorted(redecoded.undecodable.items())
    ]
    return lines
