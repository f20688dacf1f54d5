"""The command `expiring-offsets`; its Python API is `CoordinatorTables.expiring_offsets`."""

from __future__ import annotations

from datetime import timedelta

import click

from streaming.cli.opened_tables import exit_if_unknown, opened_tables
from streaming.cli.options import (
    Duration,
    as_of_option,
    option,
    output_option,
    tables_option,
)
from streaming.clock import utc_now
from streaming.views.output import output_of

_COLUMNS = (
    *("group_id", "topic", "partition", "state", "committed_offset", "commit_timestamp"),
    *("expires_at", "reason"),
)


@click.command("expiring-offsets")
@tables_option
@option(
    "--retention",
    type=Duration(),
    help="Offsets retention, such as 7d. [default: the cluster's value at the last run]",
)
@option(
    "--within",
    type=Duration(),
    help="Only offsets that expire within this time: 60s, 5m, 1h or 7d.",
)
@option("--group", help="Only this group.")
@as_of_option
@output_option
@click.pass_context
def expiring_offsets(
    ctx: click.Context,
    *,
    tables: str,
    retention: float | None,
    within: float | None,
    group: str | None,
    as_of: str | None,
    output: str,
) -> None:
    """Show when each committed offset expires and why, soonest first.

    Applies the coordinator's expiration rules for the type and state of the group. "-" means never.
    A broker checks only every offsets.retention.check.interval.ms, and writes a tombstone for each
    expired offset. Exits with status 1 and a warning if the group of --group does not exist. Python
    API: CoordinatorTables.expiring_offsets.

    \b
    Examples:
      coordinator-state expiring-offsets --tables tables --within 24h
      coordinator-state expiring-offsets --tables tables --retention 30d
    """
    from streaming.views.snapshot import Snapshot

    reader = opened_tables(tables, as_of)
    retention_ms = None if retention is None else round(retention * 1000)
    rows = Snapshot(reader).expiring_offsets(retention_ms, group_id=group).to_pylist()
    if within is not None:
        last = utc_now() + timedelta(seconds=within)
        rows = [row for row in rows if row["expires_at"] is not None and row["expires_at"] <= last]
    output_of(output).rows(rows, _COLUMNS)
    if group is not None and not rows:
        exit_if_unknown(ctx, reader, group)
