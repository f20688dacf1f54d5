"""The commands `offsets`, `explain`, `expiring-offsets` and `partition-for`: one group at a time.

Their Python APIs are `streaming.views.offset_fetch`, `CoordinatorTables.explain`,
`CoordinatorTables.expiring_offsets`, and `partition_for` with `locate_group`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import timedelta

import click

from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS
from coordinator_state.replay.partitioner import partition_for as partition_of
from streaming.cli.opened_tables import (
    exit_if_nothing_is_current,
    exit_if_unknown,
    exit_without_rows,
    opened_tables,
)
from streaming.cli.options import (
    DURATION,
    as_of_option,
    exit_with_difference,
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    output_option,
    tables_option,
    usage_error,
)
from streaming.errors import ConfigurationError
from streaming.run.stderr import write_note
from streaming.tables.clock import utc_now
from streaming.views.output import Output


@click.command()
@click.argument("group")
@click.argument("partitions", nargs=-1, metavar="[TOPIC:PARTITION]...")
@tables_option
@option(
    "--require-stable", is_flag=True, help="Answer UNSTABLE_OFFSET_COMMIT for a pending offset."
)
@as_of_option
@output_option
def offsets(
    *,
    group: str,
    partitions: tuple[str, ...],
    tables: str,
    require_stable: bool,
    as_of: str | None,
    output: Output,
) -> None:
    """Answer OffsetFetch for a group, including error codes.

    Without partitions, shows all committed offsets of GROUP. A partition without a committed offset
    has -1. A log partition that is still loading answers COORDINATOR_LOAD_IN_PROGRESS. A log
    partition that is not in the tables answers NOT_COORDINATOR. A warning counts log partitions
    that are not current yet. Exits with status 1 and a warning if none is current, or if the group
    does not exist (DescribeGroups: GROUP_ID_NOT_FOUND). Python API: offset_fetch in
    streaming.views.offset_fetch.

    \b
    Examples:
      coordinator-state offsets payments --tables tables
      coordinator-state offsets payments orders:0 orders:1 --tables tables --output json
    """
    from streaming.kafka.offset_fetch import NO_ERROR, OffsetFetchAnswer
    from streaming.views.offset_fetch import offset_fetch

    named = [_topic_partition(text) for text in partitions] or None
    reader = opened_tables(tables, as_of, warns_if_stale=True)
    answers = offset_fetch(reader, group, named, require_stable=require_stable)
    columns = [field.name for field in fields(OffsetFetchAnswer)]
    output.rows((asdict(answer) for answer in answers), columns)
    exit_if_nothing_is_current(reader)
    if all(answer.error == NO_ERROR for answer in answers):
        exit_if_unknown(reader, group)


def _topic_partition(text: str) -> tuple[str, int]:
    topic, colon, partition = text.rpartition(":")
    if not colon or not topic or not partition.isdecimal():
        raise ConfigurationError(f"{text!r} is not TOPIC:PARTITION")
    return topic, int(partition)


@click.command()
@click.argument("group")
@tables_option
@as_of_option
@output_option
def explain(*, group: str, tables: str, as_of: str | None, output: Output) -> None:
    """Explain why GROUP is behind, since when, and what changed just before.

    Prints up to six lines of evidence, the most direct cause first. Each names the records in
    __consumer_offsets or the SQL query that shows it. Looks at the last hour: members, rebalances,
    deploys, resets, transactions, commits, and the rates of producers and of the group. Exits with
    status 1 and a warning if the group is unknown. Python API: CoordinatorTables.explain.

    \b
    Examples:
      coordinator-state explain payments --tables tables
      coordinator-state explain payments --tables tables --as-of 2026-11-21T03:14:00Z
      coordinator-state explain payments --tables tables --output json
    """
    from streaming.views.diagnosis import explained, explanation_fields, explanation_text

    reader = opened_tables(tables, as_of, warns_if_stale=True)
    explanation = explained(reader, group)
    if explanation is None:
        exit_without_rows(reader, group, f"the tables have no data about group {group}")
    output.result(explanation_fields(explanation), explanation_text(explanation))


_COLUMNS = (
    *("group_id", "topic", "partition", "state", "committed_offset", "commit_timestamp"),
    *("expires_at", "reason"),
)


@click.command("expiring-offsets")
@tables_option
@option(
    "--retention",
    type=DURATION,
    help="Offsets retention, such as 7d. [default: the cluster's value at the last run]",
)
@option(
    "--within",
    type=DURATION,
    help="Only offsets that expire within this time: 60s, 5m, 1h or 7d.",
)
@option("--group", help="Only this group.")
@as_of_option
@output_option
def expiring_offsets(
    *,
    tables: str,
    retention: float | None,
    within: float | None,
    group: str | None,
    as_of: str | None,
    output: Output,
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
    output.rows(rows, _COLUMNS)
    if group is not None and not rows:
        exit_if_unknown(reader, group)


@click.command()
@click.argument("group")
@option(
    "--partitions",
    type=click.IntRange(min=1),
    help=f"Number of partitions of __consumer_offsets. [default: {DEFAULT_LOG_PARTITIONS}, or the "
    "topic's own with --bootstrap-servers]",
)
@optional_bootstrap_servers_option()
@kafka_option
@output_option
def partition_for(
    *,
    group: str,
    partitions: int | None,
    bootstrap_servers: str | None,
    kafka: Mapping[str, str],
    output: Output,
) -> None:
    """Show the log partition and the coordinator of a group.

    With --bootstrap-servers, the command uses the partition count of the topic. It also shows the
    coordinator that the cluster reports, and exits with status 1 if that broker is not the leader
    of the log partition. Python API: coordinator_state.partition_for and
    streaming.kafka.group_admin.locate_group.

    \b
    Examples:
      coordinator-state partition-for testgroup
      coordinator-state partition-for testgroup --bootstrap-servers localhost:9092
    """
    if bootstrap_servers is None:
        count = partitions or DEFAULT_LOG_PARTITIONS
        log_partition = partition_of(group, count)
        output.result(
            {"group_id": group, "log_partition": log_partition, "log_partitions": count},
            str(log_partition),
        )
        return
    if partitions is not None:
        raise usage_error("--partitions and --bootstrap-servers exclude each other")
    from streaming.kafka.group_admin import locate_group

    location = locate_group(group, bootstrap_servers, kafka)
    output.result(
        {"group_id": group, **asdict(location)},
        f"{location.log_partition}\n"
        f"coordinator: broker {location.coordinator} at {location.host}:{location.port}",
    )
    if location.coordinator != location.leader:
        write_note(
            f"broker {location.coordinator} is not the leader of log partition "
            f"{location.log_partition}: the leader is broker {location.leader}"
        )
        exit_with_difference()
