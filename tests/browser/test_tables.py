"""The tables of a group and of a topic in a real browser: tabs, timeline, and matrix."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.tabbed_tables import BILLING
from tests.support.tables.timeline_tables import DEPLOYED, MANY
from tests.support.tables.topic_tables import QUICK, READ, SLOW

pytestmark = [needs_chromium, pytest.mark.long]


def tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Tables of the group").get_by_text(name).click()


def test_another_tab_comes_without_a_reload(open_page: Callable[..., Page], server: str) -> None:
    page = open_page(f"{server}c/tabs/group?group={BILLING}")
    expect(page.get_by_role("img", name=re.compile("Lag over time"))).to_be_visible()
    expect(page.locator("section[aria-labelledby=why] li").first).to_be_visible()
    page.locator(".tabs").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('.charts').dataset.same = 'yes'")
    tab(page, "Members")
    expect(page.locator("section[aria-labelledby=members]")).to_be_visible()
    expect(page.locator("section[aria-labelledby=partitions]")).to_have_count(0)
    chosen = page.locator(".tabs [aria-current]")
    expect(chosen).to_have_text("Members 3")
    expect(chosen).to_be_focused()
    expect(page.locator(".charts[data-same] figure").first).to_be_visible()
    expect(chosen).to_be_in_viewport()
    page.go_back()
    expect(page.locator("section[aria-labelledby=partitions]")).to_be_visible()
    expect(page.locator(".charts[data-same] figure").first).to_be_visible()
    page.go_forward()
    expect(page.locator("section[aria-labelledby=members]")).to_be_visible()
    tab(page, "Raw records")
    expect(page.locator(".wide[aria-label='Raw records'] tbody tr")).to_have_count(7)


@pytest.mark.parametrize("width", [360, 2560])
def test_a_timeline_fits_and_owners_change_at_its_marks(
    open_page: Callable[..., Page], server: str, width: int
) -> None:
    timeline = f"{server}c/timeline/group/timeline?group="
    page = open_page(f"{timeline}{MANY}", viewport={"width": width, "height": 800})
    expect(page.locator(".lane .label", has_text="orders 59")).to_be_visible()
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.timeline rect, .timeline time')]"
        ".map((mark) => mark.getBoundingClientRect().right))"
    )
    assert right <= width
    page.goto(f"{timeline}{DEPLOYED}")
    mark_place, period_place = (
        page.locator(f".timeline {part}").nth(number).bounding_box()
        for part, number in ((".rebalances rect", 0), ("rect[class]", 1))
    )
    assert mark_place is not None
    assert period_place is not None
    assert period_place["x"] == pytest.approx(mark_place["x"], abs=4)


def test_arrow_keys_move_in_the_matrix_and_a_refresh_keeps_the_cell(
    open_page: Callable[..., Page], server: str
) -> None:
    page = open_page(f"{server}c/topics/topic?topic={READ}&sort=group_id")
    cells = page.locator("#matrix tbody td")
    # One cell is in the tab order.
    expect(page.locator("#matrix tbody td[tabindex]")).to_have_count(1)
    cells.first.focus()
    for key, row, text in (
        ("ArrowRight", SLOW, None),
        ("ArrowRight", SLOW, "600"),
        ("ArrowDown", QUICK, "0"),
        ("ArrowDown", QUICK, "0"),
        ("End", QUICK, ""),
        ("ArrowRight", QUICK, ""),
        ("ArrowUp", SLOW, "600"),
    ):
        page.keyboard.press(key)
        focused = page.locator("#matrix td:focus")
        expect(focused.locator("xpath=../th")).to_have_text(row)
        if text is not None:
            expect(focused).to_have_text(text)
    expect(page.get_by_role("tooltip")).to_contain_text("600 behind")
    expect(page.locator("#matrix tbody td[tabindex]")).to_have_count(1)
    page.evaluate("loadPage(location.href, { isRefresh: true })")
    expect(page.locator("#matrix td:focus")).to_have_text("600")
    expect(page.locator("#matrix td:focus").locator("xpath=../th")).to_have_text(SLOW)
    # On a narrow screen the matrix scrolls in its own region, and stays a table.
    page.set_viewport_size({"width": 360, "height": 800})
    expect(page.locator("#matrix")).not_to_have_attribute("data-labelled", re.compile(""))
