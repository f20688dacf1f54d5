"""Events on the pages Changes and Group: how they are folded is in `unit/insight`."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from tests.support.browser.html import page_of, part_of, rows_of

SEARCH = {"group": "search", "folded": "no"}


def events(client: FlaskClient, path: str, /, **arguments: str) -> list[str]:
    """The texts of the rows of the table of events."""
    if path == "group":
        arguments["tab"] = "events"
    return [" ".join(cells) for cells in rows_of(page_of(client, path, **arguments), "Events")]


def test_equal_events_are_a_row_with_a_link_to_each(of_demo: FlaskClient) -> None:
    rewinds, deletions, _, churn = events(of_demo, "changes")
    assert "4 partitions of reports-topic set back, furthest reports-topic:0 from 36,000" in rewinds
    assert "48 offsets deleted of returns-topic:1; client not recorded" in deletions
    assert "24 rebalances in 3.8 min: app-c joins and leaves every 20 s" in churn

    links = re.findall(r'href="/c/prod/(changes[^"]*folded=no[^"]*)#', page_of(of_demo, "changes"))
    assert len(links) == 4
    assert "event=offset_deleted" in links[1]
    assert "group=returns" in links[1]
    newest, *_ = each = events(of_demo, links[1])
    assert len(each) == 48
    assert "of returns-topic:1 deleted; client not recorded by Kafka" in newest


@pytest.mark.parametrize(
    ("path", "arguments", "count"),
    [
        ("changes", SEARCH, 100),
        ("changes", {**SEARCH, "page": "2"}, 8),
        ("changes", {"event": "member_joined,member_left"}, 1),
        ("changes", {"group": "returns"}, 1),
        # The page shows whole seconds, so a period begins with its first one.
        ("changes", {"since": "2026-03-02T08:31:10.900Z", "event": "offset_rewind"}, 1),
        ("group", {"group": "search"}, 6),
        ("group", {"group": "search", "event": "group_created"}, 1),
        ("group", SEARCH, 100),
    ],
)
def test_the_address_selects_events(
    of_demo: FlaskClient, path: str, arguments: dict[str, str], count: int
) -> None:
    rows = events(of_demo, path, **arguments)
    assert len(rows) == count
    assert rows != ["No events."]


def test_the_page_of_a_group_has_its_newest_events(of_demo: FlaskClient) -> None:
    churn, *_, created = events(of_demo, "group", group="search")
    assert "24 rebalances in 3.8 min" in churn
    assert "group created" in created
    assert "14 more events are not shown" in page_of(of_demo, "group", tab="events", **SEARCH)
    # Equal members have different labels.
    for tab, names in (("members", "ab"), ("partitions", "ab"), ("events", "c")):
        page = page_of(of_demo, "group", tab=tab, event="member_left", **SEARCH)
        labels = re.findall(r'title="Member id: (app-\w)-[-\w]*(\w{4})">(app-\w-\w{4})', page)
        assert {name for name, *_ in labels} == {f"app-{name}" for name in names}
        assert all(f"{name}-{end}" == label for name, end, label in labels)


@pytest.mark.parametrize(
    ("arguments", "name", "text"),
    [
        ({"group": "nobody"}, "events", "No events."),
        ({"group": "reports", "since": "2026-03-02T08:31:11Z"}, "events", "No events."),
        ({"group": "reports"}, "groups", "REWIND"),
        ({"group": "nobody"}, "groups", "No group changed."),
        ({"group": "nobody"}, "offsets", "No committed offset"),
        # New partitions.
        ({"group": "reports"}, "offsets", '<td class="number">4</td>'),
    ],
)
def test_changes_are_of_one_group(
    of_demo: FlaskClient, arguments: dict[str, str], name: str, text: str
) -> None:
    page = page_of(of_demo, "changes", **arguments)
    assert text in part_of(page, f'<section aria-labelledby="{name}">', "</section>")
