"""From looking to acting: a person tests a rule and plans a reset."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.chromium import needs_chromium
from tests.support.tables.dashboard_tables import REWOUND, DashboardTables

pytestmark = [needs_chromium, pytest.mark.long]
RULE = f"rules:\n  - name: behind\n    groups: {REWOUND}\n    lag: '> 500'\n"


def test_a_rule_is_copied_and_tested_by_keyboard(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(f"group?group={REWOUND}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Alert me on this").click()
    rule = page.get_by_label("The rule, in YAML")
    assert "status: [REWIND]\n" in rule.input_value()
    page.get_by_role("link", name="the lag", exact=True).click()
    expect(page.get_by_role("link", name="the lag", exact=True)).to_have_attribute(
        "aria-current", "true"
    )
    assert 'lag: "> ' in rule.input_value()
    rule.fill(RULE)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == RULE
    page.get_by_label("Period").select_option("1h")
    rule.press("Control+Enter")
    expect(page.locator(".verdict")).to_contain_text("behind would have fired 1 time from")
    expect(rule).to_have_value(RULE)


def test_a_plan_is_copied_and_its_moment_is_in_the_zone_of_the_reader(
    open_page: Callable[..., Page], tables: DashboardTables
) -> None:
    past = urlencode({"group": REWOUND, "at": tables.before.isoformat()})
    page = open_page(f"group?{past}", timezone_id="Asia/Kolkata")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Plan a reset").click()
    expect(page.locator(".verdict")).to_contain_text("1,780 records skipped")
    expect(page.locator(".warnings")).to_contain_text("Kafka resets only groups without members")
    page.get_by_label("Brokers").fill("broker:9092")
    page.get_by_role("button", name="Plan", exact=True).click()
    commands = page.locator("#plan-commands")
    expect(commands).to_contain_text("--bootstrap-server broker:9092 --reset-offsets")
    page.locator("button[data-copy=plan-commands]").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").count("\n") == 2
    # A typed time is in the reader's zone.
    page.get_by_role("textbox", name="Moment").fill("2001-01-01 05:30")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_role("alert").last).to_contain_text("2001-01-01T00:00")
