"""Every page is in the navigation and the index, its links lead somewhere, its commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import click
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from ruamel.yaml import YAML

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


Sections = dict[str, list[tuple[str, str]]]

LOADED = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*? (?:src|href)="?([^"\s>]+)')
ELSEWHERE = re.compile(r"[a-z]+:|//")
OF_STYLES = re.compile(r"url\(\s*['\"]?(?:https?:)?//[^)]*|@import[^;]*")


@pytest.fixture(scope="module")
def pages(repository: Path) -> dict[str, Page]:
    return pages_of(repository)


@pytest.fixture(scope="module")
def docs(pages: dict[str, Page]) -> dict[str, Page]:
    """The pages of the site, by the names of their files."""
    return {page.path.name: page for page in pages.values() if page.path.parent.name == "docs"}


@pytest.fixture(scope="module")
def navigation(repository: Path) -> Sections:
    """Titles and files of the pages, by section."""
    # "rt", because the file names a function for the anchors.
    loaded = YAML(typ="rt", pure=True).load(repository / "mkdocs.yml")
    return {
        str(title): [(str(name), str(file)) for entry in entries for name, file in entry.items()]
        for section in loaded["nav"]
        for title, entries in section.items()
    }


def test_the_index_has_the_pages_of_the_navigation(
    docs: dict[str, Page], navigation: Sections
) -> None:
    listed: Sections = {}
    for part in docs["index.md"].text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        listed[title] = re.findall(r"^- \[(.+?)\]\((.+?)\): \S.*$", rest, re.MULTILINE)
    assert listed == navigation
    files = [file for entries in navigation.values() for _, file in entries]
    assert sorted(files) == sorted(docs)


def test_every_link_leads_to_a_file_and_a_heading_of_the_repository(
    repository: Path, pages: dict[str, Page]
) -> None:
    links = [(path, target) for path, page in pages.items() for target in page.links]
    relative = [(path, target) for path, target in links if not target.startswith("https://")]
    assert len(relative) > 100
    broken = [
        f"{path}: {target}"
        for path, target in relative
        if not leads_somewhere(repository / path, target, pages, repository)
    ]
    assert broken == []


def leads_somewhere(source: Path, target: str, pages: dict[str, Page], repository: Path) -> bool:
    """Whether a relative link leads to a file, and to a heading if it has an anchor."""
    file, _, anchor = target.partition("#")
    path = (source.parent / file).resolve() if file else source
    if not path.exists() or not path.is_relative_to(repository):
        return False
    if not anchor:
        return True
    page = pages.get(str(path.relative_to(repository)))
    return page is not None and anchor in page.anchors


def test_every_command_of_an_example_exists_with_its_options(pages: dict[str, Page]) -> None:
    commands = [(path, command) for path, page in pages.items() for command in page.commands]
    assert len(commands) > 50
    refused = []
    for path, command in commands:
        try:
            check_command(command)
        except click.ClickException as error:
            refused.append(f"{path}: {' '.join(command)}: {error.format_message()}")
    assert refused == []


def test_the_site_builds_and_loads_nothing_from_other_hosts(
    repository: Path, tmp_path: Path
) -> None:
    """A page with a link or an anchor to nowhere, or to a file outside docs/, does not build."""
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    answer = subprocess.run(
        [*command, "--config-file", str(repository / "mkdocs.yml")],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    for page in set(tmp_path.glob("*.html")) - {tmp_path / "404.html"}:
        text = page.read_text()
        addresses = LOADED.findall(text)
        assert addresses, page
        for address in addresses:
            assert not ELSEWHERE.match(address), f"{page}: {address}"
            assert (tmp_path / unquote(address.partition("?")[0])).exists(), f"{page}: {address}"
        # The theme fetches Mermaid from a CDN where a page has a diagram of it.
        assert 'class="mermaid"' not in text, page
    sheets = list(tmp_path.rglob("*.css"))
    assert sheets
    assert [sheet for sheet in sheets if OF_STYLES.search(sheet.read_text())] == []
