"""The commands of the command line and their options, from click's own objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, Final

import click

from docsite.markdown import code
from streaming.cli.main import COMMANDS, SHARED_OPTIONS, cli
from streaming.cli.options import DURATION

PROGRAM: Final = "coordinator-state"
_DEFAULT: Final = re.compile(r"\s*\[default: (.*)\]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of commands."""

    words: tuple[str, ...]
    command: click.Command

    @property
    def name(self) -> str:
        """Its words after the program, such as `plan reset`."""
        return " ".join(self.words)

    @property
    def usage(self) -> str:
        """The line of its usage."""
        words = (PROGRAM, *self.words)
        context = click.Context(self.command, info_name=" ".join(words))
        pieces = " ".join([*words, *self.command.collect_usage_pieces(context)])
        for argument in self.arguments:
            if isinstance(argument.type, click.Choice):
                pieces = pieces.replace(argument.make_metavar(context), name_of(argument))
        return pieces

    @property
    def paragraphs(self) -> list[str]:
        """Its help text in paragraphs; one that begins with a backspace keeps its lines."""
        return cleandoc(self.command.help or "").split("\n\n")

    @property
    def options(self) -> Sequence[click.Option]:
        """Its own options, without those that every command has."""
        own = (param for param in self.command.params if isinstance(param, click.Option))
        return [option for option in own if option not in SHARED_OPTIONS and not option.hidden]

    @property
    def arguments(self) -> Sequence[click.Argument]:
        """Its arguments."""
        return [param for param in self.command.params if isinstance(param, click.Argument)]

    @property
    def is_group(self) -> bool:
        """Whether it has further commands."""
        return isinstance(self.command, click.Group)


def commands() -> list[Command]:
    """Every command, each group before its commands."""
    context = click.Context(cli, info_name=PROGRAM)
    all_commands: list[Command] = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is None:
            raise AssertionError(f"no command {name}")
        all_commands += _with_nested(command, (name,))
    return all_commands


def _with_nested(command: click.Command, words: tuple[str, ...]) -> Iterator[Command]:
    yield Command(words, command)
    if isinstance(command, click.Group):
        for name, nested in command.commands.items():
            yield from _with_nested(nested, (*words, name))


def name_of(argument: click.Argument) -> str:
    """The name of an argument, as the usage has it."""
    return (argument.name or "").upper()


def help_of(option: click.Option) -> str:
    """The help text of an option; its default and `repeatable` are in other columns."""
    return _DEFAULT.sub("", option.help or "").replace("; repeatable.", ".")


def names_of(option: click.Option) -> str:
    """The option as it is written, with its opposite if it has one."""
    return " or ".join(map(code, [*option.opts, *option.secondary_opts]))


def default_of(option: click.Option) -> str:
    """The default in words or as code; empty if there is none."""
    default_match = _DEFAULT.search(option.help or "")
    if option.required:
        return "(required)"
    if default_match:
        return default_match[1]
    if option.is_flag:
        names = option.opts if option.default is True else option.secondary_opts
        return code(names[0]) if option.secondary_opts else "off"
    if option.default in (None, ()) or not isinstance(option.default, (str, int, float)):
        return ""
    return code(str(option.default))


def value_of(option: click.Option) -> str:
    """The values of an option in words; empty for a flag."""
    if option.is_flag:
        return ""
    return f"{_values(option)}{'; repeatable' if option.multiple else ''}"


def _values(option: click.Option) -> str:
    kind: Any = option.type
    match kind:
        case click.Choice():
            return ", ".join(map(code, kind.choices))
        case click.IntRange() | click.FloatRange():
            name = "integer" if isinstance(kind, click.IntRange) else "number"
            return f"{name}{_range(kind.min, kind.max)}"
    if kind is DURATION:
        return f"duration, such as {code('5s')}"
    if option.metavar:
        is_plain = "[" not in option.metavar
        return " or ".join(map(code, option.metavar.split("|") if is_plain else [option.metavar]))
    return "path" if isinstance(kind, click.Path) else "text"


def _range(least: float | None, most: float | None) -> str:
    match least, most:
        case None, None:
            return ""
        case _, None:
            return f", {least:,} or more"
        case _:
            return f", {least:,} to {most:,}"
