"""The documentation site builds strictly, and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

RESOURCES = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class SitePage(HTMLParser):
    """The addresses that a built page loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in RESOURCES:
            self.loaded += [value or "" for name, value in attrs if name == RESOURCES[tag]]


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
