"""The documentation site builds strictly, loads nothing from other hosts, and shows every block."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.pages import BLOCKS, pages_of

RESOURCES = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
HEADINGS = {f"h{level}" for level in range(1, 7)}
VOID = {"br", "hr", "img", "input", "link", "meta", "source"}


class SitePage(HTMLParser):
    """What a built page loads and links to, and the blocks and headings of its article."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.headings: list[str] = []
        self.blocks: Counter[str] = Counter()
        self._depth = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in RESOURCES and RESOURCES[tag] in values:
            self.loaded.append(values[RESOURCES[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "id" in values:
            self.ids.add(values["id"])
        if self._depth:
            if tag in HEADINGS:
                self.headings.append(values["id"])
            kind = "heading" if tag in HEADINGS else tag
            if kind in BLOCKS.values():
                self.blocks[kind] += 1
        if tag not in VOID and (self._depth or tag == "article"):
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if self._depth and tag not in VOID:
            self._depth -= 1


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; pages with a link or an anchor to nowhere do not build."""
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder))
    answer = subprocess.run(
        [*command, "--config-file", str(repository / "mkdocs.yml")],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture(scope="module")
def built(site: Path) -> dict[str, SitePage]:
    """The pages by their names, without the page for wrong addresses."""
    return {file.stem: SitePage(file) for file in sorted(site.glob("*.html")) if file.stem != "404"}


def test_every_page_is_built(repository: Path, built: dict[str, SitePage]) -> None:
    assert sorted(built) == sorted(file.stem for file in repository.glob("docs/*.md"))


def test_pages_load_nothing_from_other_hosts(site: Path, built: dict[str, SitePage]) -> None:
    for name, page in built.items():
        assert page.loaded, name
        for address in page.loaded:
            assert not re.match(r"[a-z]+:|//", address), f"{name}: {address}"
            assert (site / unquote(address.partition("?")[0])).exists(), f"{name}: {address}"
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        found = re.findall(r"url\(\s*['\"]?(?:https?:)?//[^)]*|@import[^;]*", sheet.read_text())
        assert found == [], sheet


def test_no_diagram_makes_the_theme_load_a_script(built: dict[str, SitePage]) -> None:
    """The theme fetches Mermaid from a CDN where a page has a diagram of it."""
    for name, page in built.items():
        assert 'class="mermaid"' not in page.path.read_text(), name


def test_every_link_of_the_site_leads_somewhere(site: Path, built: dict[str, SitePage]) -> None:
    broken = []
    for name, page in built.items():
        for link in page.links:
            file, _, anchor = unquote(link).partition("#")
            if file.startswith(("https://", "http://")):
                continue
            target = built.get(Path(file).stem) if file else page
            is_there = target is not None and anchor in {"", *target.ids}
            if not (is_there or (not anchor and (site / file).exists())):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_headings_and_blocks_are_those_that_github_shows(
    repository: Path, built: dict[str, SitePage]
) -> None:
    """Two parsers of Markdown: a list without a blank line before it is a list for one only."""
    for path, page in pages_of(repository).items():
        if path.startswith("docs/"):
            shown = built[page.path.stem]
            assert shown.headings == page.anchors, path
            assert shown.blocks == page.blocks, path
