"""The command `coordinator-state mcp`; its Python API is `streaming.agents.server`."""

from __future__ import annotations

import click

from streaming.cli.access_options import access_options, refuse_without_port, require_secret_token
from streaming.cli.clusters import clusters_option, opened_clusters
from streaming.cli.options import port_option
from streaming.run.signals import end_process, stop_on_signals
from streaming.run.stderr import write_note


@click.command()
@clusters_option
@port_option(
    help="Serve HTTP on this port; 0 takes any free port. [default: serve stdin and stdout]"
)
@access_options
@click.pass_context
def mcp(
    ctx: click.Context,
    *,
    tables: tuple[str, ...],
    port: int | None,
    host: str,
    token: str | None,
    auth_header: str | None,
    allowed_host: tuple[str, ...],
) -> None:
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

    require_secret_token(ctx)
    if port is None:
        refuse_without_port(ctx)
    clusters = opened_clusters(tables)
    if port is None:
        with opened_server(clusters) as server:
            server.run("stdio")
        return
    access = AccessRules(host, token, auth_header, allowed_host)
    with (
        stop_on_signals() as stop,
        opened_server(clusters) as server,
        serving_agents(server, access, port) as address,
    ):
        write_note(f"the MCP server is at {address}")
        stop.wait()
    end_process()
