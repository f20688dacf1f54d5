"""The command `coordinator-state api`; its Python API is `streaming.api.app`."""

from __future__ import annotations

import click

from streaming.cli.serving import AccessOptions, opened_clusters, serve, serving_options

DEFAULT_PORT = 8060


@click.command()
@serving_options(default=DEFAULT_PORT)
def api(*, tables: tuple[str, ...], port: int, access: AccessOptions) -> None:
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

    allowed = Access(*access)
    serve(
        serving_api(opened_clusters(tables), access=allowed, port=port),
        "the API is at {address}api/v1; description: {address}api/v1/openapi.json",
    )
