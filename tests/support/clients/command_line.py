"""The command line, called in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from streaming.cli.main import cli


def _commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix}{name} ")


COMMANDS = dict(sorted(_commands(cli)))
"""By name; those of groups of commands too, as `alert run`."""
RUN = ["run", "--bootstrap-servers", "localhost:9092", "--tables", "tables"]
VERIFY = ["verify", "--bootstrap-servers", "localhost:9092", "--tables", "tables"]


def call(*arguments: str, exit_code: int = 0, **options: Any) -> Result:
    result = CliRunner().invoke(cli, list(arguments), **options)
    assert result.exit_code == exit_code, result.output
    return result


def json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]
