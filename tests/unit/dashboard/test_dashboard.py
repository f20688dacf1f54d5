"""The page without a browser: what each address answers, and to whom."""

from __future__ import annotations

import io
import re
from datetime import datetime, timedelta, timezone
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient
from markupsafe import escape
from werkzeug.test import TestResponse

from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.alerts_table import open_alerts, write_alerts
from streaming.dashboard.app import create_app
from streaming.tables.reader import TableReader
from streaming.views.questions import QUESTIONS, Question
from streaming.views.text import printable
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.dashboard_tables import (
    GROUPS,
    HOSTILE,
    MEMBER,
    REWOUND,
    DashboardTables,
)
from tests.support.tables.tables_folder import create_tables

PAGES = (
    "/c/prod/",
    f"/c/prod/group?{urlencode({'group': HOSTILE})}",
    f"/c/prod/group?group={REWOUND}",
    *(
        f"/c/prod/group?{urlencode({'group': group, 'tab': tab})}"
        for group in (HOSTILE, REWOUND)
        for tab in ("members", "events", "transactions")
    ),
    *(
        f"/c/prod/group/{part}?{urlencode({'group': HOSTILE})}"
        for part in ("why", "records", "transactions")
    ),
    f"/c/prod/topic?{urlencode({'topic': HOSTILE})}",
    *(
        f"/c/prod/{name}"
        for name in ("topics", "transactions", "changes", "alerts", "sql", "health")
    ),
    f"/c/prod/sql?{urlencode({'query': 'FROM group_offsets'})}",
)


class Page(HTMLParser):
    """The elements, names of attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(client: FlaskClient, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def file_of(client: FlaskClient, asked: dict[str, str]) -> TestResponse:
    # What is sent is closed as a server does it.
    return client.get(f"/c/prod/sql?{urlencode(asked)}", buffered=True)


def groups_of(page: str) -> list[str]:
    """The groups of the overview's table."""
    table = page[page.index('<table id="groups">') : page.index("</table>")]
    return [unescape(name) for name in re.findall(r"<a href=\"[^\"]*group\?[^>]*>([^<]*)<", table)]


@pytest.mark.parametrize("address", PAGES)
def test_what_clients_chose_is_only_shown(client: FlaskClient, address: str) -> None:
    page = Page(text_of(client, address))
    assert "main" in page.elements
    assert page.elements.isdisjoint({"img", "style", "iframe"})
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page.text)
    # The policy forbids what stands in the page itself.
    policy = client.get(address).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert not [name for name in page.attributes if name == "style" or name.startswith("on")]


def test_links_with_any_name_lead_there(client: FlaskClient) -> None:
    for page, heading in (("group", "Group"), ("topic", "Topic")):
        links = re.findall(rf'href="(/c/prod/{page}\?[^"]*img[^"]*)"', text_of(client, PAGES[2]))
        if page == "topic":
            assert links
        for link in links:
            shown = unescape(text_of(client, unescape(link)))
            assert f"<h1>{heading} {printable(HOSTILE)}</h1>" in shown


def test_the_overview_tells_what_is_wrong_first(client: FlaskClient) -> None:
    page = text_of(client, "/c/prod/")
    assert groups_of(page)[:2] == [printable(HOSTILE), REWOUND]
    assert "HANGING_TRANSACTION" in page
    assert "ago from 990" in page
    assert f"{GROUPS + 2} of {GROUPS + 2} groups" in page


def test_a_group_is_explained_beside_its_page(client: FlaskClient) -> None:
    assert f"/c/prod/group/why?group={REWOUND}" in text_of(client, f"/c/prod/group?group={REWOUND}")
    why = text_of(client, f"/c/prod/group/why?group={REWOUND}")
    assert "set back from 990 to 100" in why
    assert "log partition 0, record offset 39" in why
    nobody = text_of(client, "/c/prod/group/why?group=nobody")
    assert "No data about the group" in nobody


def test_an_open_transaction_has_its_client_and_the_commands_that_end_it(
    client: FlaskClient,
) -> None:
    page = unescape(text_of(client, "/c/prod/transactions"))
    assert f"{printable(HOSTILE)} <small>/10.0.0.1</small>" in page
    abort = "abort --topic __consumer_offsets --partition 0 --start-offset 0"
    assert f"kafka-transactions.sh --bootstrap-server HOST:PORT {abort}" in page


def test_it_is_filtered_sorted_and_paged_by_the_address(client: FlaskClient) -> None:
    assert groups_of(text_of(client, "/c/prod/?search=GROUP-01&sort=-group_id")) == [
        f"group-01{number}" for number in range(9, -1, -1)
    ]
    assert groups_of(text_of(client, "/c/prod/?status=REWIND")) == [REWOUND]
    assert "No group matches." in text_of(client, "/c/prod/?search=nobody")
    second = text_of(client, "/c/prod/?search=group-&sort=group_id&page=2")
    assert groups_of(second)[0] == "group-050"
    assert "page 2 of 3" in second
    long = f"?page={'9' * 5000}"
    for odd in (
        "?page=x",
        "?page=99",
        long,
        "?sort=nothing",
        "?sort=-",
        "?endpoint=x&_method=POST",
    ):
        assert groups_of(text_of(client, f"/c/prod/{odd}"))


def test_another_moment_moves_every_page(client: FlaskClient, tables: DashboardTables) -> None:
    at = urlencode({"at": tables.before.isoformat()})
    then = text_of(client, f"/c/prod/?{at}")
    assert "went back" not in then
    assert "Past snapshot" in then
    found = text_of(client, f"/c/prod/?{at}&search={REWOUND}")
    (link,) = re.findall(rf'<a href="([^"]*group\?[^"]*group={REWOUND}[^"]*)"', found)
    group = text_of(client, f"{unescape(link)}&tab=events")
    assert "Past snapshot" in group
    assert "<td>offset rewind</td>" not in group
    assert "data-refresh-s" not in group
    now = text_of(client, f"/c/prod/group?group={REWOUND}&tab=events")
    assert "<td>offset rewind</td>" in now


def test_a_moment_is_one_in_any_zone(tables: DashboardTables) -> None:
    pages = []
    for hours in (-23, 0, 18):
        zone = timezone(timedelta(hours=hours))
        at = urlencode({"at": tables.after.astimezone(zone).isoformat(), "search": REWOUND})
        other = create_app({"prod": tables.folder}).test_client()
        pages.append(Page(text_of(other, f"/c/prod/?{at}")).text)
    assert pages[0] == pages[1] == pages[2]
    assert "went back" in pages[0]


def test_every_micro_batch_leads_to_its_page(client: FlaskClient) -> None:
    links = re.findall(
        r'<td><a href="([^"]*at=[^"]*)">Overview at', text_of(client, "/c/prod/health")
    )
    newest, before = (text_of(client, unescape(link)) for link in links[:2])
    assert "version 2," in newest
    assert "version 1," in before


def test_what_changed_between_two_moments(client: FlaskClient, tables: DashboardTables) -> None:
    moments = {"since": tables.before.isoformat(), "until": tables.after.isoformat()}
    page = unescape(text_of(client, f"/c/prod/changes?{urlencode(moments)}"))
    assert f"from 990 to 100 by {printable(MEMBER)} at /10.0.0.1" in " ".join(page.split())
    rows = re.findall(r"<tr><th scope=\"row\"><a [^>]*>([^<]*)</a>", page)
    assert rows == [REWOUND, REWOUND]
    # Whichever way they are given.
    turned = {"since": moments["until"], "until": moments["since"]}
    assert "from 990 to 100" in text_of(client, f"/c/prod/changes?{urlencode(turned)}")


@pytest.mark.parametrize(
    ("page", "row"), [("group", '<td class="number">0</td>'), ("topic", "group-110</a>")]
)
def test_the_tables_of_a_group_and_a_topic_are_filtered(
    client: FlaskClient, page: str, row: str
) -> None:
    of = {"group": REWOUND} if page == "group" else {"topic": HOSTILE}
    part, status = ("IMG", "REWIND") if page == "group" else ("UP-11", "OK")
    for wanted, fits in (
        ({"search": part, "status": status}, True),
        ({"search": part, "status": "STOP"}, False),
        ({"search": "nobody"}, False),
    ):
        shown = text_of(client, f"/c/prod/{page}?{urlencode({**of, **wanted})}")
        table = shown[: shown.index("Pages of ")]
        assert (row in table, " matches." in table) == (fits, not fits)
        # What the page is of, and its order, stay while one types.
        (kept,) = of.values()
        form = shown[shown.index('<form method="get" class="filter"') :]
        assert f'name="{page}" value="{escape(kept)}"' in form


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_every_example_of_sql_can_be_asked(client: FlaskClient, question: Question) -> None:
    page = text_of(client, f"/c/prod/sql?{urlencode({'query': question.sql})}")
    assert "fault" not in page
    assert "<caption>" in page


def test_sql_answers_as_a_table_or_a_file(client: FlaskClient) -> None:
    select = {"query": f"SELECT '{REWOUND}' AS group_id"}
    assert f"<td>{REWOUND}</td>" in text_of(client, f"/c/prod/sql?{urlencode(select)}")
    csv = file_of(client, {**select, "format": "csv"})
    assert csv.headers["Content-Disposition"] == 'attachment; filename="query.csv"'
    assert csv.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert csv.text == f"group_id\r\n{REWOUND}\r\n"
    assert csv.headers["Content-Length"] == str(len(csv.data))
    formulas = {"query": "SELECT '=1+1' AS \"@a\", -1 AS b, '-1' AS c"}
    assert file_of(client, {**formulas, "format": "csv"}).text == "@a,b,c\r\n=1+1,-1,-1\r\n"
    safe = file_of(client, {**formulas, "format": "spreadsheet"})
    assert safe.headers["Content-Disposition"].endswith('"query-spreadsheet.csv"')
    assert safe.text == "'@a,b,c\r\n'=1+1,-1,'-1\r\n"
    parquet = file_of(client, {**select, "format": "parquet"})
    assert pq.read_table(io.BytesIO(parquet.data)).to_pylist() == [{"group_id": REWOUND}]
    twice = {"query": "SELECT 1 AS a, 2 AS a"}
    page = text_of(client, f"/c/prod/sql?{urlencode(twice)}")
    assert re.findall(r'<td class="number">(\d)</td>', page) == ["1", "2"]


@pytest.mark.parametrize(
    "select",
    ["TIMESTAMP 'infinity'", "DATE '20000-01-01'", "MAP {[1]: 2}", "repeat('x', 100000000)"],
)
def test_what_cannot_be_shown_is_said(client: FlaskClient, select: str) -> None:
    asked = {"query": f"SELECT {select} AS a"}
    page = text_of(client, f"/c/prod/sql?{urlencode(asked)}")
    assert 'role="alert"' in page or "1 rows" in page
    file = client.get(f"/c/prod/sql?{urlencode({**asked, 'format': 'csv'})}", buffered=True)
    assert file.status_code == (400 if "Cannot show this page" in file.text else 200)
    assert ("a value cannot be shown" in file.text) == ("a value cannot be shown" in page)


def test_a_time_without_a_zone_is_shown_as_it_is(client: FlaskClient) -> None:
    asked = urlencode({"query": "SELECT TIMESTAMP '2026-11-21 12:00:00' AS a"})
    assert "<td>2026-11-21 12:00:00</td>" in text_of(client, f"/c/prod/sql?{asked}")


def test_wrong_sql_is_said(client: FlaskClient) -> None:
    page = unescape(text_of(client, f"/c/prod/sql?{urlencode({'query': 'FROM nothing'})}"))
    assert 'role="alert">Catalog Error: Table with name nothing does not exist!' in page
    # A program that downloads a file is not given a page with status 200.
    for as_file in ("csv", "parquet"):
        asked = urlencode({"query": "FROM nothing", "format": as_file})
        refused = client.get(f"/c/prod/sql?{asked}")
        assert refused.status_code == 400
        assert "Table with name nothing does not exist!" in refused.text
    long = {"query": "SELECT range AS a FROM range(2000)"}
    assert "1,000 rows; the files have more" in text_of(client, f"/c/prod/sql?{urlencode(long)}")


def test_a_large_answer_is_shown_in_part(client: FlaskClient) -> None:
    def shown(select: str) -> str:
        return text_of(client, f"/c/prod/sql?{urlencode({'query': select})}")

    columns = ", ".join(f"range AS c{number}" for number in range(500))
    wide = f"SELECT {columns} FROM range(1000000)"  # noqa: S608 - of numbers
    assert "100 rows; the files have more" in shown(wide)
    (cell,) = re.findall('<td class="long">(x+… .*)</td>', shown("SELECT repeat('x', 100000) AS a"))
    assert cell.strip("x") == "… (100,000 characters)"
    assert "the files have more" in shown("SELECT repeat('x', 9000) AS a FROM range(900)")
    columns = ", ".join(f"1 AS c{number}" for number in range(1001))
    assert "1,001 columns and the page shows at most 1,000" in shown(f"SELECT {columns}")
    assert "No rows." in shown("SELECT 1 AS a WHERE false")


@pytest.mark.parametrize(
    ("address", "status", "message"),
    [
        ("/c/other/", 404, "Unknown cluster."),
        ("/c/prod/group?group=nobody", 404, "Group 'nobody' does not exist"),
        ("/c/prod/topic?topic=none", 404, "No group reads topic 'none'"),
        ("/c/prod/?at=yesterday", 400, "'yesterday' is neither a version nor a time"),
        ("/c/prod/?at=7", 400, "7 is not a time"),
        ("/c/prod/?at=2001-01-01", 400, "the tables reach from"),
        ("/c/prod/?at=1601-01-01", 400, "is before 1970"),
        ("/c/prod/?at=2999-01-01", 400, "is in the future"),
        ("/c/prod/?at=0001-01-01T00:00:00%2B23:00", 400, "is neither a version nor a time"),
        (f"/c/prod/?at={'9' * 5000}", 400, "is neither a version nor a time"),
        ("/c/prod/changes?since=17", 400, "17 is not a time"),
        ("/nothing", 404, "not found"),
    ],
)
def test_what_there_is_not_is_said(
    client: FlaskClient, address: str, status: int, message: str
) -> None:
    assert message in unescape(text_of(client, address, status))


def test_several_clusters(tables: DashboardTables, tmp_path: Path) -> None:
    several = create_app({"prod": tables.folder, "stage": str(tmp_path / "gone")}).test_client()
    page = unescape(text_of(several, "/"))
    assert f'{REWOUND}</a> <span class="reason">{printable(HOSTILE)}:0: went back' in page
    assert "there is no folder" in page
    assert '<a href="/c/prod/" aria-current="true">prod</a>' in text_of(several, "/c/prod/")
    text_of(several, "/c/stage/", 400)


def test_nothing_is_written(client: FlaskClient, tables: DashboardTables) -> None:
    files = sorted(Path(tables.folder).rglob("*"))
    for address in PAGES:
        text_of(client, address)
    assert sorted(Path(tables.folder).rglob("*")) == files
    assert client.post("/c/prod/").status_code == 405
    assert TableReader(tables.folder).version == 2


def test_every_page_says_that_the_tables_are_stale(tmp_path: Path) -> None:
    tables = create_tables(tmp_path / "stale")
    lag_of(tables, 50, seconds_ago=200)
    client = create_app({"prod": tables, "other": tables}).test_client()
    pages = ("", "group?group=g", "topic?topic=t", "transactions", "changes", "alerts", "health")
    banner = re.compile(r"Nothing written since [-\d: ]+ UTC \([\d.]+ min ago\)\. Is `run` running")
    for address in ("/", *(f"/c/prod/{page}" for page in pages)):
        page = unescape(text_of(client, address))
        assert banner.search(page), address
    assert "is `run` running?" in unescape(text_of(client, "/c/prod/"))


def test_a_page_of_a_moment_before_the_stop_has_no_such_banner(
    client: FlaskClient, tables: DashboardTables
) -> None:
    assert "Nothing written" not in text_of(client, f"/c/prod/?at={tables.after.isoformat()[:-6]}Z")


def test_the_page_of_alerts_shows_a_change_of_status(tmp_path: Path) -> None:
    tables = create_tables(tmp_path / "alerts")
    lag_of(tables, 50)
    now = datetime.now(timezone.utc)
    alert = Alert(
        key=AlertKey("stopped", "g"),
        severity="critical",
        state=AlertState.FIRING,
        since=now,
        fired_at=now,
        reason="HANGING_TRANSACTION: pending for 901 s",
        group_status="HANGING_TRANSACTION",
        previous_status="STOP",
        status_since=now,
    )
    write_alerts(open_alerts(tables), {alert.key: alert})
    page = Page(text_of(create_app({"prod": tables}).test_client(), "/c/prod/alerts"))
    shown = "HANGING_TRANSACTION: pending for 901 s (was STOP until "
    assert f"{shown}{now:%Y-%m-%d %H:%M:%S} UTC)" in page.text


def test_the_address_of_the_server_is_that_of_its_only_cluster(client: FlaskClient) -> None:
    found = client.get("/?search=zzz&sort=-lag")
    assert (found.status_code, found.location) == (302, "/c/prod/?search=zzz&sort=-lag")
