"""The pages of the documentation, as GitHub reads them: links, anchors and commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

from streaming.cli.main import cli

PROGRAM: Final = "coordinator-state"
_MARKDOWN: Final = MarkdownIt("gfm-like", {"linkify": False})
_OPERATORS: Final = re.compile(r"[();<>|&]+")


class Page:
    """A Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text()

    @cached_property
    def tokens(self) -> list[Token]:
        """The blocks in their order."""
        return _MARKDOWN.parse(self.text)

    @property
    def links(self) -> list[str]:
        """The targets of links and images."""
        inline = [child for token in self.tokens for child in token.children or ()]
        targets = [token.attrGet("href") or token.attrGet("src") for token in inline]
        return [str(target) for target in targets if target]

    @cached_property
    def anchors(self) -> list[str]:
        """The anchors that GitHub gives the headings."""
        seen: Counter[str] = Counter()
        anchors = []
        for heading, inline in zip(self.tokens, self.tokens[1:], strict=False):
            if heading.type == "heading_open":
                slug = _slug(inline)
                anchors.append(slug + (f"-{seen[slug]}" if seen[slug] else ""))
                seen[slug] += 1
        return anchors

    @property
    def commands(self) -> Iterator[list[str]]:
        """The arguments of each call of the program, in console blocks and in sentences.

        A call in a sentence may lack options; "..." stands for them.
        """
        for token in self.tokens:
            if token.type == "fence" and token.info == "console":
                for part in f"\n{token.content}".replace("\\\n", "").split("\n$ ")[1:]:
                    yield from _calls(part)
            for child in token.children or ():
                if child.type == "code_inline" and child.content.startswith(f"{PROGRAM} "):
                    yield [*shlex.split(child.content)[1:], "..."]


def pages_of(repository: Path) -> dict[str, Page]:
    """The pages of docs/ and of the root, by their paths in the repository."""
    files = (*repository.glob("*.md"), *repository.glob("docs/*.md"))
    return {str(file.relative_to(repository)): Page(file) for file in sorted(files)}


def check_command(arguments: list[str]) -> None:
    """Parse a call of the program, without running it.

    Raises:
        click.ClickException: a command, option, argument or value that the program refuses.
    """
    command: click.Command = cli
    context = click.Context(cli)
    rest = list(arguments)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name, subcommand, rest = command.resolve_command(context, rest)
        assert subcommand is not None, name
        command, context = subcommand, click.Context(subcommand, parent=context)
    given, _, _ = command.make_parser(context).parse_args(list(rest))
    # A config file may hold the options that are missing here.
    is_complete = not {"...", "--config", "--help", "--version"} & set(rest)
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if not isinstance(value, str | bool | int | list | tuple):
            if parameter.required and is_complete:
                raise click.MissingParameter(ctx=context, param=parameter)
        elif not isinstance(parameter.type, click.Path | click.File) and "..." not in rest:
            parameter.type_cast_value(context, value)


def _slug(inline: Token) -> str:
    text = "".join(child.content for child in inline.children or ())
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _calls(command: str) -> Iterator[list[str]]:
    """The calls of the program in a command that is followed by its output."""
    words = _words(command)
    for at, word in enumerate(words):
        if Path(word).name == PROGRAM and _is_called(words[:at]):
            call = words[at + 1 :]
            ends = [end for end, word in enumerate(call) if _OPERATORS.fullmatch(word)]
            yield call[: min(ends, default=len(call))]


def _is_called(before: list[str]) -> bool:
    """Whether a word after these is a command: variables or `exec` may come before it."""
    ends = [end for end, word in enumerate(before) if _OPERATORS.fullmatch(word)]
    own = before[max(ends, default=-1) + 1 :]
    return "exec" in own or all("=" in word for word in own)


def _words(command: str) -> list[str]:
    """The words of the first line, and of the lines behind it if quotes span them."""
    lines = command.splitlines()
    for end in range(1, len(lines) + 1):
        lexer = shlex.shlex("\n".join(lines[:end]), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        with suppress(ValueError):
            return list(lexer)
    raise ValueError(f"quotes are not closed: {command}")
