"""What the servers share: the clusters that they serve, where they listen, and who gets access."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from streaming.cli.options import option, options, port_option, require_location
from streaming.run.signals import end_process, stop_on_signals
from streaming.run.stderr import write_note
from streaming.tables.locations import local_path

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


class AccessOptions(NamedTuple):
    """The arguments of `AccessRules`."""

    host: str
    token: str | None
    auth_header: str | None
    allowed_hosts: tuple[str, ...]


def _require_locations(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[str, ...]
) -> tuple[str, ...]:
    for given in folders:
        named = _NAMED.fullmatch(given)
        require_location(ctx, parameter, named[2] if named else given)
    return folders


_clusters_option = option(
    "--tables",
    callback=_require_locations,
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
        show_default=True,
        help="Address to listen on; a non-loopback address needs a token or --auth-header.",
    ),
    option(
        "--token",
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


def serving_options(**port: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the arguments `tables`, `port` and `access`.

    Args:
        port: attributes of the option `--port`. Without a default, the server is one on stdin and
            stdout if it is not given.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def checked(
            *,
            host: str,
            token: str | None,
            auth_header: str | None,
            allowed_host: tuple[str, ...],
            **own: Any,
        ) -> None:
            ctx = click.get_current_context()
            given = {
                name
                for name in ("token", "host", "auth_header", "allowed_host")
                if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            }
            if "token" in given:
                raise click.UsageError(
                    "--token on the command line is visible to other users of this machine: set "
                    "COORDINATOR_STATE_TOKEN instead"
                )
            for name in ("host", "auth_header", "allowed_host"):
                if own["port"] is None and name in given:
                    raise click.UsageError(
                        f"--{name.replace('_', '-')} works only with HTTP: add --port"
                    )
            command(access=AccessOptions(host, token, auth_header, allowed_host), **own)

        return options(_clusters_option, port_option(**port), _access_options)(checked)

    return add


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


def opened_clusters(folders: Sequence[str]) -> dict[str, str]:
    """Tables folders by cluster name; each of them can be read.

    Raises:
        ConfigurationError: a folder cannot be read.
        click.UsageError: two folders have the same name.
    """
    from streaming.tables.reader import TableReader

    clusters = clusters_of(folders)
    for folder in clusters.values():
        TableReader(folder)
    return clusters


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
            raise click.UsageError(
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
