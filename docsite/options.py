"""docs/options.md: every setting as a key of the config file, an option and a variable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from docsite.commands import Command, commands, default_of, help_of, value_of
from docsite.markdown import anchor, block, code, page, paragraph, prose, table
from streaming.cli.main import SHARED_OPTIONS
from streaming.cli.options import MappingOption
from streaming.run.settings import RunSettings

EXAMPLE: Final = """
bootstrap_servers = "broker-1:9092,broker-2:9092"
tables = "/data/tables"
trigger = "5 seconds"
history_retention = "14 days"
external = ["enricher=spark:/data/checkpoints/enricher"]
http_port = 8000
log_format = "json"

[status_rules]
stop_after = "2m"

[kafka]
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.plain.username" = "reader"
"sasl.plain.password.file" = "/run/secrets/kafka_password"
"""
"""A config file for `run`."""

_RUN: Final = "run"


def options() -> str:
    """The page."""
    command_by_name = {command.name: command for command in commands()}
    return page(
        "Options and the config file",
        paragraph(
            "This page lists every setting as a key of the config file, an option and an "
            "environment variable, for people who configure a service."
        ),
        paragraph(
            "A setting can come from three places. The command line overrides the environment, and "
            "the environment overrides the file that `--config` names."
        ),
        table(["place", "form", "lists", "flags"], _FORMS),
        paragraph(
            "One file can configure several commands: a command ignores keys that only other "
            "commands have. A key that no command has is an error. A dash in a key means an "
            "underscore. Values in the file have the same forms as on the command line; numbers "
            "need no quotes."
        ),
        paragraph(
            "Some keys have different values in different commands, such as `topics`, `output` and "
            "`log_partitions`. Then give each command its own file."
        ),
        paragraph(
            "A variable in the environment whose name is nearly that of an option causes a warning."
        ),
        block(EXAMPLE, "toml"),
        "## Kafka properties and secrets",
        *map(paragraph, _KAFKA),
        "## Settings of `run`",
        paragraph(
            "The Python class `streaming.run.settings.RunSettings` has fields of these names. "
            "[command-line.md](command-line.md#run) has the options in the order of `--help`."
        ),
        _settings(command_by_name[_RUN]),
        "## Options of other commands",
        paragraph(
            "A key sets the option of every command that has it. The commands are links to their "
            "descriptions."
        ),
        table(
            ["key", "environment variable", "value", "commands"],
            _rows_of_others(
                [command for command in command_by_name.values() if command.name != _RUN]
            ),
        ),
    )


_FORMS: Final[Sequence[tuple[str, str, str, str]]] = (
    (
        "command line",
        "`--lag-interval 5s`",
        "repeat the option",
        "`--available-now`",
    ),
    (
        "environment",
        "`COORDINATOR_STATE_LAG_INTERVAL=5s`",
        "separated by spaces; folders of `--tables` by colons",
        "`COORDINATOR_STATE_AVAILABLE_NOW=true`",
    ),
    (
        "config file (TOML)",
        '`lag_interval = "5s"`',
        "an array of strings",
        "`available_now = true`",
    ),
)
_KAFKA: Final = (
    "`[kafka]` has Kafka client properties: connections, TLS and SASL. On the command line they "
    "are `--kafka KEY=VALUE`, in the environment a JSON object in `COORDINATOR_STATE_KAFKA`. The "
    "three are merged; a property from a place with precedence wins.",
    "Do not put a secret on the command line: every user of the machine can read it, so the "
    "commands refuse it. Name a file (`PROPERTY.file`) or an environment variable "
    "(`PROPERTY.env`), or write the secret into the config file or the environment. "
    "[security.md](security.md) has examples.",
)


def _settings(run: Command) -> str:
    schema = RunSettings.model_json_schema()["properties"]
    by_key = {_key(option): option for option in run.options}
    if set(schema) - set(by_key):
        raise AssertionError("a setting has no option")
    rows = [
        (
            code(key),
            _toml_type(schema.get(key, {"type": "boolean"}), option),
            prose(default_of(option)),
            code(option.opts[0]),
            code(str(option.envvar)),
            prose(help_of(option)),
        )
        for key, option in by_key.items()
    ]
    columns = ["key", "TOML type", "default", "option", "environment variable", "description"]
    return table(columns, rows)


def _key(option: click.Option) -> str:
    return str(option.name)


def _toml_type(schema: Mapping[str, Any], option: click.Option) -> str:
    """The type of a setting in TOML."""
    if isinstance(option, MappingOption):
        return "table"
    if option.multiple:
        return "array of strings"
    match schema.get("anyOf", [schema])[0]:
        case {"type": "boolean"}:
            return "boolean"
        case {"type": "integer"}:
            return "integer"
        case {"enum": list(values)}:
            return f"string: {', '.join(map(code, values))}"
    return "string"


def _rows_of_others(others: Sequence[Command]) -> Iterator[tuple[str, str, str, str]]:
    users: dict[str, list[Command]] = defaultdict(list)
    for command in others:
        for option in command.options:
            if option.envvar is None:
                continue
            users[_key(option)].append(command)
    for option in SHARED_OPTIONS:
        if _key(option) != "config":
            link = "[every command](command-line.md#shared-options)"
            yield code(_key(option)), code(str(option.envvar)), _value(option), link
    for key, key_users in sorted(users.items()):
        shown = [
            next(candidate for candidate in command.options if _key(candidate) == key)
            for command in key_users
        ]
        values = list(dict.fromkeys(map(_value, shown)))
        links = [
            f"[{command.name}](command-line.md#{anchor(command.name)})" for command in key_users
        ]
        yield code(key), code(str(shown[0].envvar)), "; or ".join(values), ", ".join(links)


def _value(option: click.Option) -> str:
    return value_of(option) or "boolean"
