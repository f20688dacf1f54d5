"""The command `coordinator-state mcp`; its Python API is `streaming.agents.server`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from streaming.cli.serving import AccessOptions, opened_clusters, serve, serving_options


@click.command()
@serving_options(
    help="Serve HTTP on this port; 0 takes any free port. [default: serve stdin and stdout]"
)
def mcp(*, tables: tuple[str, ...], port: int | None, access: AccessOptions) -> None:
    """Serve the tables to AI agents, read-only (Model Context Protocol).

    Its tools find unhealthy consumer groups and explain the cause. As evidence they name the
    offsets of the records in __consumer_offsets. They read the tables without Spark and change
    nothing. Without --port, an MCP client starts the command and uses its stdin and stdout; the
    command exits when stdin closes. With --port, it serves HTTP at /mcp. On an address other than
    127.0.0.1 it asks for the token in COORDINATOR_STATE_TOKEN (or `token` in the --config file).
    Python API: streaming.agents.server.opened_server.

    \b
    Examples:
      coordinator-state mcp --tables tables
      coordinator-state mcp --tables prod=/data/prod --tables staging=/data/stage
      coordinator-state mcp --tables tables --port 8070
    """
    from streaming.agents.http import serving_agents
    from streaming.agents.server import opened_server
    from streaming.http.access_rules import AccessRules

    clusters = opened_clusters(tables)
    if port is None:
        with opened_server(clusters) as server:
            server.run("stdio")
        return
    allowed = AccessRules(*access)

    @contextmanager
    def serving_clusters() -> Iterator[str]:
        with opened_server(clusters) as server, serving_agents(server, allowed, port) as address:
            yield address

    serve(serving_clusters(), "the MCP server is at {address}")
