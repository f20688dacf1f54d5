"""The story of a group as Markdown, for a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count

from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.insight.story import Story, StoryLine
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


LinesWithAddresses = Sequence[tuple[StoryLine, str | None, str | None]]
"""Lines, each with the addresses of its moment and of its records."""


def ticket_of(story: Story, *, cluster: str, lines: LinesWithAddresses, address: str) -> str:
    """The Markdown of a story.

    Args:
        story: the story.
        cluster: the name of its cluster.
        lines: its lines.
        address: the address of the group at the moment of the story.
    """
    numbered = [f"{number}. {_line(*line)}" for number, line in enumerate(lines, 1)]
    parts = [
        f"# {code(story.group_id)}: {escaped(story.headline)}",
        f"Cluster {code(cluster)}, {link(_utc(story.at), address)}",
        "\n".join(f"- {fact}" for fact in _facts(story)),
        "\n".join(numbered),
    ]
    if story.commands:
        parts.append(code_block(story.commands))
    return "\n\n".join(parts) + "\n"


def place_text(line: StoryLine) -> str:
    """The records of a line by log partition and record offset; "query" without records.

    >>> from coordinator_state.insight.story import Part
    >>> line = StoryLine(part=Part.CAUSE, text="x", record_ids=[(6, 1), (6, 2102)], is_range=True)
    >>> place_text(line)
    'log partition 6, record offsets 1 to 2102'
    """
    if not line.record_ids:
        return "query"
    offsets = sorted(record_offset for _, record_offset in line.record_ids)
    noun = "record offset" if len(offsets) == 1 else "record offsets"
    between = " to " if line.is_range else ", "
    shown = between.join(map(str, offsets))
    return f"log partition {line.record_ids[0][0]}, {noun} {shown}"


def _line(line: StoryLine, moment: str | None, records: str | None) -> str:
    links = []
    if moment is not None and line.at is not None:
        links.append(link(_utc(line.at), moment))
    if records is not None:
        links.append(link(place_text(line), records))
    elif line.record_ids:
        links.append(place_text(line))
    more = f" ({', '.join(links)})" if links else ""
    return f"**{line.part.value}**: {escaped(line.text)}{more}"


def _facts(story: Story) -> Iterator[str]:
    yield f"Lag: {'unknown' if story.lag is None else count_text(story.lag, 'record')}"
    if story.waiting_ms is not None:
        yield f"Time lag: at least {time_text(story.waiting_ms)}"
    yield f"Members: {story.members}"


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
