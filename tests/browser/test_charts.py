"""The charts of a group in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import REWOUND

pytestmark = [needs_chromium, pytest.mark.long]
GROUP = f"group?group={REWOUND}"
STOPPED = {"status": "STOP", "level": "bad", "reason": "no commit for 50 s"}


def plots(page: Page) -> Locator:
    """The three plots, once they are drawn."""
    overlays = page.locator(".charts .u-over")
    expect(overlays).to_have_count(3)
    return overlays


def answering(json: Any) -> Callable[[Route], None]:
    """A route that answers with JSON."""
    return lambda route: route.fulfill(json=json)


def test_all_charts_have_the_time_under_the_pointer(open_page: Callable[..., Page]) -> None:
    page = open_page(GROUP, timezone_id="Asia/Kathmandu")
    in_nepal = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+05:45")
    expect(page.locator(".strip li").last).to_contain_text(in_nepal)
    page.get_by_text("Charts as a table").click()
    expect(page.locator(".charts details[open] tbody td").first).to_have_text(in_nepal)
    expect(page.get_by_role("img", name=re.compile("Lag over time"))).to_be_visible()
    plots(page).first.hover()
    expect(page.locator(".charts .at")).to_have_text([in_nepal, in_nepal, in_nepal])
    assert len(set(page.locator(".charts .at").all_inner_texts())) == 1


@pytest.mark.parametrize(
    ("status", "note"),
    [(500, "The statuses cannot be shown: the server answered 500"), (503, "Loading statuses …")],
)
def test_charts_do_not_wait_for_the_statuses(
    open_page: Callable[..., Page], status: int, note: str
) -> None:
    page = open_page("")
    busy = {"status": status, "headers": {"Retry-After": "1"}}
    page.route("**/group/statuses?*", lambda route: route.fulfill(**busy))
    page.goto(page.url + GROUP)
    plots(page)
    expect(page.locator(".strip p")).to_have_text(note)
    page.unroute("**/group/statuses?*")
    if status == 503:
        expect(page.locator(".strip li").first).to_be_visible()


def test_the_status_changes_lead_to_their_time(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    around = f"/c/tables/{GROUP}&since=2026-01-01T00:00:00Z"
    change = {**STOPPED, "at": 1, "before": "OK", "around": around}
    answer = {"periods": [{**STOPPED, "from": 1, "until": 2}], "changes": [change]}
    page.route("**/group/statuses?*", answering(answer))
    page.goto(page.url + GROUP)
    expect(page.locator(".strip li")).to_have_count(1)
    page.get_by_text("Status changes").click()
    row = page.locator(".charts .changes tbody tr")
    expect(row).to_contain_text("OK → STOP")
    expect(row).to_contain_text("no commit for 50 s")
    row.get_by_role("link").click()
    expect(page).to_have_url(re.compile("since=2026-01-01T00:00:00Z#over-time$"))
    expect(page.get_by_role("link", name="Whole span")).to_be_visible()


def test_a_drag_moves_the_page_to_its_period(open_page: Callable[..., Page]) -> None:
    page = open_page(GROUP)
    plot = plots(page).nth(1)
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 3 / 4, box["y"] + 40, steps=5)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?group=\w+&since=[^&]*&until=[^&]*$"))
    # The page is the same document, at the same place.
    expect(page.get_by_role("link", name="Whole span")).to_be_visible()
    expect(page.locator(".spans [aria-current]")).to_have_count(0)
    # No offset was committed yet in this period.
    expect(page.locator(".charts .u-over")).to_have_count(1)
    chart = page.locator("[data-chart]")
    expect(chart).to_have_attribute("data-chart", re.compile("since=.*until="))
    page.go_back()
    expect(page.locator(".spans [aria-current]")).to_have_text("1h")
    plots(page)
    page.go_forward()
    page.get_by_role("link", name="Whole span").click()
    expect(page.locator(".spans [aria-current]")).to_have_text("1h")
    expect(page).to_have_url(re.compile(rf"{re.escape(GROUP)}(#.*)?$"))
    plots(page)


def test_charts_fill_their_place_in_both_themes(open_page: Callable[..., Page]) -> None:
    page = open_page(GROUP)
    canvas = page.locator(".charts canvas")
    expect(page.locator(".strip li").first).to_be_visible()
    for width in (360, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        room = page.locator(".charts").bounding_box()
        assert room is not None
        expect(canvas.first).to_have_css("width", f"{room['width']:g}px")
        assert page.evaluate("document.documentElement.scrollWidth") == width
    light = canvas.first.evaluate("(canvas) => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    drawn = "(light) => document.querySelector('.charts canvas')?.toDataURL() !== light"
    page.wait_for_function(drawn, arg=light)
    expect(canvas).to_have_count(3)


def test_no_data_is_said_in_words(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    page.route("**/group/statuses?*", answering({"periods": [], "changes": []}))
    nothing = {
        **{"since": 0, "begin": 0, "until": 3600, "at": [0, 3600], "events": []},
        **{"more_events": 3, **{name: [None, None] for name in LINES}},
    }
    page.route("**/group/chart?*", answering(nothing))
    page.goto(page.url + GROUP)
    expect(page.get_by_text("No data for this time range.")).to_have_count(3)
    expect(page.locator(".charts")).to_contain_text("3 more events of this period are not marked")


LINES = ("lag", "produced", "committed", "produce_rate", "commit_rate")
