"""Going through pages that somebody else serves."""

from __future__ import annotations

from collections.abc import Iterable

from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS


def headings(address: str, paths: Iterable[str]) -> dict[str, str]:
    """The heading of each page, or what a script said, or the address of another host it asked."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        by_path = {path: _heading(browser, address, path) for path in paths}
        browser.close()
    return by_path


def _heading(browser: Browser, address: str, path: str) -> str:
    host = address.partition("/c/")[0]
    page = browser.new_page()
    faults: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}{path}")
    if page.locator("[data-chart]").count():
        expect(page.locator(".charts figure").first).to_be_visible(timeout=30_000)
    heading = page.locator("h1").inner_text()
    page.close()
    return "; ".join([*faults, *(url for url in asked if not url.startswith(host))]) or heading
