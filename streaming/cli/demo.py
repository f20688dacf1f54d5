"""`coordinator-state demo`; its Python twin is `streaming.local.demo.demo.run_demo`."""

from __future__ import annotations

import math

import click

from streaming.cli.options import option, output_option
from streaming.run.signals import interrupt_on_sigterm


@click.command()
@option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="How long the traffic runs. [default: until Ctrl-C]",
)
@option(
    "--dashboard/--no-dashboard",
    default=True,
    help="Serve the page while the traffic runs, and open it where there is a screen.",
)
@option(
    "--offline",
    is_flag=True,
    help="Simulated groups in place of a broker: nothing is fetched, no Java is needed.",
)
@output_option
@click.pass_context
def demo(
    ctx: click.Context, *, seconds: float | None, dashboard: bool, offline: bool, output: str
) -> None:
    """Run it all on this machine: broker, live groups, query, both answers.

    Starts a Kafka broker on this machine, lets several real consumer groups commit (one of them
    in a transaction that never ends; to another an incident happens every minute), materialises
    their log, serves the page (see dashboard), and prints what the tables say beside what the
    broker says. Leaves nothing running. The Python twin is
    streaming.local.demo.demo.run_demo.

    \b
    Examples:
      coordinator-state demo --seconds 20
      coordinator-state demo --offline --seconds 20
      coordinator-state demo
    """
    if offline:
        from streaming.local.demo.offline import run_offline_demo as run
    else:
        from streaming.local.demo.demo import run_demo as run

    with interrupt_on_sigterm():
        ctx.exit(
            run(
                seconds=math.inf if seconds is None else seconds,
                output=output,
                dashboard=dashboard,
            )
        )
