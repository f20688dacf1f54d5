"""Every page is in the navigation and the index, its links lead somewhere, its commands exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from tests.support.pages import Page, check_command, pages_of

Sections = dict[str, list[tuple[str, str]]]

LONGEST_LINE = 100
SECTIONS = ["Start", "Use", "Operate", "Reference", "Design"]


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


def test_the_navigation_has_every_page_once(docs: dict[str, Page], navigation: Sections) -> None:
    assert list(navigation) == SECTIONS
    listed = [file for entries in navigation.values() for _, file in entries]
    assert sorted(listed) == sorted(docs)


def test_the_index_has_the_pages_of_the_navigation(
    docs: dict[str, Page], navigation: Sections
) -> None:
    found: Sections = {}
    for part in docs["index.md"].text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        found[title] = re.findall(r"^- \[(.+?)\]\((.+?)\): \S.*$", rest, re.MULTILINE)
    assert found == navigation


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


def test_pages_of_the_site_link_to_pages_of_the_site(docs: dict[str, Page]) -> None:
    """On the site there is nothing outside docs/."""
    outside = [
        f"{name}: {target}"
        for name, page in docs.items()
        for target in page.links
        if target.startswith(("../", "/"))
    ]
    assert outside == []


def commands_of(pages: dict[str, Page]) -> Iterator[tuple[str, list[str]]]:
    for path, page in pages.items():
        for command in page.commands:
            yield path, command


def test_every_command_of_an_example_exists_with_its_options(pages: dict[str, Page]) -> None:
    commands = list(commands_of(pages))
    assert len(commands) > 50
    refused = []
    for path, command in commands:
        try:
            check_command(command)
        except click.ClickException as error:
            refused.append(f"{path}: {' '.join(command)}: {error.format_message()}")
    assert refused == []


@pytest.mark.parametrize(
    "command",
    ["shwo groups", "show groups --tabels t", "show groups", "show status --tables t --by host"],
)
def test_a_wrong_command_is_refused(command: str) -> None:
    with pytest.raises(click.ClickException):
        check_command(command.split())
