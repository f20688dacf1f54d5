"""The story of each incident of the demo, with its links, and as Markdown for a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from flask.testing import FlaskClient
from markdown_it import MarkdownIt

from coordinator_state.insight.story import Part, story_of
from streaming.dashboard.app import create_app
from streaming.dashboard.queries import PROCESSES
from streaming.lag.group_facts import group_facts
from streaming.tables.reader import TableReader
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.explanation import explanation_of
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.slots import Slots
from streaming.views.story import told
from streaming.views.text import printable
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND
from tests.support.tables.demo_incidents import END, HEALTHY, INCIDENTS, create_demo_tables
from tests.support.tables.held_moment import held_at

TICKET = """\
# `fraud-check`: PENDING: 14,800 records behind, growing since about 08:31:00 UTC

Cluster `demo`, [2026-03-02 08:34:05 UTC](GROUP&at=NOW)

- Lag: 14,800 records
- Time lag: at least 3.1 min
- Members: 2

1. **Began**: the lag began to grow at about 08:31:00 UTC: 0 records then, 14,800 now \
([2026-03-02 08:31:00 UTC](GROUP&since=2026-03-02T08:28:00Z&until=2026-03-02T08:34:00Z&at=NOW), \
[query](SQL1&at=NOW))
2. **Cause**: an open transaction of producer 7 (client app-b at /10.0.0.13) has held 4 offsets \
since 08:31:05 UTC \
([2026-03-02 08:31:05 UTC](GROUP&since=2026-03-02T08:28:05Z&until=2026-03-02T08:34:05Z&at=NOW), \
[log partition 9, record offset 2162](SQL2&at=NOW))
3. **Also**: 2 members, no commit since 08:31:00 UTC, usually every 5 s \
([2026-03-02 08:31:00 UTC](GROUP&since=2026-03-02T08:28:00Z&until=2026-03-02T08:34:00Z&at=NOW), \
[log partition 9, record offset 2156](SQL3&at=NOW))
4. **Outlook**: the lag grows by 80 records/s \
([2026-03-02 08:34:05 UTC](GROUP&at=NOW), [query](SQL4&at=NOW))
5. **Next step**: restart the producer; if find-hanging lists the transaction, abort it

```sh
TRANSACTIONS describe-producers --topic \\_\\_consumer\\_offsets --partition 9
TRANSACTIONS find-hanging --topic \\_\\_consumer\\_offsets --partition 9
TRANSACTIONS abort --topic \\_\\_consumer\\_offsets --partition 9 --start-offset 2162
```
""".replace("\\_", "_")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The tables of the demo, whose present is the moment of its incidents."""
    tables = create_demo_tables(tmp_path_factory.mktemp("demo") / "tables")
    with held_at(tables, END):
        yield tables


@pytest.fixture(scope="module")
def of_demo(demo: str) -> FlaskClient:
    app = create_app({"demo": demo})
    app.extensions[PROCESSES] = SqlProcesses(Slots("queries", 2), [demo], is_reused=True)
    return app.test_client()


def text_of(client: FlaskClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("group", [*(one.group for one in INCIDENTS), *HEALTHY])
def test_a_story_has_at_most_five_lines_with_their_queries(demo: str, group: str) -> None:
    story = told(TableReader(demo), group, at=END)
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
    tables = CoordinatorTables(demo)
    for line in (*story.lines, *story.more):
        assert line.sql is not None or line.part in (Part.ACTION, Part.STATE)
        assert line.sql is None or len(tables.sql(line.sql)), line.sql
    # The page reads fewer rows than the explanation.
    facts = group_facts(TableReader(demo), group, at=END)
    assert facts is not None
    assert story == story_of(facts, explanation_of(facts))


def test_the_page_of_a_group_begins_with_its_story(of_demo: FlaskClient) -> None:
    page = text_of(of_demo, "/c/demo/group?group=fraud-check")
    verdict, story = page.index('class="verdict"'), page.index('data-part="/c/demo/group/why?')
    assert verdict < story < page.index('class="facts"')


def test_each_line_links_to_its_moment_and_its_records(of_demo: FlaskClient) -> None:
    why = text_of(of_demo, "/c/demo/group/why?group=fraud-check")
    cause = unescape(why[why.index('<li class="cause">') :].partition("</li>")[0])
    moment, records = re.findall('href="([^"]+)"', cause)
    assert parse_qs(urlsplit(moment).query) == {
        **{"group": ["fraud-check"], "since": ["2026-03-02T08:28:05Z"]},
        "until": ["2026-03-02T08:34:05Z"],
    }
    assert "log partition 9, record offset 2162" in cause
    assert "Group fraud-check" in text_of(of_demo, moment)
    assert "app-b" in text_of(of_demo, records)
    assert "3 commands" in why


def test_the_ticket_is_the_story_as_markdown(of_demo: FlaskClient) -> None:
    answer = of_demo.get("/c/demo/group/ticket?group=fraud-check")
    assert answer.content_type == "text/markdown; charset=utf-8"
    shown = answer.text.replace("http://localhost/c/demo/group?group=fraud-check", "GROUP")
    shown = shown.replace("2026-03-02T08:34:05.000Z", "NOW")
    shown = shown.replace("kafka-transactions.sh --bootstrap-server HOST:PORT", "TRANSACTIONS")
    queries = re.findall(r"(http://localhost/c/demo/sql\?[^)&]+)&at", shown)
    for number, query in enumerate(queries, 1):
        shown = shown.replace(query, f"SQL{number}")
    assert shown == TICKET
    page = text_of(of_demo, "/c/demo/group/why?group=fraud-check")
    copied = page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
    assert unescape(copied) == answer.text


def test_the_command_of_a_plan_names_the_moment_before(demo: str) -> None:
    story = told(TableReader(demo), "returns", at=END)
    assert story is not None
    assert story.commands == [
        "coordinator-state plan reset returns --to-state-at 2026-03-02T08:30:09Z --tables tables "
        "--file plan.csv"
    ]


def test_names_in_a_ticket_are_only_text(client: FlaskClient) -> None:
    named = rendered(client, HOSTILE)
    assert f"<h1><code>{printable(HOSTILE)}</code>" in named
    # Its topic and the client that set it back have such names.
    rewound = rendered(client, REWOUND)
    assert f"{printable(HOSTILE)}:0 set back from 990 to 100" in rewound
    assert f"by {printable(HOSTILE)}" in rewound


def rendered(client: FlaskClient, group: str) -> str:
    """The text of a ticket as a reader of Markdown shows it, with our own elements only."""
    ticket = client.get(f"/c/prod/group/ticket?{urlencode({'group': group})}").text
    assert "\x1b" not in ticket
    html = MarkdownIt("commonmark").enable(["strikethrough", "table"]).render(ticket)
    elements = {"h1", "p", "ul", "ol", "li", "strong", "code", "pre", "a"}
    assert set(re.findall(r"<(\w+)", html)) <= elements
    links = re.findall(r'="(http[^"]*)"', html)
    assert links
    assert all(one.startswith("http://localhost/c/prod/") for one in links)
    return unescape(html).replace("\u2060", "")
