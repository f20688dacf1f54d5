"""`coordinator-state dashboard`; its Python twin is `streaming.dashboard.app.create_app`."""

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
    help="Folder of the tables of a cluster; several with a name each.",
)
@port_option(default=DEFAULT_PORT)
@option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; any other needs a token or --auth-header.",
)
@option(
    "--token",
    help="What visitors have to give, at least 16 characters; not on the command line, which "
    "others can read, but as COORDINATOR_STATE_TOKEN or in the config file.",
)
@option(
    "--auth-header",
    metavar="HEADER",
    help="A header that a reverse proxy puts into every request of who may see the page.",
)
@option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="A name that the page answers to, besides localhost, --host and IP addresses; repeatable. "
    "Others are refused, since a site could give its own name to this machine.",
)
@option(
    "--refresh",
    type=Duration(),
    default="5s",
    show_default=True,
    help="How often an open page is loaded again.",
)
@option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in a browser, where there is a screen.",
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
    """Show the tables as a web page: groups in trouble, since when and why.

    It reads the tables without Spark, changes nothing, and loads nothing from elsewhere. On another
    address than 127.0.0.1 it asks for the token of COORDINATOR_STATE_TOKEN (or `token` in the
    --config file). The Python twin is streaming.dashboard.app.create_app, a WSGI application.

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
            "a command line can be read by others: set COORDINATOR_STATE_TOKEN instead"
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
    """Folders by name; one alone may be without."""
    found: dict[str, str] = {}
    for given in folders:
        named = _NAMED.fullmatch(given)
        name, folder = named.groups() if named else ("tables", given)
        if name in found:
            raise click.UsageError(f"two folders have the name {name}: give each one, NAME=DIR")
        found[name] = folder
    return found
