"""Incidents of the demo, from the overview to its cause, and into a ticket."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.browser.chromium import needs_chromium

pytestmark = [needs_chromium, pytest.mark.long]

SCREEN = {"width": 1280, "height": 800}
MOST_CLICKS = 3
CAUSES = {
    "fraud-check": "an open transaction of producer 7",
    "trial": "the group was deleted at 08:33:05 UTC",
}
"""A group of the overview, and one that was deleted. All causes are in `unit/dashboard`."""


@pytest.fixture(scope="module")
def address(server: str) -> str:
    return f"{server}c/demo/"


def is_on_screen(line: Locator) -> bool:
    """Whether a whole line is on the screen, although nobody scrolled."""
    box = line.bounding_box()
    assert box is not None
    assert line.page.evaluate("scrollY") == 0
    return box["y"] >= 0 and box["y"] + box["height"] <= SCREEN["height"]


def cause_of(page: Page) -> Locator:
    return page.get_by_role("listitem").filter(has_text=re.compile(r"^\s*Cause"))


def height_of_story(page: Page) -> float:
    box = page.locator("section:has(#why)").bounding_box()
    assert box is not None
    return box["height"]


@pytest.mark.parametrize("group", CAUSES)
def test_the_cause_of_an_incident_is_found_from_the_overview(
    open_page: Callable[..., Page], group: str
) -> None:
    page = open_page("", viewport=SCREEN)
    of_group = page.get_by_role("link", name=group, exact=True)
    way = [of_group]
    if not of_group.count():
        # A group that was deleted is among the changes.
        way = [page.get_by_role("link", name="Changes", exact=True), of_group]
    assert len(way) <= MOST_CLICKS
    for link in way:
        link.first.click()
    expect(page.locator("h1")).to_contain_text(group)
    cause = cause_of(page)
    expect(cause).to_contain_text(CAUSES[group])
    assert is_on_screen(cause)


def test_the_place_of_the_story_is_kept_free(open_page: Callable[..., Page]) -> None:
    page = open_page("", viewport=SCREEN)
    held: list[Route] = []
    page.route("**/group/why?*", lambda route: held.append(route))
    with page.expect_request("**/group/why?*"):
        page.goto(f"{page.url}group?group=fraud-check")
    before = height_of_story(page)
    held[0].continue_()
    expect(cause_of(page)).to_be_visible()
    assert height_of_story(page) == before


def test_the_story_is_copied_for_a_ticket(open_page: Callable[..., Page]) -> None:
    page = open_page("group?group=fraud-check", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy for the ticket").click()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("# `fraud-check`: PENDING: 14,800 records behind")
    assert copied.endswith("```\n")


def test_without_a_clipboard_the_story_is_selected(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(f"{page.url}group?group=fraud-check")
    page.get_by_role("button", name="Copy for the ticket").click()
    expect(page.get_by_label("The story as Markdown")).to_be_focused()
    assert page.evaluate("String(getSelection())").startswith("# `fraud-check`")
