"""The design: everybody can use every page at any width, and hints explain statuses and times."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND
from tests.support.tables.tabbed_tables import BILLING, CONSUMERS, GONE, LEDGER, PIPELINE, WORKERS
from tests.support.tables.timeline_tables import DEPLOYED, LOOPING, MANY
from tests.support.tables.topic_tables import READ, UNREAD

pytestmark = [needs_chromium, pytest.mark.long]

STANDARD = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
GROUP, TOPIC = urlencode({"group": HOSTILE}), urlencode({"topic": HOSTILE})
RULE = urlencode({"rule": f"rules: [{{name: behind, groups: {REWOUND}, lag: '> 500'}}]"})
IN_TROUBLE = "?status=REWIND&status=HANGING_TRANSACTION"
"""Axe looks at every cell, so most tables here have few rows."""
PAGES = {
    "tables": (
        *("", "?search=nobody", "?at=yesterday", f"compare?group={REWOUND}&{GROUP}"),
        *(f"group?{GROUP}", f"group?{GROUP}&tab=members", f"group?group={REWOUND}&tab=events"),
        *("group?group=nobody", f"group/why?{GROUP}", f"group/timeline?{GROUP}"),
        *(f"group/alert?{GROUP}", f"group/alert?group={REWOUND}&{RULE}&span=1h"),
        *(f"group/alert?group={REWOUND}&rule=rules:+[", f"group/plan?{GROUP}"),
        *(f"group/plan?group={REWOUND}&to=earliest", f"topic?{TOPIC}", "transactions"),
        *(f"changes?group={REWOUND}", "alerts", "health", "/styleguide", IN_TROUBLE),
        *("sql", "sql?query=FROM+group_offsets+LIMIT+9", "sql?query=FROM+nothing"),
    ),
    "topics": ("topics", f"topic?topic={READ}", f"topic?topic={UNREAD}"),
    "tabs": (
        *(f"group?group={BILLING}&tab={tab}" for tab in ("members", "records")),
        f"group?group={BILLING}&tab=partitions&member={CONSUMERS[0]}&topic=invoices",
        *(f"group?group={LEDGER}&tab=transactions", f"group?group={PIPELINE}&tab=tasks"),
        *(f"group?group={WORKERS}", f"group?group={GONE}"),
        f"group/record?group={BILLING}&log_partition=0&record_offset=0",
    ),
    "timeline": tuple(f"group/timeline?group={group}" for group in (LOOPING, DEPLOYED, MANY)),
}
IN_THE_DARK = (
    *(IN_TROUBLE, f"group?{GROUP}", f"group/why?{GROUP}", f"group/alert?{GROUP}", "transactions"),
    *("sql?query=FROM+nothing", "/styleguide", f"topic?topic={READ}"),
    *(f"group?group={PIPELINE}&tab=tasks", f"group/timeline?group={DEPLOYED}"),
)
"""The colours are the same on every page: these have all of them. They are narrow, too.

CI looks at these alone; the other pages have the same parts."""


def require_access(page: Page) -> None:
    """Wait until each part of a page is loaded, and check it for everybody."""
    expect(page.locator("main h1").first).to_be_visible()
    if page.locator("[data-chart]").count():
        expect(page.locator(".strip li").first).to_be_visible()
    for part in page.locator("[data-part]").all():
        expect(part.locator("ol, table, p").first).to_be_visible()
    results = Axe().run(page, options=STANDARD)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize(
    ("cluster", "path"),
    [
        pytest.param(
            cluster, path, marks=[] if path in IN_THE_DARK or not path else [pytest.mark.release]
        )
        for cluster, paths in PAGES.items()
        for path in paths
    ],
)
def test_everybody_can_use_every_page_at_any_width(
    open_page: Callable[..., Page], server: str, cluster: str, path: str
) -> None:
    """Only regions that scroll by themselves are wider than the screen."""
    address = f"{server}{path[1:]}" if path.startswith("/") else f"{server}c/{cluster}/{path}"
    page = open_page(address, viewport={"width": 1280, "height": 800})
    require_access(page)
    for width in (360, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        # Charts are drawn again after the change of the width.
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    if path in IN_THE_DARK:
        page.set_viewport_size({"width": 360, "height": 800})
        # Without a transition: on a slow machine axe would see colours on their way.
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        require_access(page)


@pytest.mark.parametrize("width", [360, 1200, 2560])
def test_the_table_of_groups_does_not_scroll(open_page: Callable[..., Page], width: int) -> None:
    page = open_page("?status=OK", viewport={"width": width, "height": 900})
    expect(page.locator("#groups svg.spark").first).to_be_visible()
    wide = "document.querySelector('.wide')"
    assert page.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth")


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
