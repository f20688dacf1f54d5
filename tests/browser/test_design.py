"""The design: no page is cut off at any width, and statuses and times explain themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND

pytestmark = [needs_chromium, pytest.mark.long]
GROUP, TOPIC = urlencode({"group": HOSTILE}), urlencode({"topic": HOSTILE})
PAGES = (
    *("", f"compare?group={REWOUND}&{GROUP}", "topics", f"topic?{TOPIC}"),
    *(f"group?{GROUP}", f"group?{GROUP}&tab=members", f"group?group={REWOUND}&tab=events"),
    *(f"group/why?{GROUP}", f"group/timeline?{GROUP}", f"group/alert?{GROUP}"),
    f"group/plan?group={REWOUND}",
    *("transactions", "changes", "alerts", "sql", "health", "/styleguide"),
)


def opened(page: Page, address: str, path: str) -> None:
    page.goto(f"{address.partition('/c/')[0]}{path}" if path.startswith("/") else address + path)
    expect(page.locator("main h1").first).to_be_visible()


@pytest.mark.parametrize("width", [360, 1280, 2560])
def test_nothing_is_cut_off(open_page: Callable[..., Page], address: str, width: int) -> None:
    """Only regions that scroll by themselves are wider than the screen."""
    page = open_page("", viewport={"width": width, "height": 800})
    too_wide = []
    for path in PAGES:
        opened(page, address, path)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            too_wide.append(path)
    assert too_wide == []


def test_a_status_explains_itself_on_focus_and_on_hover(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    status = page.locator("#groups .status").filter(has_text="REWIND")
    tip = page.get_by_role("tooltip")
    expect(tip).to_be_hidden()
    status.focus()
    expect(tip).to_have_text("The committed offset went back and is still below its earlier value.")
    expect(status).to_have_attribute("aria-describedby", "tip")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    status.hover()
    expect(tip).to_be_visible()


def test_a_relative_time_has_the_exact_one_with_its_offset(open_page: Callable[..., Page]) -> None:
    page = open_page(f"group?group={REWOUND}", timezone_id="Asia/Kathmandu")
    page.get_by_role("button", name="Live").click()
    # Charts that load later move the text away from the pointer, which hides the hint.
    page.locator(".charts figure").last.wait_for()
    page.locator(".strip li").first.wait_for()
    time = page.locator("time[data-ago]").first
    expect(time).to_have_text(re.compile(r" ago$"))
    time.hover()
    exact = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+05:45 \(.* UTC\)$")
    expect(page.get_by_role("tooltip")).to_have_text(exact)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_everybody_can_use_every_page(
    open_page: Callable[..., Page], address: str, color_scheme: str
) -> None:
    page = open_page("", color_scheme=color_scheme)
    for path in PAGES:
        opened(page, address, path)
        found = Axe().run(
            page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
        )
        assert found.violations_count == 0, found.generate_report()
