"""The tabs of a group's page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import DashboardTables
from tests.support.tables.tabbed_tables import (
    BILLING,
    CONSUMERS,
    GONE,
    LEDGER,
    PIPELINE,
    WORKERS,
    create_tabbed_tables,
)

pytestmark = [needs_chromium, pytest.mark.long]
PAGES = (
    *(f"group?group={BILLING}&tab={tab}" for tab in ("partitions", "members", "events", "records")),
    f"group?group={BILLING}&tab=partitions&member={CONSUMERS[0]}&topic=invoices",
    f"group?group={LEDGER}&tab=transactions",
    f"group?group={PIPELINE}&tab=tasks",
    f"group?group={WORKERS}",
    f"group?group={GONE}",
    f"group/record?group={BILLING}&log_partition=0&record_offset=0",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    folder = create_tabbed_tables(tmp_path_factory.mktemp("browser") / "tables")
    now = datetime.now(timezone.utc)
    return DashboardTables(folder, before=now, after=now)


def tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Tables of the group").get_by_text(name).click()


def test_from_a_member_to_its_worst_partition_and_its_commit(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(f"group?group={BILLING}")
    tab(page, "Members")
    expect(page).to_have_url(re.compile(r"\?group=billing&tab=members#tables$"))
    page.get_by_role("columnheader", name="Greatest lag").get_by_role("link").click()
    first = page.locator("section[aria-labelledby=members] tbody tr").first
    expect(first).to_contain_text("910")
    first.get_by_role("link", name="biller-0001").click()
    table = page.locator(".wide[aria-label=Partitions]")
    expect(table.locator("tbody tr")).to_have_count(3)
    expect(table.locator("tbody tr").first).to_contain_text("invoices")
    page.get_by_role("link", name=re.compile("member biller-0001")).click()
    expect(table.locator("tbody tr")).to_have_count(6)
    tab(page, "Raw records")
    records = page.locator(".wide[aria-label='Raw records']")
    expect(records.locator("tbody tr").first).to_contain_text('"partition": 1')
    records.get_by_role("link", name="0:0").click()
    expect(page.locator("h1")).to_have_text("Record 0:0")
    expect(page.locator("pre").first).to_contain_text('"protocolType": "consumer"')


def test_another_tab_comes_without_a_reload(open_page: Callable[..., Page]) -> None:
    page = open_page(f"group?group={BILLING}")
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


def test_a_search_keeps_the_filter(open_page: Callable[..., Page]) -> None:
    page = open_page(f"group?group={BILLING}&member={CONSUMERS[1]}")
    table = page.locator(".wide[aria-label=Partitions]")
    expect(table.locator("tbody tr")).to_have_count(3)
    page.get_by_label("Topic", exact=True).press_sequentially("ref")
    expect(table.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(f"member={CONSUMERS[1]}"))


def test_the_tabs_work_without_scripts(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}group?group={LEDGER}")
    tab(page, "Transactions")
    expect(page.get_by_role("region", name="Pending offsets")).to_contain_text("accounts:0 at 30")
    page.get_by_role("link", name="Show the ended transactions").click()
    expect(page.get_by_role("region", name="Ended transactions")).to_contain_text("aborted")
    page.get_by_role("link", name=LEDGER).click()
    tab(page, "Raw records")
    page.get_by_role("link", name="Show the newest records").click()
    expect(page.locator(".wide[aria-label='Raw records']")).to_contain_text("OffsetCommit")
    context.close()


@pytest.mark.parametrize("width", [360, 2560])
def test_nothing_is_cut_off(open_page: Callable[..., Page], width: int) -> None:
    page = open_page("")
    page.set_viewport_size({"width": width, "height": 800})
    start = page.url
    for path in PAGES:
        page.goto(f"{start}{path}")
        expect(page.locator("h1")).to_be_visible()
        for part in page.locator("[data-part]").all():
            expect(part.locator("ol, table, p").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width, path


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_everybody_can_use_the_tables(open_page: Callable[..., Page], color_scheme: str) -> None:
    page = open_page("", color_scheme=color_scheme)
    start = page.url
    for path in PAGES:
        page.goto(f"{start}{path}")
        expect(page.locator("h1")).to_be_visible()
        if "records" in path or "transactions" in path:
            expect(page.locator("[data-part] table").last).to_be_visible()
        found = Axe().run(
            page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
        )
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
