"""The command `coordinator-state simulate`; its Python API is `streaming.local.simulation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coordinator_state.replay.offsets import Semantics
from streaming.cli.options import (
    Choice,
    Duration,
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    output_option,
    require_location,
)
from streaming.run.stderr import warnings_only
from streaming.views.output import output_of


@click.command()
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Random seed; the same seed gives the same log.",
)
@option(
    "--groups",
    type=click.IntRange(min=1),
    default=100,
    help="Number of groups; each commits for ten partitions.",
)
@option(
    "--records",
    type=click.IntRange(min=1),
    default=100_000,
    help="Approximate number of records.",
)
@option(
    "--workload",
    type=Choice(["groups", "commits"]),
    default="groups",
    help="groups: every kind of group activity; commits: only offset commits, for large logs.",
)
@option(
    "--commit-interval",
    type=Duration(),
    default="5s",
    help="Simulated time between two commits of a group; a longer interval gives a larger share of "
    "other record types.",
)
@option(
    "--transactional",
    type=click.FloatRange(min=0, max=1),
    help="Share of the groups that commit in transactions. "
    "[default: 0.2; 0 with --bootstrap-servers, because only coordinators can end a transaction]",
)
@option(
    "--consumer-protocol",
    type=click.FloatRange(min=0, max=1),
    default=0.2,
    help="Share of the groups with members that use the protocol of KIP-848; not in Kafka 3.",
)
@option(
    "--compact",
    is_flag=True,
    help="Run the log cleaner every ten minutes of simulated time.",
)
@option(
    "--log-partitions",
    type=click.IntRange(min=1),
    help="Number of partitions of __consumer_offsets. [default: 1 with --file, the cluster's with "
    "--bootstrap-servers, else 50]",
)
@option(
    "--semantics",
    type=Choice([semantics.value for semantics in Semantics]),
    default=Semantics.COORDINATOR.value,
    help="Coordinator to simulate: coordinator (Kafka 4) or scala (Kafka 3).",
)
@option(
    "--scenario",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Play a YAML scenario instead (docs/scenarios.md), with samples and statuses; it ends "
    "now. Needs --tables, and takes no other option.",
)
@option(
    "--file",
    metavar="FILE",
    help="Write a log segment; with several log partitions, a folder like a broker's.",
)
@option(
    "--tables",
    metavar="DIR",
    callback=require_location,
    help="Write tables, without a broker or Spark.",
)
@optional_bootstrap_servers_option
@kafka_option
@output_option
@click.pass_context
def simulate(
    ctx: click.Context,
    /,
    *,
    commit_interval: float,
    transactional: float | None,
    consumer_protocol: float,
    semantics: str,
    scenario: str | None,
    file: str | None,
    tables: str | None,
    bootstrap_servers: str | None,
    kafka: Mapping[str, str],
    output: str,
    **simulation: Any,
) -> None:
    """Write a realistic __consumer_offsets log without a coordinator.

    In simulated time, groups join, commit, rebalance, use transactions, stop, expire and are
    deleted. A model of the group coordinator answers them and writes its log to a file, to tables,
    or to the __consumer_offsets of a cluster. Use only a test cluster: its coordinators accept the
    records as real state at their next load. Python API:
    streaming.local.simulation.simulate.simulate.

    \b
    Examples:
      coordinator-state simulate --seed 7 --groups 20 --records 5000 --file log
      coordinator-state simulate --workload commits --records 10000000 --file log
      coordinator-state simulate --groups 1000 --records 200000 --tables tables
      coordinator-state simulate --groups 20 --records 5000 --bootstrap-servers localhost:9092
      coordinator-state simulate --scenario scenario.yaml --tables tables
    """
    if scenario is not None:
        if tables is None:
            raise click.UsageError("--scenario needs --tables", ctx)
        _play(scenario, tables, output)
        return
    from streaming.local.simulation.simulate import Simulation, simulate

    if sum(target is not None for target in (file, tables, bootstrap_servers)) != 1:
        raise click.UsageError("give exactly one of --file, --tables and --bootstrap-servers", ctx)
    done = simulate(
        Simulation(
            commit_interval_ms=max(1, round(commit_interval * 1000)),
            transactional_share=transactional,
            consumer_share=consumer_protocol,
            semantics=Semantics(semantics),
            **simulation,
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
        f"{done.seconds_simulated:,} s of simulated time: {done.where}",
    )


def _play(file: str, tables: str, output: str) -> None:
    from datetime import timedelta

    from streaming.clock import utc_now
    from streaming.local.scenario.delta_tables import scenario_tables
    from streaming.local.scenario.scenario import load_scenario

    scenario = load_scenario(file)
    end = utc_now().replace(microsecond=0)
    begin = end - timedelta(seconds=scenario.lasts_s)
    with warnings_only():
        records = scenario_tables(scenario, tables, begin=begin)
    output_of(output).result(
        {
            "records": records,
            "groups": len(scenario.groups),
            "begin": begin,
            "end": end,
            "where": tables,
        },
        f"{records:,} records of {len(scenario.groups)} groups from {begin:%Y-%m-%dT%H:%M:%SZ} to "
        f"{end:%Y-%m-%dT%H:%M:%SZ}; see past moments with --as-of: {tables}",
    )
