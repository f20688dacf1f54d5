"""Markdown of GitHub and of mkdocs-material: tables, wrapped paragraphs, names as code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

WIDTH: Final = 100
Parts = Mapping[str, Callable[[], str]]
"""The generated parts of a page, by their names in its comments."""

_PART: Final = re.compile(
    r"(<!-- (?P<name>[\w -]+): begin -->\n\n).*?(\n\n<!-- (?P=name): end -->)", re.DOTALL
)
_CODE_SPAN: Final = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))")
_PAGE: Final = re.compile(r"docs/([\w-]+\.md)(?:#[\w-]+)?")
_OPENING, _CLOSING = "(\"'", ".,;:!?)\"'"
_NAMES: Final = re.compile(
    r"--[a-z][\w-]*"  # an option
    r"|[-+]"  # stdin
    r"|.*[\w>]_[\w<].*|__\w+"  # an identifier
    r"|\S+=\S+"  # KEY=VALUE
    r"|/[\w/.{}-]+"  # an address
    r"|https?://.*"
    r"|\d+(\.\d+){3}(:\d+)?"  # an IP address
    r"|[a-zA-Z]\w+(\.\w[\w-]*)+(\(.*\))?"  # a property of Kafka, a module, a file
    r"|[\w-]+/[\w./-]*"  # a folder
    r"|\[?[A-Z_.=]+\]?[A-Z_.=,\[\]…|:]*[\[\]|…:][A-Z_.=,\[\]…|:]*"  # a placeholder
)
_WORDS: Final = frozenset({"and/or", "e.g", "i.e"})


def code(text: str) -> str:
    """Text as code."""
    return f"`{text}`"


def prose(text: str) -> str:
    """Plain text as Markdown: names become code, pages become links.

    >>> prose("Reads __consumer_offsets (see docs/lag.md); or --tables DIR.")
    'Reads `__consumer_offsets` (see [lag.md](lag.md)); or `--tables` DIR.'
    """
    parts = _CODE_SPAN.split(" ".join(text.split()))
    return "".join(
        part if number % 2 else " ".join(map(_marked_up, part.split(" ")))
        for number, part in enumerate(parts)
    )


def _marked_up(word: str) -> str:
    core = word.lstrip(_OPENING)
    before = word[: len(word) - len(core)]
    stripped = core.rstrip(_CLOSING)
    # A closing bracket that belongs to the name stays there.
    while stripped.count("(") > stripped.count(")") and len(stripped) < len(core):
        stripped = core[: len(stripped) + 1]
    after = core[len(stripped) :]
    page = _PAGE.fullmatch(stripped)
    if page is not None:
        return f"{before}[{page[1]}]({stripped.removeprefix('docs/')}){after}"
    if stripped and stripped not in _WORDS and _NAMES.fullmatch(stripped):
        return f"{before}{code(stripped)}{after}"
    return re.sub(r"([*_<>\[\]])", r"\\\1", word)


def paragraph(text: str) -> str:
    """A paragraph of Markdown in lines of at most 100 characters."""
    return textwrap.fill(
        " ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False
    )


def block(text: str, language: str = "") -> str:
    """Lines as a block of code."""
    return f"```{language}\n{text.strip(chr(10))}\n```"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(_row(cells) for cells in lines)


def _row(cells: Sequence[str]) -> str:
    if set(cells) == {"---"}:
        return f"|{'---|' * len(cells)}"
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def blocks(parts: Iterable[str]) -> str:
    """Headings, paragraphs, tables and code below each other."""
    return "\n\n".join(part for part in parts if part)


def with_parts(text: str, parts: Parts) -> str:
    """A page whose parts between `<!-- NAME: begin -->` and `<!-- NAME: end -->` are these.

    Raises:
        ValueError: the page has other parts.
    """
    names = [match["name"] for match in _PART.finditer(text)]
    if sorted(names) != sorted(parts):
        raise ValueError(f"the page has the parts {names}, and not {[*parts]}")
    return _PART.sub(lambda match: f"{match[1]}{parts[match['name']]()}{match[3]}", text)


def anchor(heading: str) -> str:
    """The anchor of a heading, on GitHub and in mkdocs.

    >>> anchor("plan reset")
    'plan-reset'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
