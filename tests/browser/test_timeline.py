"""The timeline of a group in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.timeline_tables import (
    DEPLOYED,
    LOOPING,
    MANY,
    TimelineTables,
    create_timeline_tables,
)

pytestmark = [needs_chromium, pytest.mark.long]
_WIDTHS = {"phone": 360, "desk": 1280, "wall": 2560}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> TimelineTables:
    return create_timeline_tables(tmp_path_factory.mktemp("timeline") / "tables")


def test_a_deploy_is_seen_on_the_page_of_its_group(open_page: Callable[..., Page]) -> None:
    page = open_page(f"group?group={DEPLOYED}", timezone_id="Asia/Kathmandu")
    # The timeline is loaded after the page.
    what_happened = page.locator("section[aria-labelledby=what-happened]")
    result = what_happened.locator(".result")
    expect(result).to_contain_text("4 rebalances in")
    expect(result).to_contain_text("the group stood still for at least 3 s")
    expect(what_happened.locator("li").first).to_contain_text("2 members of search-consumer were")
    # Both old members have a colour, which their successors keep.
    assert {
        bar.get_attribute("class") for bar in what_happened.locator(".lanes [class^=owner]").all()
    } == {"owner-1", "owner-2"}
    still = what_happened.locator(".over rect title")
    expect(still).to_have_text(re.compile(r"no partition had an owner from .* UTC \(3 s\)"))
    expect(what_happened.locator(".axis time").first).to_have_text(re.compile(r" \+05:45$"))
    what_happened.get_by_text("Timeline as tables").click()
    expect(what_happened.locator("details")).to_contain_text("search-consumer-old1 left")


def test_the_timeline_needs_no_script(open_page: Callable[..., Page]) -> None:
    page = open_page(f"group?group={LOOPING}", java_script_enabled=False)
    page.get_by_role("link", name="Show who owned each partition over time").click()
    expect(page.locator("h1")).to_have_text(f"Timeline: {LOOPING}")
    expect(page.locator(".result")).to_contain_text("40 rebalances in")
    expect(page.locator(".axis time").first).to_have_text(re.compile(r"^\d\d:\d\d UTC$"))
    page.get_by_role("link", name="15m").click()
    expect(page.get_by_role("link", name="15m")).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize("width", _WIDTHS.values(), ids=_WIDTHS)
def test_nothing_is_cut_off(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(f"group/timeline?group={MANY}", viewport={"width": width, "height": 800})
    expect(page.locator(".lane .label", has_text="orders 59")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.timeline rect, .timeline time')]"
        ".map((one) => one.getBoundingClientRect().right))"
    )
    assert right <= width
    # The lines of rebalances are at their marks.
    page.goto(page.url.replace(MANY, DEPLOYED))
    mark, line = (page.locator(f".timeline {one}").first for one in (".marks rect", ".over line"))
    of_mark, of_line = mark.bounding_box(), line.bounding_box()
    assert of_mark is not None
    assert of_line is not None
    assert of_line["x"] == pytest.approx(of_mark["x"], abs=4)


@pytest.mark.parametrize("group", [LOOPING, DEPLOYED, MANY, "nobody"])
@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_everybody_can_use_it(
    open_page: Callable[..., Page], group: str, color_scheme: str
) -> None:
    page = open_page(f"group/timeline?group={group}", color_scheme=color_scheme)
    expect(page.locator(".result")).to_be_visible()
    for summary in page.locator("details summary").all():
        summary.click()
    found = Axe().run(
        page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    )
    assert found.violations_count == 0, found.generate_report()
