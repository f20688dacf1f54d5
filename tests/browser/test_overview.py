"""The overview in a real browser: keys, sparklines, filters, and groups that are compared."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from streaming.views.text import printable
from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import GROUPS, HOSTILE, REWOUND

pytestmark = [needs_chromium, pytest.mark.long]
_ROWS = "#groups tbody tr"


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def refresh(page: Page) -> None:
    """Bring the page up to newer tables, as it does by itself when they change."""
    page.evaluate("loadPage(location.href, { isRefresh: true })")


def test_keys_move_select_and_open_also_across_refreshes(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    for key, name in (("j", printable(HOSTILE)), ("j", REWOUND), ("k", printable(HOSTILE))):
        page.keyboard.press(key)
        assert focused(page) == name
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    selected = page.locator(f"{_ROWS} input:checked")
    expect(selected).to_have_count(2)
    refresh(page)
    expect(selected).to_have_count(2)
    assert focused(page) == REWOUND
    # Sparklines come after the page, and stay across a refresh.
    sparklines = page.locator(f"{_ROWS} svg.spark")
    expect(sparklines).to_have_count(50)
    refresh(page)
    assert sparklines.count() == 50
    # With modifiers they are those of the browser.
    page.keyboard.press("Control+k")
    assert focused(page) == REWOUND
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Group {REWOUND}")


def test_keys_are_letters_in_a_field_and_can_be_turned_off(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("")
    search, dialog = page.get_by_label("Group", exact=True), page.get_by_role("dialog", name="Keys")
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.type("jx?k/")
    expect(search).to_have_value("jx?k/")
    expect(page.locator("#groups")).to_contain_text("No group matches.")
    expect(dialog).to_have_count(0)
    page.locator("main").focus()
    page.keyboard.press("?")
    expect(dialog).to_contain_text("previous row")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    for are_on in (False, True):
        page.get_by_role("button", name="Keys").click()
        page.get_by_role("checkbox", name="Use these keys").set_checked(are_on)
        page.get_by_role("button", name="Close").click()
        page.reload()
        page.keyboard.press("/")
        if are_on:
            expect(search).to_be_focused()
        else:
            expect(search).not_to_be_focused()


def test_filters_narrow_at_once_and_chips_remove_them(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    search = page.get_by_label("Group", exact=True)
    search.press_sequentially("group-01")
    expect(page.locator(_ROWS)).to_have_count(10)
    expect(page).to_have_url(re.compile(r"\?search=group-01$"))
    expect(search).to_be_focused()
    page.get_by_text("Status, state, type").click()
    page.get_by_role("checkbox", name="OK").check()
    expect(page).to_have_url(re.compile("status=OK"))
    chips = page.get_by_role("list", name="Active filters").get_by_role("link")
    expect(chips).to_have_count(3)
    chips.filter(has_text="Group: group-01").click()
    expect(page.locator(".pages").first).to_contain_text(f"{GROUPS} of {GROUPS + 2} groups")


def test_selected_groups_are_compared(open_page: Callable[..., Page]) -> None:
    page = open_page("?search=group-00")
    for name in ("group-003", "group-007"):
        page.get_by_role("checkbox", name=f"Compare {name}").check()
    page.get_by_role("button", name="Compare selected groups (2)").click()
    expect(page.locator("h1")).to_have_text("Compare groups")
    expect(page.locator("#compared thead a")).to_have_text(["group-003", "group-007"])
    charts = page.get_by_role("img", name=re.compile("Lag over the last hour"))
    expect(charts).to_have_count(2)
