"""The command `coordinator-state dashboard`; its Python API is `streaming.dashboard.app`."""

from __future__ import annotations

import click

from streaming.cli.access_options import access_options, require_secret_token
from streaming.cli.clusters import clusters_option, opened_clusters
from streaming.cli.options import Duration, option, port_option
from streaming.run.signals import end_process, stop_on_signals
from streaming.run.stderr import write_note

DEFAULT_PORT = 8050


@click.command()
@clusters_option
@port_option(default=DEFAULT_PORT)
@access_options
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
    the --config file). The HTTP API is at /api/v1 of the same address; the command api serves
    only the API. Python API: streaming.dashboard.app.create_app, a WSGI application.

    \b
    Examples:
      coordinator-state dashboard --tables tables
      coordinator-state dashboard --tables /data/prod --tables staging=/data/stage
      coordinator-state dashboard --tables tables --port 9000 --no-browser
      coordinator-state dashboard --tables tables --host 0.0.0.0 --allowed-host kafka.example.org
    """
    from streaming.dashboard.app import serving_page
    from streaming.http.access import Access
    from streaming.http.server import open_browser

    require_secret_token(ctx)
    access = Access(host, token, auth_header, allowed_host)
    clusters = opened_clusters(tables)
    with (
        stop_on_signals() as stop,
        serving_page(clusters, access=access, refresh_s=refresh, port=port) as address,
    ):
        write_note(f"the page is at {address}")
        if browser:
            open_browser(address)
        stop.wait()
    end_process()
