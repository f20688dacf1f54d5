"""The page in a real browser: what a person does with it, and what everybody can use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Response
from playwright.sync_api import Browser, Page, expect

from streaming.dashboard.app import create_app
from streaming.dashboard.queries import PROCESSES
from streaming.http.server import serving
from streaming.views.text import printable
from tests.support.browser.chromium import needs_chromium
from tests.support.eventually import Eventually
from tests.support.tables.dashboard_tables import MEMBER, REWOUND, DashboardTables

pytestmark = needs_chromium


def test_an_incident_from_the_overview_to_its_cause(
    open_page: Callable[..., Page],
) -> None:
    page = open_page("")
    page.get_by_label("Groups by status").get_by_role("link", name="REWIND").click()
    row = page.locator("#groups tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("ago from 990")
    row.get_by_role("link", name=REWOUND).click()
    expect(page.locator("h1")).to_have_text(f"Group {REWOUND}")
    # The explanation is loaded after the page.
    why = page.locator("section[aria-labelledby=why] li").filter(has_text=re.compile(r"^\s*Cause"))
    expect(why).to_contain_text("set back from 990 to 100")
    expect(why.get_by_text("log partition 0, record offset 39")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Lag over time"))).to_be_visible()
    expect(page.locator(".strip li").last).to_have_attribute("data-level", "bad")
    # The tables begin seconds before.
    not_known = re.compile("not known from .*: .* the tables reach from")
    expect(page.locator(".strip li").first).to_have_attribute("title", not_known)
    page.get_by_role("link", name="Events", exact=True).click()
    event = page.locator("section[aria-labelledby=events] tbody tr").first
    expect(event).to_contain_text("from 990 to 100")
    expect(event).to_contain_text(f"by {printable(MEMBER)} at /10.0.0.1")


@pytest.mark.long
def test_a_search_narrows_as_one_types(open_page: Callable[..., Page]) -> None:
    page = open_page("")
    page.get_by_label("Group", exact=True).press_sequentially("group-11")
    expect(page.locator("#groups tbody tr")).to_have_count(10)
    expect(page).to_have_url(re.compile(r"\?search=group-11$"))
    expect(page.get_by_label("Group", exact=True)).to_be_focused()


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
    travel.click()
    moment.fill(tables.before.isoformat())
    page.get_by_role("button", name="Go").click()
    expect(page.locator(".past")).to_contain_text("Past snapshot")
    expect(page.locator(".verdict")).not_to_contain_text("went back")
    # In the reader's own zone, UTC on hover.
    time = page.locator(".past time")
    expect(time).to_have_attribute("title", re.compile(r"UTC$"))
    shown = time.inner_text()
    assert shown.endswith(" +05:45")
    # What is shown can be typed, and without its offset it is the reader's own, too.
    utc = tables.before.isoformat(timespec="seconds").replace("+00:00", ".000Z")
    local = shown.replace(" ", "T", 1).replace(" ", "")
    for typed, asked in ((shown, local), (shown.removesuffix(" +05:45"), utc)):
        travel.click()
        moment.fill(typed)
        page.get_by_role("button", name="Go").click()
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
    formula = "SELECT '=6*7' AS answer"
    page.get_by_role("textbox", name=re.compile("^A SELECT")).fill(formula)
    for button, cell in (("CSV", b"=6*7"), ("CSV for spreadsheets", b"'=6*7")):
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        file = tmp_path / "query.csv"
        download.value.save_as(file)
        assert file.read_bytes() == b"answer\r\n" + cell + b"\r\n"


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


@contextmanager
def other_site(address: str) -> Iterator[int]:
    """The port of a page that shows eight expensive pages as images, and links to some."""
    images = "".join(
        f'<img src="{address}changes?since=2026-01-01T00:00:0{number}Z">'
        f'<img src="{address}?at=2026-01-01T00:00:0{number}Z">'
        for number in range(4)
    )
    links = f'<a href="{address}changes">changes</a> <a href="{address}sql">sql</a>'
    html = f'<!doctype html>{images}<iframe src="{address}"></iframe>{links}'.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.long
@pytest.mark.parametrize("site", ["localhost", "127.0.0.1"])
def test_another_site_can_link_here_and_nothing_else(
    browser: Browser, tables: DashboardTables, eventually: Eventually, site: str
) -> None:
    """To the browser localhost is another site, and 127.0.0.1 another port of the same one."""
    app = create_app({"tables": tables.folder})
    statuses: list[int] = []

    def note(response: Response) -> Response:
        statuses.append(response.status_code)
        return response

    app.after_request(note)
    with serving(app) as address, other_site(f"{address}c/tables/") as port:
        page = browser.new_page()
        page.goto(f"http://{site}:{port}/")
        eventually(lambda: len(statuses) == 9)
        assert statuses == [403] * 9
        page.get_by_role("link", name="changes").click()
        expect(page.locator("h1")).to_have_text("Changes")
        page.go_back()
        page.get_by_role("link", name="sql").click()
        expect(page.locator("h1")).to_have_text("Forbidden" if site == "localhost" else "SQL")
        page.close()
    app.extensions[PROCESSES].close()
