"""The commands `api`, `dashboard`, `mcp` and `metrics`: servers that read tables.

They share the clusters that they serve, where they listen, and who gets access. Their Python APIs
are `streaming.api.app`, `streaming.dashboard.app`, `streaming.agents.server` and
`streaming.metrics`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from streaming.cli.options import (
    DURATION,
    Choice,
    Command,
    option,
    options,
    port_option,
    require_location,
    tables_option,
    usage_error,
)
from streaming.cli.signals import end_process, stop_on_signals
from streaming.run.stderr import write_note
from streaming.tables.locations import local_path

if TYPE_CHECKING:
    from streaming.http.access import Access

API_PORT = 8060
DASHBOARD_PORT = 8050
METRICS_PORT = 8000
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def _clusters(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[str, ...]
) -> dict[str, str]:
    clusters = clusters_of(folders)
    for folder in clusters.values():
        require_location(ctx, parameter, folder)
    return clusters


def _refuse_on_command_line(
    ctx: click.Context, _parameter: click.Parameter, token: str | None
) -> str | None:
    if ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE:
        raise usage_error(
            "--token on the command line is visible to other users of this machine: set "
            "COORDINATOR_STATE_TOKEN instead"
        )
    return token


_clusters_option = option(
    "--tables",
    callback=_clusters,
    type=click.Path(),
    multiple=True,
    required=True,
    metavar="[NAME=]DIR",
    help="Tables folder of a cluster; repeatable. NAME defaults to tables if there is one folder, "
    "and to the last part of the path if there are several.",
)
_access_options = options(
    option(
        "--host",
        default="127.0.0.1",
        help="Address to listen on; a non-loopback address needs a token or --auth-header.",
    ),
    option(
        "--token",
        callback=_refuse_on_command_line,
        help="Token that clients must send; at least 16 characters. Set it in "
        "COORDINATOR_STATE_TOKEN or in the config file. It is refused on the command line, which "
        "other users of this machine can read.",
    ),
    option(
        "--auth-header",
        metavar="HEADER",
        help="Header that a reverse proxy adds to each request of an authenticated user.",
    ),
    option(
        "--allowed-host",
        multiple=True,
        metavar="NAME",
        help="Host name to accept besides localhost, --host and IP addresses; repeatable. Requests "
        "for other names are refused, as protection against DNS rebinding.",
    ),
)


def serving_options(**port: Any) -> Callable[[Command], Command]:
    """Give a command the argument `tables`, with clusters by name, `port`, and those of `_access`.

    Args:
        port: attributes of the option `--port`.
    """
    return options(_clusters_option, port_option(**port), _access_options)


def _access(
    *, host: str, token: str | None, auth_header: str | None, allowed_host: tuple[str, ...]
) -> Access:
    from streaming.http.access import Access

    return Access(host, token, auth_header, allowed_host)


def serve(
    server: AbstractContextManager[str],
    note: str,
    on_start: Callable[[str], object] = lambda _address: None,
) -> None:
    """Serve until Ctrl-C or SIGTERM, and end the process.

    Args:
        server: listens while it is entered, and gives its address.
        note: the line on stderr at the start, with `{address}`.
        on_start: called with the address.
    """
    with stop_on_signals() as stop, server as address:
        write_note(note.format(address=address))
        on_start(address)
        stop.wait()
    end_process()


def require_tables(clusters: Mapping[str, str]) -> None:
    """Check that the tables of each cluster can be read.

    Raises:
        ConfigurationError: a folder cannot be read.
    """
    from streaming.tables.reader import TableReader

    for folder in clusters.values():
        TableReader(folder)


def clusters_of(folders: Sequence[str]) -> dict[str, str]:
    """Tables folders by cluster name.

    A single folder needs no name. Of several, one without a name has that of its folder, with as
    many parent folders as make it different from the others.

    >>> clusters_of(["a/tables", "b/tables", "prod=/data"])
    {'a-tables': 'a/tables', 'b-tables': 'b/tables', 'prod': '/data'}

    Raises:
        click.UsageError: two folders have the same name.
    """
    folder_by_name: dict[str, str] = {}
    paths = [_path_of(given) for given in folders if _NAMED.fullmatch(given) is None]
    for given in folders:
        named = _NAMED.fullmatch(given)
        name, folder = named.groups() if named else (_name_of(_path_of(given), paths), given)
        if name in folder_by_name:
            raise usage_error(
                f"two --tables folders have the name {name}: give each another name with NAME=DIR"
            )
        folder_by_name[name] = folder
    return folder_by_name


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


@click.command()
@serving_options(default=API_PORT)
def api(*, tables: dict[str, str], port: int, **access: Any) -> None:
    """Serve the HTTP API: JSON about groups, lag, events, transactions and alerts.

    /api/v1/openapi.json describes the endpoints. The endpoints below /v3/kafka answer as Burrow
    does. The API reads the tables without Spark and never writes. On an address other than
    127.0.0.1 it asks for the token in COORDINATOR_STATE_TOKEN (or `token` in the --config file), as
    a bearer token or as the password of HTTP Basic. `dashboard` serves the same API beside the
    page. Python API: streaming.api.app.create_app, an ASGI application.

    \b
    Examples:
      coordinator-state api --tables tables
      coordinator-state api --tables prod=/data/prod --tables staging=/data/stage --port 9000
      coordinator-state api --tables tables --host 0.0.0.0 --allowed-host kafka.example.org
    """
    from streaming.api.app import serving_api

    allowed = _access(**access)
    require_tables(tables)
    serve(
        serving_api(tables, access=allowed, port=port),
        "the API is at {address}api/v1; description: {address}api/v1/openapi.json",
    )


@click.command()
@serving_options(default=DASHBOARD_PORT)
@option(
    "--refresh",
    type=DURATION,
    default="5s",
    help="Time between two refreshes of an open page.",
)
@option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in a browser if there is a display.",
)
def dashboard(
    *, tables: dict[str, str], port: int, refresh: float, browser: bool, **access: Any
) -> None:
    """Serve a web page with the unhealthy groups, the reasons and the start times.

    The page reads the tables without Spark and never writes. It loads nothing from other hosts. On
    an address other than 127.0.0.1 it asks for the token in COORDINATOR_STATE_TOKEN (or `token` in
    the --config file). The HTTP API is at /api/v1 of the same address; the command api serves
    only the API. Python API: streaming.dashboard.app.create_app, an ASGI application.

    \b
    Examples:
      coordinator-state dashboard --tables tables
      coordinator-state dashboard --tables /data/prod --tables staging=/data/stage
      coordinator-state dashboard --tables tables --port 9000 --no-browser
      coordinator-state dashboard --tables tables --host 0.0.0.0 --allowed-host kafka.example.org
    """
    from streaming.dashboard.app import serving_page
    from streaming.http.server import open_browser

    allowed = _access(**access)
    require_tables(tables)
    serve(
        serving_page(tables, access=allowed, refresh_s=refresh, port=port),
        "the page is at {address}",
        open_browser if browser else lambda _address: None,
    )


@click.command()
@serving_options(
    help="Serve HTTP on this port; 0 takes any free port. [default: serve stdin and stdout]"
)
@click.pass_context
def mcp(ctx: click.Context, /, *, tables: dict[str, str], port: int | None, **access: Any) -> None:
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
    from streaming.agents.server import opened_server, serve_on_stdio

    for name in access if port is None else ():
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise usage_error(f"--{name.replace('_', '-')} works only with HTTP: add --port")
    require_tables(tables)
    if port is None:
        with opened_server(tables) as server:
            serve_on_stdio(server)
        return
    allowed = _access(**access)

    @contextmanager
    def serving_clusters() -> Iterator[str]:
        with opened_server(tables) as server, serving_agents(server, allowed, port) as address:
            yield address

    serve(serving_clusters(), "the MCP server is at {address}")


@click.command()
@tables_option
@port_option(default=METRICS_PORT)
@option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on; 0.0.0.0 for all interfaces. Everyone who can reach it can read the "
    "metrics.",
)
@option(
    "--names",
    type=Choice(["lag-exporter", "kminion"]),
    default="lag-exporter",
    help="Names of the lag and offset metrics: those of kafka-lag-exporter or of kminion.",
)
@option("--cluster-name", help="Value of the label cluster_name. [default: the cluster id]")
@option(
    "--by",
    type=Choice(["partition", "topic", "group"]),
    default="partition",
    help="Most detailed series to serve: per partition, topic or group.",
)
@option(
    "--max-series",
    type=click.IntRange(min=0),
    default=100_000,
    help="Maximum number of series of alerts, groups, topics and partitions. A series counts once "
    "more for each further 512 bytes of labels. Above the maximum, series of partitions are "
    "dropped first, and series of healthy groups before those of other groups.",
)
@option(
    "--collect-interval",
    type=DURATION,
    default="5s",
    help="Time between two reads of the tables while scrapes arrive. After a slow read, the pause "
    "is as long as the read.",
)
def metrics(
    *,
    tables: str,
    port: int,
    host: str,
    names: str,
    cluster_name: str | None,
    by: str,
    max_series: int,
    collect_interval: float,
) -> None:
    """Serve /metrics for Prometheus: lag, status, freshness and accounting.

    While scrapes arrive, the command reads the tables every five seconds (--collect-interval). A
    scrape gets the cached result of the last read. deploy/ has a Grafana dashboard and Prometheus
    alert rules.
    Python API: streaming.metrics.endpoint.create_app, an ASGI application, and
    streaming.metrics.collector.TablesCollector, for your own registry.

    \b
    Examples:
      coordinator-state metrics --tables tables
      coordinator-state metrics --tables tables --port 9308 --by topic
      coordinator-state metrics --tables tables --max-series 20000 --collect-interval 30s
    """
    from streaming.http.own_names import on_loopback
    from streaming.http.server import serving
    from streaming.metrics.collector import TablesCollector
    from streaming.metrics.endpoint import create_app
    from streaming.metrics.families import NAMES
    from streaming.metrics.scrapes import Scrapes
    from streaming.tables.reader import TableReader

    TableReader(tables)
    collector = TablesCollector(
        tables=tables,
        cluster_name=cluster_name,
        names=NAMES[names],
        by=by,
        max_series=max_series,
    )
    scrapes = Scrapes(collector.collect, collect_interval)
    app = on_loopback(create_app(scrapes), host)

    @contextmanager
    def serving_scrapes() -> Iterator[str]:
        with scrapes.ahead(), serving(app, host=host, port=port) as address:
            yield address

    serve(serving_scrapes(), "metrics are at {address}metrics")
