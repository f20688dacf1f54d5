"""The options of commands that serve the tables: where they listen, and who gets access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from streaming.cli.options import option

_OPTIONS = (
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


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `host`, `token`, `auth_header` and `allowed_host`."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def require_secret_token(ctx: click.Context) -> None:
    """Refuse a token on the command line.

    Raises:
        click.UsageError: `--token` was given there.
    """
    if ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--token on the command line is visible to other users of this machine: set "
            "COORDINATOR_STATE_TOKEN instead"
        )


def refuse_without_port(ctx: click.Context) -> None:
    """Refuse options of HTTP on the command line of a server on stdin and stdout.

    Raises:
        click.UsageError: one of `access_options` was given there.
    """
    for name in ("host", "auth_header", "allowed_host"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} works only with HTTP: add --port")
