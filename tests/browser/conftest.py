"""The page as the command serves it, and pages of it in a real browser, for each file of tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS
from tests.support.clients.installed_command import command_of
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables

# Patience, not a limit: on a slow machine the statuses of a group take longer than the default 5 s.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    return create_dashboard_tables(tmp_path_factory.mktemp("browser") / "tables")


@pytest.fixture(scope="module")
def address(tables: DashboardTables) -> Iterator[str]:
    """Where the command serves the tables."""
    command = ("dashboard", "--tables", tables.folder, "--port", "0", "--no-browser")
    with subprocess.Popen(
        command_of(*command, "--refresh", "1s"),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        try:
            yield f"{found.group()}c/tables/"
        finally:
            process.terminate()
            process.wait(30)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens pages; fails if a script did, or if anything was asked of another host."""
    faults: list[str] = []
    contexts = []

    def opened(path: str, **context: str) -> Page:
        contexts.append(browser.new_context(**context))  # type: ignore[arg-type]
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda told: (
                faults.append(told.text)
                if told.type == "error" and "Failed to load resource" not in told.text
                else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                faults.append(request.url)
                if not request.url.startswith((address.partition("/c/")[0], "blob:", "data:"))
                else None
            ),
        )
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.goto(f"{address}{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []
