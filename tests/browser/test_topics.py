"""Topics in a real browser: from the list to the matrix, and the matrix by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from streaming.dashboard.app import serving_page
from tests.support.browser.chromium import needs_chromium
from tests.support.tables.topic_tables import QUICK, READ, SLOW, UNREAD, commit, create_topic_tables

pytestmark = [needs_chromium, pytest.mark.long]
SLOW_MS = 20_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("topics") / "tables"
    return create_topic_tables(folder, datetime.now(timezone.utc))


@pytest.fixture(scope="module")
def address(tables: str) -> Iterator[str]:
    with serving_page({"tables": tables}, refresh_s=1) as page:
        yield f"{page}c/tables/"


def test_from_the_list_to_a_group_in_a_partition(open_page: Callable[..., Page]) -> None:
    page = open_page("topics")
    page.get_by_label("Topic", exact=True).press_sequentially("orders")
    expect(page.locator("#topics tbody tr")).to_have_count(1)
    page.get_by_role("link", name=READ, exact=True).click()
    expect(page.locator("h1")).to_have_text(f"Topic {READ}")
    cell = page.get_by_role("row", name=SLOW).first.get_by_role("cell", name="600").first
    cell.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("600 behind, oldest")
    expect(page.get_by_role("tooltip")).to_contain_text("owner billing-consumer-1")
    page.get_by_role("rowheader", name=SLOW).first.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(f"Group {SLOW}")


def test_topics_that_nobody_reads(open_page: Callable[..., Page]) -> None:
    page = open_page("topics")
    page.get_by_role("link", name="No readers 1").click()
    expect(page.locator("#topics tbody th")).to_have_text([UNREAD])
    page.get_by_role("link", name=UNREAD, exact=True).click()
    expect(page.get_by_text("No group reads this topic.")).to_be_visible()


def test_arrow_keys_move_in_the_matrix_and_a_refresh_keeps_the_cell(
    open_page: Callable[..., Page], tables: str
) -> None:
    page = open_page(f"topic?topic={READ}&sort=group_id")
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
    commit(tables, datetime.now(timezone.utc), slow=450)
    expect(page.locator("#matrix td:focus")).to_have_text("550", timeout=SLOW_MS)
    expect(page.locator("#matrix td:focus").locator("xpath=../th")).to_have_text(SLOW)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["topics", f"topic?topic={READ}", f"topic?topic={UNREAD}"])
def test_everybody_can_use_it(open_page: Callable[..., Page], path: str, scheme: str) -> None:
    page = open_page(path, color_scheme=scheme)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [360, 2560])
@pytest.mark.parametrize("path", ["topics", f"topic?topic={READ}"])
def test_nothing_is_cut_off(open_page: Callable[..., Page], path: str, width: int) -> None:
    page = open_page(path)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # The matrix scrolls in its own region, and stays a table.
    if path.startswith("topic?"):
        expect(page.locator("#matrix")).not_to_have_attribute("data-labelled", re.compile(""))
