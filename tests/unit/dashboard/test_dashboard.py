"""The page without a browser: what each address answers."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import get_args
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.state_meanings import STATE_MEANINGS, STATUS_MEANINGS
from streaming.api.groups import GroupState
from streaming.dashboard import app
from streaming.dashboard.app import create_app
from streaming.views.text import printable
from tests.support.browser.html import client_of, page_client, page_of, part_of, rows_of
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables
from tests.support.tables.tables_folder import create_tables

PAGES = (
    "",
    *(
        f"group?{urlencode({'group': group, 'tab': tab})}"
        for group in (HOSTILE, REWOUND)
        for tab in ("partitions", "members", "events", "transactions")
    ),
    *(
        f"group/{part}?{urlencode({'group': HOSTILE})}"
        for part in ("why", "records", "transactions", "timeline")
    ),
    f"topic?{urlencode({'topic': HOSTILE})}",
    *("topics", "transactions", "changes", "alerts", "sql", "health"),
    f"sql?{urlencode({'query': 'FROM group_offsets'})}",
)

RECORD = f"/c/prod/group/record?group={REWOUND}"
STATIC = Path(app.__file__).with_name("static")
TOKENS = re.findall(r"(--[\w-]+):", (STATIC / "tokens.css").read_text("utf-8"))


ELEMENT = re.compile(r"<(\w+)([^>]*)>")
"""An element, and its attributes: templates quote each value, and escape `>`."""


def test_names_of_clients_are_only_text_and_nothing_is_written(
    client: TestClient, tables: DashboardTables
) -> None:
    files = sorted(Path(tables.folder).rglob("*"))
    for address in PAGES:
        answer = client.get(f"/c/prod/{address}")
        assert answer.status_code == 200, address
        elements = ELEMENT.findall(answer.text)
        names = {name for name, _ in elements}
        assert "main" in names
        assert names.isdisjoint({"img", "style", "iframe"}), address
        text = unescape(ELEMENT.sub("", answer.text))
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text), address
        # The policy forbids styles and scripts that stand in the page itself.
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        for _, attributes in elements:
            names_only = re.sub("\"[^\"]*\"|'[^']*'", "", attributes)
            assert not re.search(r"\b(style|on\w+)=", names_only), address
    assert sorted(Path(tables.folder).rglob("*")) == files


def test_links_with_any_name_lead_there(client: TestClient) -> None:
    page = client.get(f"/c/prod/group?group={REWOUND}").text
    links = re.findall(r'href="(/c/prod/topic\?[^"]*img[^"]*)"', page)
    assert links
    for link in links:
        shown = unescape(client.get(unescape(link)).text)
        assert f"<h1>Topic {printable(HOSTILE)}</h1>" in shown


def test_another_moment_moves_every_page(client: TestClient, tables: DashboardTables) -> None:
    at = tables.before.isoformat()
    then = page_of(client, "", at=at, search=REWOUND)
    assert "went back" not in then
    assert "Past snapshot" in then
    (link,) = re.findall(rf'<a href="/c/prod/(group\?[^"]*group={REWOUND}[^"]*)"', then)
    group = page_of(client, f"{link}&tab=events")
    assert "Past snapshot" in group
    assert "data-refresh-s" not in group
    assert "<td>offset rewind</td>" not in group
    assert "<td>offset rewind</td>" in page_of(client, "group", group=REWOUND, tab="events")
    assert "Nothing written" not in page_of(client, "")
    # Every micro-batch has a link to the overview of its moment.
    links = re.findall(r'<a href="/c/prod/([^"]*at=[^"]*)">Overview at', page_of(client, "health"))
    for link, version in zip(links[:2], (2, 1), strict=True):
        assert f"version {version}," in page_of(client, link)


@pytest.mark.parametrize(
    ("address", "status", "message"),
    [
        ("/c/other/", 404, "Unknown cluster."),
        ("/c/prod/group?group=nobody", 404, "Group 'nobody' does not exist"),
        ("/c/prod/topic?topic=none", 404, "No group reads topic 'none'"),
        ("/c/prod/?at=yesterday", 400, "'yesterday' is neither a version nor a time"),
        ("/c/prod/?at=2001-01-01", 400, "the tables reach from"),
        ("/c/prod/?at=0001-01-01T00:00:00%2B23:00", 400, "is neither a version nor a time"),
        (f"/c/prod/?at={'9' * 5000}", 400, "is neither a version nor a time"),
        ("/c/prod/?as_of=5m", 400, "unknown argument as_of: use at, such as ?at=5m"),
        ("/c/prod/changes?event=offset_rewound", 400, "is not an event"),
        ("/c/prod/group/timeline?group=g&since=1m&until=2m", 400, "before its start"),
        ("/c/prod/group/ticket?group=nobody", 404, "No data about group"),
        (f"{RECORD}&log_partition=0&record_offset=99999", 404, "has no such record"),
        (f"{RECORD}&log_partition=0&record_offset=0&day=2001-01-01", 404, "no such record"),
        (f"{RECORD}&log_partition=0&record_offset=x", 400, "record_offset is not a number: 'x'"),
        (f"{RECORD}&log_partition=0", 400, "record_offset is not a number"),
        (f"{RECORD}&log_partition=0&record_offset=0&day=today", 400, "not a day such as"),
        ("/nothing", 404, "not found"),
    ],
)
def test_an_address_without_a_page_of_its_own(
    client: TestClient, address: str, status: int, message: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == status
    assert message in unescape(answer.text)


def test_the_only_cluster_is_the_page_of_the_server(client: TestClient) -> None:
    answer = client.get("/?search=zzz&sort=-lag")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/c/prod/?search=zzz&sort=-lag"


def test_every_status_and_state_has_its_meaning_on_the_components_page() -> None:
    assert list(STATUS_MEANINGS) == list(Status)
    assert set(STATE_MEANINGS) == set(get_args(GroupState))
    page = client_of(create_app({})).get("/styleguide").text
    names = [*(status.value for status in Status), *STATE_MEANINGS]
    assert [name for name in names if f">{name}</span>" not in page] == []


@pytest.mark.parametrize("sheet", sorted(STATIC.glob("*.css")), ids=lambda sheet: sheet.name)
def test_style_sheets_use_defined_tokens_only(sheet: Path) -> None:
    assert set(re.findall(r"var\((--[\w-]+)", sheet.read_text("utf-8"))) <= set(TOKENS)


def test_stale_tables_have_a_banner_on_every_page(tmp_path: Path) -> None:
    tables = create_tables(tmp_path / "stale")
    lag_of(tables, 50, seconds_ago=200)
    client = page_client(prod=tables, other=tables)
    banner = re.compile(r"Nothing written since [-\d: ]+ UTC \([\d.]+ min ago\)\. Is `run` running")
    assert banner.search(client.get("/").text)
    pages = ("", "group?group=g", "topic?topic=t", "transactions", "changes", "alerts", "health")
    assert [page for page in pages if not banner.search(page_of(client, page))] == []
    assert "is `run` running?" in rows_of(page_of(client, ""), "groups")[0][1]


# --- events on the pages Changes and Group: how they are folded is in `unit/insight`

SEARCH = {"group": "search", "folded": "no"}


def events(client: TestClient, path: str, /, **arguments: str) -> list[str]:
    """The texts of the rows of the table of events."""
    if path == "group":
        arguments["tab"] = "events"
    return [" ".join(cells) for cells in rows_of(page_of(client, path, **arguments), "Events")]


def test_equal_events_are_a_row_with_a_link_to_each(demo_client: TestClient) -> None:
    _, deletions, *_ = events(demo_client, "changes")
    assert "48 offsets deleted of returns-topic:1; client not recorded" in deletions
    page = page_of(demo_client, "changes")
    links = re.findall(r'href="/c/prod/(changes[^"]*folded=no[^"]*)#', page)
    assert len(links) == 4
    newest, *_ = each = events(demo_client, links[1])
    assert len(each) == 48
    assert "of returns-topic:1 deleted; client not recorded by Kafka" in newest


@pytest.mark.parametrize(
    ("path", "arguments", "count"),
    [
        ("changes", SEARCH, 100),
        ("changes", {**SEARCH, "page": "2"}, 8),
        ("changes", {"event": "member_joined,member_left"}, 1),
        # The page shows whole seconds, so a period begins with its first one.
        ("changes", {"since": "2026-03-02T08:31:10.900Z", "event": "offset_rewind"}, 1),
        ("group", {"group": "search", "event": "group_created"}, 1),
        ("group", SEARCH, 100),
    ],
)
def test_the_address_selects_events(
    demo_client: TestClient, path: str, arguments: dict[str, str], count: int
) -> None:
    rows = events(demo_client, path, **arguments)
    assert len(rows) == count
    assert rows != ["No events."]


def test_the_page_of_a_group_has_its_newest_events(demo_client: TestClient) -> None:
    churn, *_, created = events(demo_client, "group", group="search")
    assert "24 rebalances, 60 assignment changes, 12 joins, 12 leaves of app-c in 3.8 min" in churn
    assert "group created" in created
    assert "14 more events are not shown" in page_of(demo_client, "group", tab="events", **SEARCH)
    # Equal members have different labels.
    for tab, names in (("members", "ab"), ("partitions", "ab"), ("events", "c")):
        page = page_of(demo_client, "group", tab=tab, event="member_left", **SEARCH)
        labels = re.findall(r'title="Member id: (app-\w)-[-\w]*(\w{4})">(app-\w-\w{4})', page)
        assert {name for name, *_ in labels} == {f"app-{name}" for name in names}
        assert all(f"{name}-{end}" == label for name, end, label in labels)


@pytest.mark.parametrize(
    ("group", "name", "text"),
    [
        ("reports", "groups", "REWIND"),
        ("nobody", "groups", "No group changed."),
        ("nobody", "offsets", "No committed offset"),
        # New partitions.
        ("reports", "offsets", '<td class="number">4</td>'),
    ],
)
def test_changes_are_of_one_group(
    demo_client: TestClient, group: str, name: str, text: str
) -> None:
    page = page_of(demo_client, "changes", group=group)
    assert text in part_of(page, f'<section aria-labelledby="{name}">', "</section>")
