"""docs/troubleshooting.md has every message of the source, in the words of the source."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.docs.messages import HOLE, Message, all_templates, shown_messages, template_of

_CODE: Final = re.compile(r"^(`+)(.+?)\1$")

_NOT_ON_THE_PAGE: Final = {
    template_of(text): reason
    for text, reason in {
        "module <> has no attribute <>": "Python's own error of a misspelled import",
        "no facts about the known group <>": "guards a state that the tables exclude",
        "rows that are partitioned are read by the value of the column": "a misuse by the code",
        "the answer is for a whole group, not for a partition": "a misuse by the code",
        "a question without a place has no answer": "a misuse by the code",
        "the query has no new answer": "alert run keeps the alerts of the rule; nobody sees it",
        "a batch of <> bytes with magic <>": "becomes the reason of another message",
        "the broker has no port before its first start: call start()": "a misuse by a test",
        "the broker is already running": "a misuse by a test",
        "the broker is running: stop it before reading or replacing a log": "a misuse by a test",
        "<> does not exist in <>": "a misuse by a test",
        "<> has no JSON form": "a misuse by the code",
        "the field <> needs a docstring": "a misuse by the code",
    }.items()
}


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "troubleshooting.md").read_text()


@pytest.fixture(scope="module")
def shown(repository: Path) -> list[Message]:
    return list(shown_messages(repository / "streaming"))


def messages_on(page: str) -> Iterator[str]:
    """The first cells of the tables of messages."""
    for table in page.split("\n\n"):
        if table.startswith("| message |"):
            for row in table.splitlines()[2:]:
                found = _CODE.match(row.split(" | ")[0].removeprefix("| ").strip())
                assert found, row
                yield found[2].strip().replace("``", "`")


def test_every_message_of_the_source_is_on_the_page(shown: list[Message], page: str) -> None:
    listed = {template_of(message) for message in messages_on(page)}
    assert len(shown) > 300
    missing = [m for m in shown if m.template not in listed | _NOT_ON_THE_PAGE.keys()]
    assert [f"{m.place}: {m.template.replace(HOLE, '<>')}" for m in missing] == []


def test_every_message_of_the_page_is_in_the_source(repository: Path, page: str) -> None:
    package = repository / "streaming"
    templates = all_templates(package)
    texts = " ".join(
        html.unescape(file.read_text())
        for pattern in ("*.html", "*.js")
        for file in package.rglob(pattern)
    )
    told = list(messages_on(page))
    unknown = [m for m in told if template_of(m) not in templates and m not in texts]
    assert unknown == []
    assert len(told) == len(set(told))


def test_every_exemption_is_needed(shown: list[Message]) -> None:
    assert _NOT_ON_THE_PAGE.keys() - {message.template for message in shown} == set()
