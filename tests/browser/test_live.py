"""Changes arrive by themselves, and nothing jumps under the reader's hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from streaming.dashboard.app import serving_page
from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import (
    REWOUND,
    DashboardTables,
    create_dashboard_tables,
    set_back,
)

pytestmark = [needs_chromium, pytest.mark.long]
ROWS = "[...document.querySelectorAll('#groups tbody th a')].map((link) => link.textContent)"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    """Tables that these tests change."""
    return create_dashboard_tables(tmp_path_factory.mktemp("live") / "tables")


@pytest.fixture(scope="module")
def address(tables: DashboardTables) -> Iterator[str]:
    with serving_page({"tables": tables.folder}, refresh_s=1) as address:
        yield f"{address}c/tables/"


def wait_for_refresh(page: Page) -> None:
    """Wait for the next refresh of a page."""
    page.evaluate(
        "new Promise((done) => document.addEventListener('page:updated', ({ target }) =>"
        " target.id === 'main' && done()))"
    )


def change_newer_pages(page: Page, script: str) -> None:
    """Let a script change the rows of the table of groups, `body`, in each page that arrives."""
    page.evaluate(
        f"""() => {{
          const read = Response.prototype.text;
          Response.prototype.text = async function () {{
            const next = new DOMParser().parseFromString(await read.call(this), "text/html");
            const body = next.querySelector("#groups tbody");
            {script}
            return next.documentElement.outerHTML;
          }};
        }}"""
    )


def test_changes_arrive_by_themselves_unless_a_page_is_paused(
    open_page: Callable[..., Page], tables: DashboardTables
) -> None:
    page, paused = open_page(f"group?group={REWOUND}"), open_page(f"group?group={REWOUND}")
    expect(page.locator(".age")).to_have_text(re.compile(r"^(as of|written) \d+ (s|min) ago$"))
    paused.get_by_role("button", name="Live").click()
    expect(paused.get_by_role("button", name="Paused")).to_be_visible()
    set_back(tables.folder, committed=60)
    expect(page.locator(".facts")).to_contain_text("1,880")
    facts = paused.locator(".facts")
    expect(facts).not_to_contain_text("1,880")
    paused.get_by_role("button", name="Paused").click()
    expect(facts).to_contain_text("1,880")


def test_the_reader_keeps_the_place(
    open_page: Callable[..., Page], tables: DashboardTables
) -> None:
    page = open_page("transactions")
    page.locator("main summary").first.click()
    page.evaluate(
        """() => {
          window.kept = [...document.querySelectorAll("main tr, main h1, main details")];
          getSelection().selectAllChildren(document.querySelector("main h1"));
          document.querySelector("main summary").focus();
          document.querySelector(".wide").scrollLeft = 5;
          scrollTo(0, 40);
        }"""
    )
    labelled = page.locator("main td[data-label]").count()
    assert labelled
    before = page.evaluate("[scrollY, document.querySelector('.wide').scrollLeft]")
    set_back(tables.folder, committed=58)
    wait_for_refresh(page)
    expect(page.locator("main details")).to_have_attribute("open", "")
    expect(page.locator("main summary").first).to_be_focused()
    assert page.evaluate("getSelection().toString()") == page.locator("main h1").inner_text()
    assert page.evaluate("[scrollY, document.querySelector('.wide').scrollLeft]") == before
    assert page.evaluate("window.kept.every((row) => row.isConnected)")
    # Other scripts note things in attributes of their own.
    assert page.locator("main td[data-label]").count() == labelled


def test_typed_text_survives(open_page: Callable[..., Page], tables: DashboardTables) -> None:
    page = open_page("changes")
    field = page.get_by_label("Between")
    field.fill("yest")
    field.evaluate("(input) => input.setSelectionRange(2, 2)")
    set_back(tables.folder, committed=56)
    wait_for_refresh(page)
    expect(field).to_be_focused()
    expect(field).to_have_value("yest")
    assert field.evaluate("(input) => input.selectionStart") == 2
    page.locator("h1").click()
    set_back(tables.folder, committed=54)
    wait_for_refresh(page)
    expect(field).to_have_value("yest")


def test_rows_do_not_move_under_the_pointer(
    open_page: Callable[..., Page], tables: DashboardTables
) -> None:
    page = open_page("?search=group-11")
    rows = page.evaluate(ROWS)
    assert len(rows) == 10
    page.locator("#groups tbody tr").nth(2).hover()
    # The last row comes first, one row is gone, and each lag is another.
    change_newer_pages(
        page,
        "body.prepend(body.lastElementChild); body.rows[3].remove();"
        "for (const row of body.rows) row.cells[6].textContent = '777';",
    )
    set_back(tables.folder, committed=52)
    expect(page.locator(".age")).to_contain_text("order held")
    assert page.evaluate(ROWS) == rows
    expect(page.locator("#groups td", has_text=re.compile("^777$"))).to_have_count(9)
    expect(page.locator("#groups tr.gone")).to_contain_text(rows[2])
    page.evaluate("window.fifth = document.querySelectorAll('#groups tbody tr')[4]")
    page.locator("h1").hover()
    expect(page.locator("#groups tbody tr")).to_have_count(9)
    assert page.evaluate(ROWS) == [rows[-1], *rows[:2], *rows[3:-1]]
    assert page.evaluate("window.fifth.isConnected")
    expect(page.locator(".age")).not_to_contain_text("order held")


def test_focus_stays_in_its_row(open_page: Callable[..., Page], tables: DashboardTables) -> None:
    page = open_page("?search=group-11")
    link = page.get_by_role("link", name="group-115")
    link.focus()
    change_newer_pages(page, "body.replaceChildren(...[...body.rows].reverse());")
    # The reader has not moved for a while.
    page.evaluate("() => { const now = Date.now; Date.now = () => now() + 60000; }")
    rows = page.evaluate(ROWS)
    set_back(tables.folder, committed=50)
    wait_for_refresh(page)
    assert page.evaluate(ROWS) == rows[::-1]
    expect(link).to_be_focused()


def test_it_says_that_the_server_is_away(browser: Browser, tables: DashboardTables) -> None:
    with serving_page({"tables": tables.folder}, refresh_s=0.5) as address:
        page = browser.new_page()
        page.goto(f"{address}c/tables/")
        expect(page.locator(".age")).to_contain_text("ago")
        expect(page.locator(".away")).to_be_hidden()
    port = int(address.rstrip("/").rpartition(":")[2])
    expect(page.get_by_role("status")).to_have_text("Server unreachable")
    expect(page.locator(".age")).to_have_text(re.compile(r"^last answer \d+ s ago$"))
    expect(page.locator("#groups tbody tr").first).to_be_visible()
    with serving_page({"tables": tables.folder}, refresh_s=0.5, port=port):
        expect(page.locator(".away")).to_be_hidden()
        expect(page.locator(".age")).to_contain_text(re.compile("as of|written"))
        page.close()


def test_a_page_without_a_change_is_not_sent_again(
    open_page: Callable[..., Page], tables: DashboardTables
) -> None:
    page = open_page(f"group?group={REWOUND}")
    statuses: list[int] = []
    page.on(
        "response",
        lambda response: statuses.append(response.status) if response.url == page.url else None,
    )
    # A visible page asks every second. On a slow machine it first gets a snapshot from before the
    # last change, which is kept for four times its computation.
    for _ in range(60):
        page.wait_for_timeout(1_000)
        if statuses.count(304) >= 2:
            break
    assert statuses.count(304) >= 2
    set_back(tables.folder, committed=40)
    expect(page.locator(".facts")).to_contain_text("1,920", timeout=20_000)
