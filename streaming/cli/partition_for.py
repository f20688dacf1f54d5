"""The command `partition-for`; its Python API is `partition_for` and `locate_group`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS
from coordinator_state.replay.partitioner import partition_for as partition_of
from streaming.cli.options import (
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    output_option,
)
from streaming.run.stderr import write_note
from streaming.views.output import output_of


@click.command()
@click.argument("group")
@option(
    "--partitions",
    type=click.IntRange(min=1),
    help=f"Number of partitions of __consumer_offsets. [default: {DEFAULT_LOG_PARTITIONS}, or the "
    "topic's own with --bootstrap-servers]",
)
@optional_bootstrap_servers_option
@kafka_option
@output_option
@click.pass_context
def partition_for(
    ctx: click.Context,
    *,
    group: str,
    partitions: int | None,
    bootstrap_servers: str | None,
    kafka: Mapping[str, str],
    output: str,
) -> None:
    """Show the log partition and the coordinator of a group.

    With --bootstrap-servers, the command uses the partition count of the topic. It also shows the
    coordinator that the cluster reports, and exits with status 1 if that broker is not the leader
    of the log partition. Python API: coordinator_state.partition_for and
    streaming.kafka.group_location.locate_group.

    \b
    Examples:
      coordinator-state partition-for testgroup
      coordinator-state partition-for testgroup --bootstrap-servers localhost:9092
    """
    if bootstrap_servers is None:
        count = partitions or DEFAULT_LOG_PARTITIONS
        log_partition = partition_of(group, count)
        output_of(output).result(
            {"group_id": group, "log_partition": log_partition, "log_partitions": count},
            str(log_partition),
        )
        return
    if partitions is not None:
        raise click.UsageError("--partitions and --bootstrap-servers exclude each other")
    from streaming.kafka.group_location import locate_group

    location = locate_group(group, bootstrap_servers, kafka)
    output_of(output).result(
        {
            "group_id": group,
            "log_partition": location.log_partition,
            "log_partitions": location.log_partitions,
            "leader": location.leader,
            "coordinator": location.coordinator,
            "host": location.host,
            "port": location.port,
        },
        f"{location.log_partition}\n"
        f"coordinator: broker {location.coordinator} at {location.host}:{location.port}",
    )
    if location.coordinator != location.leader:
        write_note(
            f"broker {location.coordinator} is not the leader of log partition "
            f"{location.log_partition}: the leader is broker {location.leader}"
        )
        ctx.exit(1)
