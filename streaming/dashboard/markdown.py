"""Text as Markdown, whatever characters it has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

from streaming.views.text import printable

_SYNTAX = re.compile(r"[\\`*_{}\[\]<>#+!|~&$]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""Each may be syntax inside a line; the last two begin an address that becomes a link by itself."""
_WORD_JOINER = "\u2060"
"""No character that is seen: after `@` it keeps a name from being a mention or an e-mail."""


def escaped(text: str) -> str:
    r"""Text inside a line: no syntax of Markdown, no link, no mention, no control character.

    >>> print(escaped("[my_group](x)\n<b>"))
    \[my\_group\](x)\\n\<b\>
    """
    return _SYNTAX.sub(r"\\\g<0>", printable(text)).replace("@", f"@{_WORD_JOINER}")


def code(text: str) -> str:
    r"""Text as a span of code.

    >>> print(code("my_group"), code("a`b"))
    `my_group` `` a`b ``
    """
    shown = printable(text) or "(empty)"
    fence = _fence(shown, least=1)
    space = (
        " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) or "`" in shown else ""
    )
    return f"{fence}{space}{shown}{space}{fence}"


def link(text: str, address: str) -> str:
    """A link; its text is escaped.

    >>> link("records", "/sql?query=a IN (1)")
    '[records](/sql?query=a%20IN%20%281%29)'
    """
    quoted = re.sub(r"[\s()<>\\]", lambda match: f"%{ord(match[0]):02x}", address)
    return f"[{escaped(text)}]({quoted})"


def code_block(lines: Iterable[str]) -> str:
    """Printable command lines as a block of code."""
    shown = "\n".join(lines)
    fence = _fence(shown, least=3)
    return f"{fence}sh\n{shown}\n{fence}"


def _fence(text: str, *, least: int) -> str:
    """So many backticks as the text has nowhere in a row."""
    runs = {len(run) for run in re.findall("`+", text)}
    return "`" * next(number for number in count(least) if number not in runs)
