"""The command `coordinator-state dashboard`; its Python API is `streaming.dashboard.app`."""

from __future__ import annotations

import click

from streaming.cli.options import Duration, option
from streaming.cli.serving import AccessOptions, opened_clusters, serve, serving_options

DEFAULT_PORT = 8050


@click.command()
@serving_options(default=DEFAULT_PORT)
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
def dashboard(
    *, tables: tuple[str, ...], port: int, access: AccessOptions, refresh: float, browser: bool
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

    allowed = Access(*access)
    serve(
        serving_page(opened_clusters(tables), access=allowed, refresh_s=refresh, port=port),
        "the page is at {address}",
        open_browser if browser else lambda _address: None,
    )
