"""Each message that docs/troubleshooting.md explains is a text of the source."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VALUE: Final = "\0"
"""Stands for each value in a message: `<value>` on the page, an f-string or `%(name)s` in code."""


def test_every_message_of_the_page_is_in_the_source(repository: Path) -> None:
    package = repository / "streaming"
    in_code = {template_of(text) for file in package.rglob("*.py") for text in texts_of(file)}
    in_pages = " ".join(
        html.unescape(file.read_text())
        for pattern in ("*.html", "*.js")
        for file in package.rglob(pattern)
    )
    explained = list(explained_messages((repository / "docs" / "troubleshooting.md").read_text()))
    assert len(explained) > 300
    unknown = [m for m in explained if template_of(m) not in in_code and m not in in_pages]
    assert unknown == []
    assert len(explained) == len(set(explained))


def explained_messages(page: str) -> Iterator[str]:
    """The first cells of the tables of messages."""
    for table in page.split("\n\n"):
        if table.startswith("| message |"):
            for row in table.splitlines()[2:]:
                cell = row.split(" | ")[0].removeprefix("| ").strip()
                message = re.fullmatch(r"(`+)(.+?)\1", cell)
                assert message, row
                yield message[2].strip().replace("``", "`")


def template_of(text: str) -> str:
    """Return a text with `VALUE` for its values, and without punctuation at its ends."""
    text = re.sub(r"<[^<>]*>|%\(\w+\)[\d.,]*[a-z]", VALUE, text)
    text = re.sub(rf"{VALUE}+", VALUE, " ".join(text.split()))
    return text.strip(f"{VALUE} :;,.")


def texts_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            yield from possible_texts(node)


def possible_texts(node: ast.expr) -> list[str]:
    """The texts that an expression can have, with `<>` for each value in them."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(p.value) if isinstance(p, ast.Constant) else "<>" for p in parts)]
        case ast.IfExp(body=body, orelse=orelse):
            return [*possible_texts(body), *possible_texts(orelse)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in possible_texts(left) for b in possible_texts(right)]
    return ["<>"]
