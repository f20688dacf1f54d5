"""One server for all tests of the folder, a browser for each file, and pages for each test.

The server shows five clusters, whose present is the time at which their tables were created. No
test changes these tables; those of `test_live.py` have their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timezone

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from streaming.dashboard.app import serving_page
from tests.support.browser.chromium import CHROMIUM, FLAGS
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables
from tests.support.tables.demo_incidents import END, create_demo_tables
from tests.support.tables.held_moment import held_at
from tests.support.tables.tabbed_tables import create_tabbed_tables
from tests.support.tables.timeline_tables import create_timeline_tables
from tests.support.tables.topic_tables import create_topic_tables

# Patience, not a limit: on a slow machine the statuses of a group take longer than the default 5 s.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    return create_dashboard_tables(tmp_path_factory.mktemp("browser") / "tables")


@pytest.fixture(scope="session")
def server(tables: DashboardTables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server. Cluster `tables` is the one of most tests."""
    folder = tmp_path_factory.mktemp("clusters")
    now = datetime.now(timezone.utc)
    timeline = create_timeline_tables(folder / "timeline")
    clusters = {
        "tables": (tables.folder, tables.after),
        "topics": (create_topic_tables(folder / "topics", now), now),
        "tabs": (create_tabbed_tables(folder / "tabs"), datetime.now(timezone.utc)),
        "timeline": (timeline.folder, timeline.at),
        "demo": (create_demo_tables(folder / "demo"), END),
    }
    with ExitStack() as stack:
        for held in clusters.values():
            stack.enter_context(held_at(*held))
        folders = {name: tables_folder for name, (tables_folder, _) in clusters.items()}
        yield stack.enter_context(serving_page(folders, refresh_s=1))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for each file: while it runs, no other test of this thread has an event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(server: str) -> str:
    """The address of the cluster whose pages are opened."""
    return f"{server}c/tables/"


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens pages; fails if a script did, or if anything was requested from another host."""
    faults: list[str] = []
    own = (address.partition("/c/")[0], "blob:", "data:")

    def note_message(message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            faults.append(message.text)

    def note_request(url: str) -> None:
        if not url.startswith(own):
            faults.append(url)

    with ExitStack() as contexts:

        def opened(path: str, **options: str) -> Page:
            context = browser.new_context(**options)  # type: ignore[arg-type]
            contexts.callback(context.close)
            page = context.new_page()
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", note_message)
            page.on("request", lambda request: note_request(request.url))
            page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
            page.goto(path if path.startswith("http") else f"{address}{path}")
            return page

        yield opened
    assert faults == []
