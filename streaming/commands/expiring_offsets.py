"""`coordinator-state expiring-offsets`; its Python twin is in `streaming.answers`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import click

from streaming.commands.options import (
    Duration,
    as_of_option,
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    output_option,
    tables_option,
)
from streaming.output import output_of

_COLUMNS = (
    *("group_id", "topic", "partition", "state", "committed_offset", "commit_timestamp"),
    *("expires_at", "reason"),
)


@click.command("expiring-offsets")
@tables_option
@optional_bootstrap_servers_option
@option(
    "--retention",
    type=Duration(),
    help="offsets.retention.minutes of the cluster, as 7d; without, the cluster is asked.",
)
@option("--within", type=Duration(), help="Only those that expire within 60s, 5m, 1h or 7d.")
@option("--group", help="Only this group.")
@as_of_option
@kafka_option
@output_option
def expiring_offsets(
    *,
    tables: str,
    bootstrap_servers: str | None,
    retention: float | None,
    within: float | None,
    group: str | None,
    as_of: str | None,
    kafka: Mapping[str, str],
    output: str,
) -> None:
    """Tell when each committed offset expires, soonest first, and why.

    By the rules of the coordinator's clean-up for each type and state of group; "-" is never. A
    broker looks at intervals (offsets.retention.check.interval.ms), and what it has expired shows
    as a tombstone. The Python twin is expiring_offsets in streaming.answers.expiring_offsets.

    \b
    Examples:
      coordinator-state expiring-offsets --tables tables --bootstrap-servers localhost:9092
      coordinator-state expiring-offsets --tables tables --retention 7d --within 24h
    """
    from streaming.answers.expiring_offsets import expiring_offsets as view
    from streaming.tables.reader import TableReader, parse_as_of

    reader = TableReader(tables, as_of=None if as_of is None else parse_as_of(as_of))
    if retention is not None:
        retention_ms = round(retention * 1000)
    elif bootstrap_servers is not None:
        retention_ms = _retention_ms(bootstrap_servers, kafka)
    else:
        raise click.UsageError("give --retention, or --bootstrap-servers to ask the cluster")
    rows = view(reader, retention_ms, None if group is None else [group]).to_pylist()
    if within is not None:
        last = datetime.now(timezone.utc) + timedelta(seconds=within)
        rows = [row for row in rows if row["expires_at"] is not None and row["expires_at"] <= last]
    output_of(output).rows(rows, _COLUMNS)


def _retention_ms(bootstrap_servers: str, kafka: Mapping[str, str]) -> int:
    from streaming.kafka.client_config import kafka_client_config
    from streaming.kafka.group_admin import GroupAdmin

    with GroupAdmin(bootstrap_servers, kafka_client_config(kafka)) as admin:
        return admin.offsets_retention_ms()
