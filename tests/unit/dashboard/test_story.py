"""The story of each incident of the demo, with its links, and as Markdown for a ticket."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from markdown_it import MarkdownIt
from starlette.testclient import TestClient

from coordinator_state.insight.explanation import explain
from coordinator_state.insight.story import Part, story_of
from streaming.lag.gathered_facts import group_facts
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.diagnosis import group_story
from streaming.views.text import printable
from tests.support.browser.html import page_of, part_of
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND
from tests.support.tables.demo_incidents import END, HEALTHY, INCIDENTS

GROUP, SHOWN = "fraud-check", printable(HOSTILE)
IN_TICKET = (
    "# `fraud-check`: PENDING: 14,800 records behind, growing since about 08:31:00 UTC\n\n"
    "Cluster `prod`, [2026-03-02 08:34:05 UTC](GROUP&at=NOW)\n\n"
    "- Lag: 14,800 records\n- Time lag: at least 3.1 min\n- Members: 2\n\n1. **Began**: ",
    "2. **Cause**: an open transaction of producer 7 (client app-b at /10.0.0.13) has held "
    "4 offsets since 08:31:05 UTC ([2026-03-02 08:31:05 UTC](GROUP&since=2026-03-02T08:28:05Z"
    "&until=2026-03-02T08:34:05Z&at=NOW), [log partition 9, record offset 2162](SQL&at=NOW))\n3. ",
    "4. **Outlook**: the lag grows by 80 records/s "
    "([2026-03-02 08:34:05 UTC](GROUP&at=NOW), [query](SQL&at=NOW))\n5. **Next step**: ",
)


@pytest.fixture(scope="module")
def demo_tables(demo: str) -> CoordinatorTables:
    return CoordinatorTables(demo)


@pytest.mark.parametrize("group", [*(incident.group for incident in INCIDENTS), *HEALTHY])
def test_a_story_has_at_most_five_lines_with_their_queries(
    demo_tables: CoordinatorTables, group: str
) -> None:
    story = group_story(demo_tables.reader, group, at=END)
    assert story is not None
    parts = [line.part for line in story.lines]
    assert len(parts) <= 5
    assert parts == [part for part in Part if part in parts]
    if group in HEALTHY:
        assert [line.text for line in story.lines] == ["caught up since before 08:04:30 UTC"]
    else:
        assert Part.CAUSE in parts
        assert parts[-1] is Part.ACTION
        assert (Part.BEGIN in parts, Part.OUTLOOK in parts) == (story.is_behind, story.is_behind)
    for line in (*story.lines, *story.more):
        assert line.sql is not None or line.part in (Part.ACTION, Part.STATE)
        assert line.sql is None or len(demo_tables.sql(line.sql)), line.sql
    # The page reads fewer rows than the explanation.
    facts = group_facts(demo_tables.reader, group, at=END)
    assert facts is not None
    assert story == story_of(facts, explain(facts))


def test_a_page_begins_with_its_story_and_links_to_moments_and_records(
    demo_client: TestClient,
) -> None:
    page = page_of(demo_client, "group", group=GROUP)
    verdict, story = page.index('class="verdict"'), page.index('data-part="/c/prod/group/why?')
    assert verdict < story < page.index('class="facts"')
    why = page_of(demo_client, "group/why", group=GROUP)
    cause = part_of(why, '<li class="cause">', "</li>")
    moment, records = re.findall('href="/c/prod/([^"]+)"', cause)
    asked = parse_qs(urlsplit(moment).query)
    assert asked["group"] == [GROUP]
    assert asked["since"] + asked["until"] == ["2026-03-02T08:28:05Z", "2026-03-02T08:34:05Z"]
    assert "log partition 9, record offset 2162" in cause
    assert f"Group {GROUP}" in page_of(demo_client, moment)
    assert "app-b" in page_of(demo_client, records)
    assert "3 commands" in why


def test_the_ticket_is_the_story_as_markdown(demo_client: TestClient) -> None:
    answer = demo_client.get(f"/c/prod/group/ticket?group={GROUP}")
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    shown = answer.text.replace(f"http://localhost/c/prod/group?group={GROUP}", "GROUP")
    shown = shown.replace("2026-03-02T08:34:05.000Z", "NOW")
    shown = re.sub(r"http://localhost/c/prod/sql\?[^)&]+&at", "SQL&at", shown)
    assert [part for part in IN_TICKET if part not in shown] == []
    commands = shown.partition("```sh\n")[2].splitlines()
    assert [re.findall(" (describe|find|abort)", command) for command in commands] == [
        *(["describe"], ["find"], ["abort"], [])
    ]
    assert commands[2].endswith(" --topic __consumer_offsets --partition 9 --start-offset 2162")
    page = demo_client.get(f"/c/prod/group/why?group={GROUP}").text
    copied = page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
    assert unescape(copied) == answer.text


def test_the_command_of_a_plan_names_the_moment_before(demo_tables: CoordinatorTables) -> None:
    story = group_story(demo_tables.reader, "returns", at=END)
    assert story is not None
    assert story.commands == [
        "coordinator-state plan reset returns --to-state-at 2026-03-02T08:30:09Z --tables tables "
        "--file plan.csv"
    ]


@pytest.mark.parametrize(
    ("group", "texts"),
    [
        (HOSTILE, [f"<h1><code>{SHOWN}</code>"]),
        # Its topic and the client that set it back have such names.
        (REWOUND, [f"{SHOWN}:0 set back from 990 to 100", f"by {SHOWN}"]),
    ],
)
def test_names_in_a_ticket_are_only_text(client: TestClient, group: str, texts: list[str]) -> None:
    """How Markdown is escaped is in `property/test_markdown.py`."""
    ticket = client.get("/c/prod/group/ticket", params={"group": group}).text
    assert "\x1b" not in ticket
    html = MarkdownIt("commonmark").enable(["strikethrough", "table"]).render(ticket)
    elements = {"h1", "p", "ul", "ol", "li", "strong", "code", "pre", "a"}
    assert set(re.findall(r"<(\w+)", html)) <= elements
    links = re.findall(r'="(http[^"]*)"', html)
    assert links
    assert all(target.startswith("http://localhost/c/prod/") for target in links)
    shown = unescape(html).replace("\u2060", "")
    assert [text for text in texts if text not in shown] == []
