"""The page in a real browser: what a person does with it, and what everybody can use."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import REWOUND, DashboardTables

pytestmark = needs_chromium
SCREEN = {"width": 1280, "height": 800}
STORY = "# `fraud-check`: PENDING: 14,800 records behind"


def cause_of(page: Page) -> Locator:
    """The line of a story that has the cause; the story is loaded after its page."""
    return page.get_by_role("listitem").filter(has_text=re.compile(r"^\s*Cause"))


def require_on_the_first_screen(page: Page, cause: str) -> None:
    expect(cause_of(page)).to_contain_text(cause)
    expect(cause_of(page)).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0


def test_an_incident_from_the_overview_to_its_cause(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    page.get_by_label("Groups by status").get_by_role("link", name="REWIND").click()
    row = page.locator("#groups tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("ago from 990")
    row.get_by_role("link", name=REWOUND).click()
    expect(page.locator("h1")).to_have_text(f"Group {REWOUND}")
    why = cause_of(page)
    expect(why).to_contain_text("set back from 990 to 100")
    expect(why.get_by_text("log partition 0, record offset 39")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Lag over time"))).to_be_visible()
    not_known = re.compile("not known from .*: run did not evaluate")
    expect(page.locator(".strip li")).to_have_attribute("title", not_known)


@pytest.mark.long
def test_the_keyboard_is_enough(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == REWOUND:
            break
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Group {REWOUND}")


@pytest.mark.long
def test_the_past_is_another_page_of_the_same(
    open_page: Callable[..., Page], tables: DashboardTables
) -> None:
    page = open_page(f"group?group={REWOUND}", timezone_id="Asia/Kathmandu")
    expect(page.locator(".verdict")).to_contain_text("went back")
    travel, moment = page.locator(".travel summary"), page.get_by_label("Moment")
    time = page.locator(".past time")

    def go_to(typed: str) -> None:
        travel.click()
        moment.fill(typed)
        page.get_by_role("button", name="Go").click()

    go_to(tables.before.isoformat())
    expect(page.locator(".past")).to_contain_text("Past snapshot")
    expect(page.locator(".verdict")).not_to_contain_text("went back")
    # In the reader's own zone, UTC on hover.
    expect(time).to_have_attribute("title", re.compile(r"UTC$"))
    shown = time.inner_text()
    assert shown.endswith(" +05:45")
    # What is shown can be typed, and without its offset it is the reader's own, too.
    utc = tables.before.isoformat(timespec="seconds").replace("+00:00", ".000Z")
    local = shown.replace(" ", "T", 1).replace(" ", "")
    for typed, asked in ((shown, local), (shown.removesuffix(" +05:45"), utc)):
        go_to(typed)
        expect(page).to_have_url(re.compile(re.escape(urlencode({"at": asked}))))
        expect(time).to_have_text(shown)
    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.locator(".verdict")).to_contain_text("went back")


@pytest.mark.long
def test_sql_is_run_and_taken_away(open_page: Callable[..., Page], tmp_path: Path) -> None:
    page = open_page("sql")
    page.get_by_role("link", name="Which groups are in trouble, and why?").click()
    expect(page.locator("main table")).to_contain_text(REWOUND)
    page.get_by_role("textbox", name=re.compile("^A SELECT")).fill("SELECT 6 * 7 AS answer")
    page.keyboard.press("Control+Enter")
    expect(page.locator("main td")).to_have_text("42")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    file = tmp_path / "query.csv"
    download.value.save_as(file)
    assert file.read_bytes() == b"answer\r\n42\r\n"


@pytest.mark.long
def test_the_hour_that_comes_twice_is_two(open_page: Callable[..., Page]) -> None:
    moments = [f"TIMESTAMPTZ '2026-10-25 0{hour}:30:00Z'" for hour in range(3)]
    select = f"SELECT unnest([{', '.join(moments)}]) AS a"
    page = open_page(f"sql?{urlencode({'query': select})}", timezone_id="Europe/Berlin")
    cells = ["2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00"]
    expect(page.locator("main td")).to_have_text([*cells, "2026-10-25 03:30:00 +01:00"])
    for cell, utc in zip(cells, ("00:30", "01:30"), strict=True):
        in_utc = page.evaluate("(text) => new Date(inUtc(text)).toISOString()", cell)
        assert in_utc == f"2026-10-25T{utc}:00.000Z"
    seconds = [1_792_886_400 + 1_800 * number for number in range(6)]
    assert page.evaluate("(seconds) => timeLabels(seconds)", seconds) == [
        *("02:00\n10-25 +02:00", "02:30\n", "02:00\n+01:00", "02:30\n"),
        *("03:00\n", "03:30\n"),
    ]


@pytest.mark.long
def test_the_cause_of_a_deletion_is_on_the_first_screen(
    open_page: Callable[..., Page], server: str
) -> None:
    page = open_page(f"{server}c/demo/", viewport=SCREEN)
    # A group that was deleted is among the changes.
    for name in ("Changes", "trial"):
        page.get_by_role("link", name=name, exact=True).first.click()
    expect(page.locator("h1")).to_contain_text("trial")
    require_on_the_first_screen(page, "the group was deleted at 08:33:05 UTC")


@pytest.mark.long
def test_the_story_has_its_place_on_the_first_screen_before_it_is_loaded(
    open_page: Callable[..., Page], server: str
) -> None:
    page = open_page(f"{server}c/demo/", viewport=SCREEN)
    held: list[Route] = []
    page.route("**/group/why?*", lambda route: held.append(route))
    with page.expect_request("**/group/why?*"):
        page.goto(f"{page.url}group?group=fraud-check")
    height = "document.querySelector('section:has(#why)').getBoundingClientRect().height"
    before = page.evaluate(height)
    held[0].continue_()
    require_on_the_first_screen(page, "an open transaction of producer 7")
    assert page.evaluate(height) == before


@pytest.mark.long
def test_stories_and_commands_are_copied(
    open_page: Callable[..., Page], server: str, tables: DashboardTables
) -> None:
    granted = {"permissions": ["clipboard-read", "clipboard-write"]}
    page = open_page(f"{server}c/demo/group?group=fraud-check", **granted)
    page.get_by_role("button", name="Copy for the ticket").click()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(STORY)
    assert copied.endswith("```\n")
    # Without a clipboard the text is selected.
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.reload()
    page.get_by_role("button", name="Copy for the ticket").click()
    expect(page.get_by_label("The story as Markdown")).to_be_focused()
    assert page.evaluate("String(getSelection())").startswith(STORY[:15])

    plan = urlencode({"group": REWOUND, "moment": tables.before.isoformat()})
    page = open_page(f"group/plan?{plan}", timezone_id="Asia/Kolkata", **granted)
    page.locator("button[data-copy=plan-commands]").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").count("\n") == 2
    # A typed time is in the reader's zone.
    page.get_by_role("textbox", name="Moment").fill("2001-01-01 05:30")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_role("alert").last).to_contain_text("2001-01-01T00:00")
