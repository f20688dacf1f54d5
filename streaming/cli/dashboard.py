"""The command `coordinator-state dashboard`; its Python API is `streaming.dashboard.app`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from streaming.cli.options import Duration, option, port_option, require_location
from streaming.run.signals import stop_on_signals
from streaming.run.stderr import write_note
from streaming.tables.locations import local_path

DEFAULT_PORT = 8050
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def _require_locations(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[str, ...]
) -> tuple[str, ...]:
    for given in folders:
        named = _NAMED.fullmatch(given)
        require_location(ctx, parameter, named[2] if named else given)
    return folders


@click.command()
@option(
    "--tables",
    callback=_require_locations,
    type=click.Path(),
    multiple=True,
    required=True,
    metavar="[NAME=]DIR",
    help="Tables folder of a cluster; repeatable. [default of NAME: the folder's own]",
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
      coordinator-state dashboard --tables /data/prod --tables staging=/data/stage
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
    clusters = clusters_of(tables)
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


def clusters_of(folders: Sequence[str]) -> dict[str, str]:
    """Tables folders by cluster name.

    A single folder needs no name. Of several, one without a name has that of its folder, with as
    many parent folders as make it different from the others.

    >>> clusters_of(["a/tables", "b/tables", "prod=/data"])
    {'a-tables': 'a/tables', 'b-tables': 'b/tables', 'prod': '/data'}
    """
    found: dict[str, str] = {}
    paths = [_path_of(given) for given in folders if _NAMED.fullmatch(given) is None]
    for given in folders:
        named = _NAMED.fullmatch(given)
        name, folder = named.groups() if named else (_name_of(_path_of(given), paths), given)
        if name in found:
            raise click.UsageError(f"two folders have the name {name}: give each its own, NAME=DIR")
        found[name] = folder
    return found


def _path_of(folder: str) -> list[str]:
    path = folder if local_path(folder) is None else str(local_path(folder))
    return [re.sub(r"[^A-Za-z0-9_.-]", "-", part) for part in path.split("/") if part]


def _name_of(path: list[str], paths: Sequence[list[str]]) -> str:
    if len(paths) == 1:
        return "tables"
    parts = 1
    while parts < len(path) and sum(other[-parts:] == path[-parts:] for other in paths) > 1:
        parts += 1
    return "-".join(path[-parts:]) or "tables"
