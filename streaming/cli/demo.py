"""The command `coordinator-state demo`; its Python API is `streaming.local.demo.demo`."""

from __future__ import annotations

import math
from typing import Any

import click

from streaming.cli.options import option, output_option
from streaming.errors import ConfigurationError
from streaming.run.signals import interrupt_on_signals


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
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    seconds: float | None,
    dashboard: bool,
    offline: bool,
    kafka_version: str | None,
    folder: str | None,
    output: str,
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
    options: dict[str, Any] = {"output": output, "dashboard": dashboard}
    if offline:
        if kafka_version is not None:
            raise ConfigurationError("--offline starts no broker: remove --kafka-version")
        if folder is not None:
            raise ConfigurationError("--offline keeps no tables: remove --folder")
        from streaming.local.demo.offline import run_offline_demo as run
    else:
        from streaming.local.demo.demo import run_demo as run

        options["folder"] = folder
        if kafka_version is not None:
            options["kafka_version"] = kafka_version

    with interrupt_on_signals():
        ctx.exit(run(seconds=math.inf if seconds is None else seconds, **options))
