"""docs/command-line.md: every command with its options, from click's own objects."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Final

import click

from docsite.commands import (
    Command,
    commands,
    default_of,
    help_of,
    name_of,
    names_of,
    value_of,
)
from docsite.markdown import (
    WIDTH,
    Parts,
    anchor,
    block,
    blocks,
    code,
    paragraph,
    prose,
    table,
)
from streaming.cli.main import SHARED_OPTIONS, cli

_KEPT: Final = "\b\n"
_EXAMPLES: Final = "Examples:"
_BROKEN: Final = re.compile(r" \\?\s{8,}")
"""A line of an example that goes on."""


def _section(command: Command) -> Iterator[str]:
    yield f"## {command.name}"
    plain = [text for text in command.paragraphs if not text.startswith(_KEPT)]
    yield paragraph(prose(plain[0]))
    yield block(command.usage, "text")
    for text in command.paragraphs[1:]:
        if not text.startswith(_KEPT):
            yield paragraph(prose(text))
        elif not text.startswith(f"{_KEPT}{_EXAMPLES}"):
            yield from _kept(text.removeprefix(_KEPT))
    yield from _arguments(command)
    if command.options:
        yield _options(command.options)
    elif not command.is_group:
        yield paragraph("It has only the [shared options](#shared-options).")
    for text in command.paragraphs:
        if text.startswith(f"{_KEPT}{_EXAMPLES}"):
            yield block("\n".join(_examples(text)), "console")


def _kept(text: str) -> Iterator[str]:
    """A heading, and lines below it."""
    heading, _, lines = text.partition("\n")
    yield paragraph(prose(heading))
    yield block("\n".join(line.removeprefix("  ") for line in lines.split("\n")), "text")


def _arguments(command: Command) -> Iterator[str]:
    for argument in command.arguments:
        if isinstance(argument.type, click.Choice):
            choices = ", ".join(map(code, argument.type.choices))
            yield paragraph(f"{code(name_of(argument))} is one of {choices}.")


def _options(options: Iterable[click.Option]) -> str:
    rows = [
        (
            names_of(option),
            value_of(option),
            prose(default_of(option)),
            "" if option.envvar is None else code(str(option.envvar)),
            prose(help_of(option)),
        )
        for option in options
    ]
    return table(["option", "value", "default", "environment variable", "description"], rows)


def _examples(text: str) -> Iterator[str]:
    for line in text.splitlines()[2:]:
        lines = textwrap.wrap(_BROKEN.sub(" ", line.strip()), WIDTH - 6, break_on_hyphens=False)
        yield "$ " + " \\\n    ".join(lines)


COMMAND_LINE: Final[Parts] = {
    "help": lambda: blocks(
        paragraph(prose(text)) for text in cleandoc(cli.help or "").split("\n\n")
    ),
    "commands": lambda: table(
        ["command", "purpose"],
        [
            (f"[{code(command.name)}](#{anchor(command.name)})", prose(command.paragraphs[0]))
            for command in commands()
        ],
    ),
    "shared options": lambda: _options(SHARED_OPTIONS),
    "options": lambda: blocks(part for command in commands() for part in _section(command)),
}
