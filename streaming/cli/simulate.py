"""`coordinator-state simulate`; Python twin: `streaming.local.simulation.simulate.simulate`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from coordinator_state.replay.offsets import Semantics
from streaming.cli.options import (
    Duration,
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    output_option,
)
from streaming.views.output import output_of


@click.command()
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same seed makes the same log.",
)
@option(
    "--groups",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many there are; each commits for ten partitions.",
)
@option(
    "--records",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="How many are written, about.",
)
@option(
    "--workload",
    type=click.Choice(["groups", "commits"]),
    default="groups",
    show_default=True,
    help="All that groups do, or plain offset commits by the million.",
)
@option(
    "--commit-interval",
    type=Duration(),
    default="5s",
    show_default=True,
    help="How often a group commits, in the simulated time; a longer interval leaves more records "
    "of other types.",
)
@option(
    "--transactional",
    type=click.FloatRange(min=0, max=1),
    help="Share of the groups that commit in transactions. "
    "[default: 0.2; 0 with --bootstrap-servers, since only coordinators can end a transaction]",
)
@option(
    "--consumer-protocol",
    type=click.FloatRange(min=0, max=1),
    default=0.2,
    show_default=True,
    help="Share of the groups with members that use KIP-848's protocol; Kafka 3 has none.",
)
@option(
    "--compact",
    is_flag=True,
    help="Have the log cleaner run every ten minutes of the simulated time.",
)
@option(
    "--log-partitions",
    type=click.IntRange(min=1),
    help="Partitions of __consumer_offsets. [default: 1 with --file, as many as the cluster has "
    "with --bootstrap-servers, else 50]",
)
@option(
    "--semantics",
    type=click.Choice([semantics.value for semantics in Semantics]),
    default=Semantics.COORDINATOR.value,
    show_default=True,
    help="The coordinator of Kafka 4, or that of Kafka 3.",
)
@option("--file", metavar="FILE", help="Write a log segment; of several, a folder as a broker's.")
@option("--tables", metavar="DIR", help="Make tables of it, without a broker and without Spark.")
@optional_bootstrap_servers_option
@kafka_option
@output_option
@click.pass_context
def simulate(
    ctx: click.Context,
    /,
    *,
    seed: int,
    groups: int,
    records: int,
    workload: str,
    commit_interval: float,
    transactional: float | None,
    consumer_protocol: float,
    compact: bool,
    log_partitions: int | None,
    semantics: str,
    file: str | None,
    tables: str | None,
    bootstrap_servers: str | None,
    kafka: Mapping[str, str],
    output: str,
) -> None:
    """Write a log that coordinators could have written, without any.

    Groups join, commit, rebalance, use transactions, stop, expire and are deleted, in a time of
    their own: a model of the group coordinator answers them and writes its log. It goes into a
    file, into tables, or into the __consumer_offsets of a cluster that is there for tests: its
    coordinators take what is produced for true when they load next. The Python twin is
    streaming.local.simulation.simulate.simulate.

    \b
    Examples:
      coordinator-state simulate --seed 7 --groups 20 --records 5000 --file log
      coordinator-state simulate --workload commits --records 10000000 --file log
      coordinator-state simulate --groups 1000 --records 200000 --tables tables
      coordinator-state simulate --groups 20 --records 5000 --bootstrap-servers localhost:9092
    """
    from streaming.local.simulation.simulate import Simulation, simulate

    if sum(target is not None for target in (file, tables, bootstrap_servers)) != 1:
        raise click.UsageError("give one of --file, --tables and --bootstrap-servers", ctx)
    done = simulate(
        Simulation(
            seed=seed,
            groups=groups,
            records=records,
            workload=workload,
            commit_interval_ms=max(1, round(commit_interval * 1000)),
            transactional_share=transactional,
            consumer_share=consumer_protocol,
            compact=compact,
            log_partitions=log_partitions,
            semantics=Semantics(semantics),
        ),
        file=file,
        tables=tables,
        bootstrap_servers=bootstrap_servers,
        kafka=kafka,
    )
    output_of(output).result(
        done.to_json(),
        f"{done.records:,} records of {done.groups:,} groups in {done.log_partitions} log "
        f"partition{'s' if done.log_partitions > 1 else ''}, {done.bytes:,} bytes, "
        f"{done.seconds_simulated:,} s of their time: {done.where}",
    )
