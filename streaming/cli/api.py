"""The command `coordinator-state api`; its Python API is `streaming.api.app`."""

from __future__ import annotations

import click

from streaming.cli.access_options import access_options, require_secret_token
from streaming.cli.clusters import clusters_option, opened_clusters
from streaming.cli.options import port_option
from streaming.run.signals import end_process, stop_on_signals
from streaming.run.stderr import write_note

DEFAULT_PORT = 8060


@click.command()
@clusters_option
@port_option(default=DEFAULT_PORT)
@access_options
@click.pass_context
def api(
    ctx: click.Context,
    *,
    tables: tuple[str, ...],
    port: int,
    host: str,
    token: str | None,
    auth_header: str | None,
    allowed_host: tuple[str, ...],
) -> None:
    """Serve the HTTP API: JSON about groups, lag, events, transactions and alerts.

    /api/v1/openapi.json describes the endpoints. The endpoints below /v3/kafka answer as Burrow
    does. The API reads the tables without Spark and never writes. On an address other than
    127.0.0.1 it asks for the token in COORDINATOR_STATE_TOKEN (or `token` in the --config file), as
    a bearer token or as the password of HTTP Basic. `dashboard` serves the same API beside the
    page. Python API: streaming.api.app.create_app, a WSGI application.

    \b
    Examples:
      coordinator-state api --tables tables
      coordinator-state api --tables prod=/data/prod --tables staging=/data/stage --port 9000
      coordinator-state api --tables tables --host 0.0.0.0 --allowed-host kafka.example.org
    """
    from streaming.api.app import serving_api
    from streaming.http.access import Access

    require_secret_token(ctx)
    access = Access(host, token, auth_header, allowed_host)
    clusters = opened_clusters(tables)
    with (
        stop_on_signals() as stop,
        serving_api(clusters, access=access, port=port) as address,
    ):
        write_note(f"the API is at {address}api/v1; description: {address}api/v1/openapi.json")
        stop.wait()
    end_process()
