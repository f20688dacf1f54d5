"""The commands `broker`, `demo` and `simulate`: brokers, groups and logs without a cluster.

Their Python APIs are `streaming.local.broker.embedded`, `streaming.local.demo` and
`streaming.local.simulation`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from coordinator_state.replay.offsets import Semantics
from streaming.cli.options import (
    DURATION,
    Choice,
    exit_with_difference,
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    optional_tables_option,
    output_option,
    usage_error,
)
from streaming.cli.signals import interrupt_on_signals, stop_on_signals
from streaming.errors import ConfigurationError
from streaming.run.stderr import warnings_only
from streaming.views.output import Output

if TYPE_CHECKING:
    from streaming.local.demo.report import DemoReport

_POLL_S = 0.5


@click.command()
@option(
    "--kafka-version",
    metavar="VERSION",
    help="Kafka version. 3.9.1, 4.0.0, 4.1.2, 4.2.0, 4.3.1 and 4.4.0 are tested, and their jars "
    "have locked checksums. [default: 4.4.0]",
)
@option(
    "--folder",
    metavar="DIR",
    help="Data folder of the broker; the folder of an earlier broker can be reused. "
    "[default: a temporary folder]",
)
@option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1. [default: a free port]")
@option(
    "--broker-property",
    multiple=True,
    metavar="KEY=VALUE",
    help="Broker property, such as offsets.topic.num.partitions=4; repeatable.",
)
@output_option
def broker(
    *,
    kafka_version: str | None,
    folder: str | None,
    port: int | None,
    broker_property: tuple[str, ...],
    output: Output,
) -> None:
    """Run a local Kafka broker until Ctrl-C, for trials and tests.

    Needs JDK 17 or later. Downloads Kafka's jars into a cache on first use. Listens on 127.0.0.1
    only. Python API: streaming.local.broker.embedded.EmbeddedBroker.

    \b
    Examples:
      coordinator-state broker --port 9092
      coordinator-state broker --kafka-version 3.9.1
      coordinator-state broker --folder kafka --broker-property offsets.topic.num.partitions=4
    """
    from streaming.local.broker.embedded import EmbeddedBroker
    from streaming.run.stderr import write_note

    properties = _pairs(broker_property)
    write_note("starting the broker; the first time its jars are fetched ...")
    with (
        interrupt_on_signals(),
        EmbeddedBroker(
            version=kafka_version, folder=folder, port=port, properties=properties
        ) as running,
    ):
        output.result(
            {
                "bootstrap_servers": running.bootstrap_servers,
                "kafka_version": running.version,
                "folder": str(running.folder),
                "log_file": str(running.log_file),
            },
            f"Kafka {running.version} on {running.bootstrap_servers}, "
            f"data and log in {running.folder}",
        )
        never = threading.Event()
        while running.is_running:
            never.wait(_POLL_S)
        raise RuntimeError(f"the broker exited unexpectedly, see {running.log_file}")


def _pairs(properties: tuple[str, ...]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in properties]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise ConfigurationError(f"--broker-property {name!r} is not KEY=VALUE")
    return {name: value for name, _, value in pairs}


@click.command()
@option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Duration of the traffic in seconds. [default: until Ctrl-C]",
)
@option(
    "--dashboard/--no-dashboard",
    default=True,
    help="Serve the page while the traffic runs, and open it if there is a display.",
)
@option(
    "--offline",
    is_flag=True,
    help="Simulate the groups without a broker: no download and no Java.",
)
@option(
    "--kafka-version",
    metavar="VERSION",
    help="Kafka version of the broker, such as 3.9.1. [default: 4.4.0]",
)
@option(
    "--folder",
    metavar="DIR",
    help="New or empty folder for tables, checkpoint and broker data, which are kept. [default: "
    "temporary, deleted at the end]",
)
@output_option
def demo(
    *,
    seconds: float | None,
    dashboard: bool,
    offline: bool,
    kafka_version: str | None,
    folder: str | None,
    output: Output,
) -> None:
    """Run a broker and ten consumer groups on this machine, and compare the tables with the broker.

    Starts a local Kafka broker and ten real consumer groups. One group commits in a transaction
    that never ends; another has an incident every minute. `demo` writes their log into tables,
    serves the page (see dashboard), and prints the answers of the tables beside those of the
    broker. It stops every process that it started. Python API:
    streaming.local.demo.demo.run_demo.

    \b
    Examples:
      coordinator-state demo --seconds 20
      coordinator-state demo --offline --seconds 20
      coordinator-state demo --kafka-version 3.9.1
      coordinator-state demo --seconds 200 --folder demo
      coordinator-state demo
    """
    seconds = math.inf if seconds is None else seconds
    if offline:
        if kafka_version is not None:
            raise ConfigurationError("--offline starts no broker: remove --kafka-version")
        if folder is not None:
            raise ConfigurationError("--offline keeps no tables: remove --folder")
        from streaming.local.demo.offline import run_offline_demo

        # Ctrl-C waits for the end of a step: an interrupted step would make the two sides differ.
        with (
            stop_on_signals() as stop,
            run_offline_demo(stop=stop, seconds=seconds, dashboard=dashboard) as report,
        ):
            show_report(report, output)
    else:
        from streaming.local.demo.demo import run_demo

        live = run_demo(
            seconds=seconds, folder=folder, dashboard=dashboard, kafka_version=kafka_version
        )
        with interrupt_on_signals(), live as report:
            show_report(report, output)
    if not report.is_equal:
        exit_with_difference()


def show_report(report: DemoReport, output: Output) -> None:
    """Print the report of a demo as one JSON object, or as tables and lines."""
    from streaming.cli.verify import show_differences

    if not output.is_text:
        sections = {section.name: section.rows for section in report.sections}
        fields = {"is_equal": report.is_equal, **sections, **report.facts}
        output.result({**fields, "verify": report.verification.to_json()}, "")
        return
    for section in report.sections:
        output.result({}, f"{section.title}\n")
        output.rows(section.rows, section.columns)
        output.result({}, "")
    lines = [*report.lines, f"verify: {report.verification.summary}"]
    output.result({}, "\n".join(lines))
    show_differences(report.verification, output)


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
    type=DURATION,
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
@optional_tables_option(help="Write tables, without a broker or Spark.")
@optional_bootstrap_servers_option()
@kafka_option
@output_option
def simulate(
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
    output: Output,
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
            raise usage_error("--scenario needs --tables")
        _play(scenario, tables, output)
        return
    from streaming.local.simulation.simulate import Simulation, simulate

    if sum(target is not None for target in (file, tables, bootstrap_servers)) != 1:
        raise usage_error("give exactly one of --file, --tables and --bootstrap-servers")
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
    output.result(
        done.to_json(),
        f"{done.records:,} records of {done.groups:,} groups in {done.log_partitions} log "
        f"partition{'s' if done.log_partitions > 1 else ''}, {done.bytes:,} bytes, "
        f"{done.seconds_simulated:,} s of simulated time: {done.where}",
    )


def _play(file: str, tables: str, output: Output) -> None:
    from datetime import timedelta

    from streaming.local.scenario.play import scenario_tables
    from streaming.local.scenario.scenario import load_scenario
    from streaming.tables.clock import utc_now

    scenario = load_scenario(file)
    end = utc_now().replace(microsecond=0)
    begin = end - timedelta(seconds=scenario.lasts_s)
    with warnings_only():
        records = scenario_tables(scenario, tables, begin=begin)
    output.result(
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
