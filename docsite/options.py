"""docs/options.md: every setting as a key of the config file, an option and a variable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from docsite.commands import Command, commands, default_of, help_of, value_of
from docsite.markdown import Parts, anchor, code, prose, table
from streaming.cli.main import SHARED_OPTIONS
from streaming.cli.options import MappingOption
from streaming.run.settings import RunSettings

_RUN: Final = "run"


def _settings() -> str:
    (run,) = (command for command in commands() if command.name == _RUN)
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


def _other_keys() -> Iterator[tuple[str, str, str, str]]:
    users: dict[str, list[Command]] = defaultdict(list)
    for command in commands():
        for option in command.options if command.name != _RUN else ():
            if option.envvar is not None:
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


OPTIONS: Final[Parts] = {
    "run": _settings,
    "other commands": lambda: table(
        ["key", "environment variable", "value", "commands"], _other_keys()
    ),
}
