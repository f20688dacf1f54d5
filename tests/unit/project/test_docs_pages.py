"""Every page is in the navigation and the index, its links lead somewhere, its commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
from ruamel.yaml import YAML

from tests.support.pages import Page, check_command, pages_of

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
