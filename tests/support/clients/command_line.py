"""The command line, called in this process."""

from __future__ import annotations

import json
from typing import Any

import click
from click.testing import CliRunner, Result

from streaming.cli.main import cli

COMMANDS = sorted(
    [
        *cli.commands.items(),
        *(
            (f"{name} {inner}", command)
            for name, group in cli.commands.items()
            if isinstance(group, click.Group)
            for inner, command in group.commands.items()
        ),
    ]
)
"""By name; those of groups of commands too, as `alert run`."""
RUN = ["run", "--bootstrap-servers", "localhost:9092", "--tables", "tables"]
VERIFY = ["verify", "--bootstrap-servers", "localhost:9092", "--tables", "tables"]


def call(*arguments: str, exit_code: int = 0, **options: Any) -> Result:
    result = CliRunner().invoke(cli, list(arguments), **options)
    assert result.exit_code == exit_code, result.output
    return result


def json_lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]
