"""The command `coordinator-state dashboard`; its Python API is `streaming.dashboard.app`."""

from __future__ import annotations

import re

import click

from streaming.cli.options import Duration, option, port_option
from streaming.run.signals import stop_on_signals
from streaming.run.stderr import write_note

DEFAULT_PORT = 8050
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


@click.command()
@option(
    "--tables",
    type=click.Path(),
    multiple=True,
    required=True,
    metavar="[NAME=]DIR",
    help="Tables folder of a cluster; repeatable, each with a NAME.",
)
@port_option(default=DEFAULT_PORT)
@option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; a non-loopback address needs a token or --auth-header.",
)
@option(
    "--token",
    help="Token of at least 16 characters that visitors must enter. Set COORDINATOR_STATE_TOKEN or "
    "the config file: it is refused on the command line, which other users can read.",
)
@option(
    "--auth-header",
    metavar="HEADER",
    help="Header that a reverse proxy adds to each request of an authenticated user.",
)
@option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="Host name to accept besides localhost, --host and IP addresses; repeatable. Requests for "
    "other names are refused, as protection against DNS rebinding.",
)
@option(
    "--refresh",
    type=Duration(),
    default="5s",
    show_default=True,
    help="Time between two refreshes of an open page.",
)
@option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in a browser if there is a display.",
)
@click.pass_context
def dashboard(
    ctx: click.Context,
    *,
    tables: tuple[str, ...],
    port: int,
    host: str,
    token: str | None,
    auth_header: str | None,
    allowed_host: tuple[str, ...],
    refresh: float,
    browser: bool,
) -> None:
    """Serve a web page with the unhealthy groups, the reasons and the start times.

    The page reads the tables without Spark and never writes. It loads nothing from other hosts. On
    an address other than 127.0.0.1 it asks for the token in COORDINATOR_STATE_TOKEN (or `token` in
    the --config file). Python API: streaming.dashboard.app.create_app, a WSGI application.

    \b
    Examples:
      coordinator-state dashboard --tables tables
      coordinator-state dashboard --tables prod=/data/prod --tables stage=/data/stage
      coordinator-state dashboard --tables tables --port 9000 --no-browser
      coordinator-state dashboard --tables tables --host 0.0.0.0 --allowed-host kafka.example.org
    """
    from streaming.dashboard.access import Access
    from streaming.dashboard.app import serving_page
    from streaming.metrics.server import open_browser
    from streaming.tables.reader import TableReader

    if ctx.get_parameter_source("token") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--token is visible to other users of this machine: set COORDINATOR_STATE_TOKEN instead"
        )
    clusters = _clusters(tables)
    for folder in clusters.values():
        TableReader(folder)
    access = Access(host, token, auth_header, allowed_host)
    with (
        stop_on_signals() as stop,
        serving_page(clusters, access=access, refresh_s=refresh, port=port) as address,
    ):
        write_note(f"the page is at {address}")
        if browser:
            open_browser(address)
        stop.wait()


def _clusters(folders: tuple[str, ...]) -> dict[str, str]:
    """Tables folders by cluster name; a single folder needs no name."""
    found: dict[str, str] = {}
    for given in folders:
        named = _NAMED.fullmatch(given)
        name, folder = named.groups() if named else ("tables", given)
        if name in found:
            raise click.UsageError(f"two folders have the name {name}: give each its own, NAME=DIR")
        found[name] = folder
    return found
