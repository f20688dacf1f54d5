"""The overview: tiles, trends, filters and columns in the address, sparklines, comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from streaming.dashboard.app import create_app
from streaming.dashboard.tables_of_rows import rows_page
from streaming.lag.evaluation import GROUP_LAG_ROW, GROUP_STATUS_ROW, Evaluation
from streaming.served.cluster import Cluster
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TABLES
from streaming.views.text import printable
from tests.support.browser.html import client_of, page_of, part_of, rows_of, text_of
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.dashboard_tables import GROUPS, HOSTILE, REWOUND, DashboardTables
from tests.support.tables.held_moment import held_at
from tests.support.tables.sample_rows import history_of, offset_row, sample
from tests.support.tables.tables_folder import (
    Row,
    apply_micro_batch,
    backdate,
    create_tables,
    write_rows,
)

ROWS: list[Row] = [
    {"name": "b", "status": "OK", "lag": 2},
    {"name": "A", "status": "STALL", "lag": None},
    {"name": "c", "status": "OK", "lag": 2},
    {"name": "ab", "status": "OK", "lag": 7},
]


GROWING, STEADY, NEW = "orders-slow", "orders-level", "payments"
TYPES = {GROWING: "consumer", STEADY: "classic", NEW: "classic"}
MINUTES = 5
OFFSETS = {GROWING: (60_000, 75_000), STEADY: (68_000, 98_000)}
"""Five minutes ago and now; 30,000 records were written in between."""


def create_overview_tables(in_folder: Path, now: datetime) -> str:
    """Five minutes of two groups, and `payments`, which has just begun."""
    folder = create_tables(in_folder)
    times = [now - timedelta(minutes=ago) for ago in range(MINUTES, -1, -1)]
    commits = [
        offset_row(name, first + (last - first) * minute // MINUTES, at, "orders")
        for name, (first, last) in OFFSETS.items()
        for minute, at in enumerate(times)
    ]
    for offsets in (commits[:: MINUTES + 1], commits[MINUTES :: MINUTES + 1]):
        at = offsets[0]["commit_timestamp"]
        is_new = [offset_row(NEW, 5, now, "Invoices")] if at == now else []
        apply_micro_batch(
            folder,
            progress=[{"updated_at": at, "next_offset": 9, "high_watermark": 9}],
            groups=[
                {"group_id": name, "state": "Stable", "member_count": 2, "group_type": group_type}
                for name, group_type in TYPES.items()
            ],
            group_offsets=[*offsets, *is_new],
            offset_commits=history_of(
                {**row, "outcome_timestamp": row["commit_timestamp"]} for row in commits
            ),
        )
        for table in TABLES if at < now else ():
            backdate(folder, table, at - timedelta(seconds=20))
    samples = [
        sample(at, end, topic)
        for minute, at in enumerate(times)
        for end, topic in (
            (70_000 + 6_000 * minute, "orders"),
            (5, "Invoices"),
            (9, "__consumer_offsets"),
        )
    ]
    write_rows(folder, "log_offsets", samples)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    now = datetime.now(timezone.utc)
    folder = create_overview_tables(tmp_path_factory.mktemp("overview") / "tables", now)
    with held_at(folder, now):
        yield folder


@pytest.fixture(scope="module")
def app(folder: str) -> Starlette:
    return create_app({"prod": folder})


@pytest.fixture
def client(app: Starlette) -> TestClient:
    """A browser without cookies."""
    return client_of(app)


def groups_of(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>(.*?)</a>', part_of(page, '"groups">', "</table>"))


def heads_of(page: str) -> list[str]:
    head = part_of(page, '"groups">', "</thead>")
    return [text_of(cell) for cell in re.findall("<th.*?</th>", head)]


def tiles_of(folder: str) -> dict[str, tuple[str, str]]:
    """The colour and the value of each tile by its caption."""
    page = page_of(client_of(create_app({"prod": folder})), "")
    tiles = re.findall(
        r'<li class="(\w*)">(?:<a [^>]*>)?<b>(.*?)</b> ([\w ]+)',
        part_of(page, '<ul class="tiles">', "</ul>"),
    )
    return {caption.strip(): (level, text_of(value)) for level, value, caption in tiles}


def test_tiles_have_the_colour_of_their_value(
    tmp_path: Path, tables: DashboardTables, demo: str
) -> None:
    empty = create_tables(tmp_path / "empty")
    apply_micro_batch(empty, progress=[{"updated_at": datetime.now(timezone.utc)}])
    unknown = ("records behind", "greatest time lag", "alerts firing", "tables behind")
    assert [tiles_of(empty)[caption][0] for caption in unknown] == ["unknown"] * 4
    counted = ("hanging transactions", "records in quarantine")
    tiles = tiles_of(tables.folder)
    assert [tiles[caption] for caption in counted] == [("bad", "1"), ("warning", "1")]
    assert tiles["records behind"][0] == "bad"
    assert tiles["tables behind"][0] == "good"
    # An open transaction is bad only if it hangs.
    assert [tiles_of(demo)[caption] for caption in counted] == [("good", "0")] * 2
    stale = create_tables(tmp_path / "stale")
    lag_of(stale, 5, seconds_ago=3_600)
    assert tiles_of(stale)["tables behind"] == ("bad", "60 min")


@pytest.mark.parametrize(
    ("address", "groups"),
    [
        # The rates of NEW are unknown: it comes last in both directions.
        ("sort=growth_per_s", [STEADY, GROWING, NEW]),
        ("trend=growing", [GROWING]),
        ("topic=INVOICE", [NEW]),
        ("type=consumer&type=&state=Stable&search=ORDERS-", [GROWING]),
        ("status=OK&status=DATA_LOSS&sort=-group_id", [NEW, STEADY]),
        ("status=nothing", []),
    ],
)
def test_the_address_filters_and_sorts(client: TestClient, address: str, groups: list[str]) -> None:
    """What each filter selects is in `property/test_lists.py`."""
    assert groups_of(page_of(client, f"?{address}")) == groups


def test_groups_in_trouble_come_first_and_odd_addresses_select_nothing_else(
    tables: DashboardTables,
) -> None:
    client = client_of(create_app({"prod": tables.folder}))
    for odd in ("", "page=x", "page=99", f"page={'9' * 5000}", "sort=-", "endpoint=x&_method=POST"):
        page = page_of(client, f"?{odd}")
        assert f"{GROUPS + 2} of {GROUPS + 2} groups" in page
        if odd != "page=99":
            assert groups_of(page)[:2] == [printable(HOSTILE), REWOUND]
    second = page_of(client, "", search="group-", sort="-group_id", page="2")
    assert groups_of(second)[0] == "group-069"
    assert "page 2 of 3" in second
    assert "No group matches." in page_of(client, "", search="nobody")


def test_each_active_filter_can_be_removed(client: TestClient) -> None:
    page = page_of(client, "?status=OK&status=STALL&topic=ord&sort=lag&page=2")
    chips = part_of(page, '<ul class="chips"', "</ul>")
    links = {
        text_of(text).partition(",")[0].strip(): href
        for href, text in re.findall(r'<a [^>]*href="([^"]*)"[^>]*>(.*?)</a>', chips)
    }
    assert links == {
        "Topic: ord": "/c/prod/?status=OK&status=STALL&sort=lag",
        "Status: OK": "/c/prod/?status=STALL&topic=ord&sort=lag",
        "Status: STALL": "/c/prod/?status=OK&topic=ord&sort=lag",
        "Remove all": "/c/prod/?sort=lag",
    }


def test_statuses_are_counted_under_the_other_filters(client: TestClient) -> None:
    page = page_of(client, "", topic="invoices", status="WARN")
    counts = part_of(page, '<ul class="counts"', "</ul>")
    assert re.findall(r'href="([^"]*)"', counts) == ["/c/prod/?topic=invoices&status=OK"]
    assert groups_of(page) == []


def test_chosen_columns_are_kept_for_the_next_visit(client: TestClient) -> None:
    assert "Members" in heads_of(page_of(client, ""))
    answer = client.get("/c/prod/?columns=&columns=lag&columns=trend&columns=password")
    (cookie,) = answer.headers.get_list("Set-Cookie")
    assert "columns=lag.trend;" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    for page in (answer.text, page_of(client, "")):
        assert heads_of(page)[-2:] == ["Lag", "Trend"]
        assert "Members" not in heads_of(page)
        assert 'class="reason"' not in part_of(page, '"groups">', "</table>")
    # Columns in the address come first, and none may be chosen.
    assert "Members" in heads_of(page_of(client, "", columns="members"))
    assert "Lag" not in heads_of(page_of(client, "", columns=""))
    assert "Lag" not in heads_of(page_of(client, ""))


def test_trends_are_words_and_sparklines_those_of_the_shown_page(client: TestClient) -> None:
    page = page_of(client, "", search="orders", columns="trend")
    # The arrow is for the eye only.
    assert [row[-1] for row in rows_of(page, "groups")] == [
        "↗ growing +50/s",
        "→ steady",
    ]
    assert page.count('<span aria-hidden="true">↗</span>') == 1
    page = page_of(client, "", search="orders-s")
    (address,) = re.findall(r'data-sparks="/c/prod/([^"]*)"', page)
    assert address == "overview/sparklines?search=orders-s"
    part = page_of(client, address)
    assert re.findall(r'<li data-of="([^"]*)"', part) == [GROWING]
    (points,) = re.findall(
        r'<svg class="spark" [^>]*aria-hidden="true"><polyline points="(.*?)"', part
    )
    heights = [int(point.partition(",")[2]) for point in points.split()]
    assert len(heights) >= 5
    assert heights[-1] < heights[0]


def test_groups_are_compared_on_one_scale(client: TestClient) -> None:
    page = page_of(client, f"compare?group={GROWING}&group={STEADY}&group=nobody&group={NEW}")
    heads = re.findall(r'<th scope="col"><a [^>]*>([^<]*)<', page)
    assert heads == [GROWING, STEADY, NEW]
    assert "These groups do not exist at this moment: nobody." in page
    assert "0 to 25,000" in page
    assert page.count('<svg class="spark large"') == 3
    assert re.search(r'<li><a [^>]*>orders</a> <span class="number">25,000</span>', page)
    many = "&".join(f"group={number}" for number in range(11))
    assert "3 more are left out" in page_of(client, f"compare?{many}")
    assert "Select groups" in page_of(client, "compare")


def test_several_clusters_have_totals_and_one_search(folder: str, tmp_path: Path) -> None:
    clusters = {"prod": folder, "stage": folder, "gone": str(tmp_path / "gone")}
    several = client_of(create_app(clusters))
    page = unescape(several.get("/").text)
    for tile in ("<b>2 of 3</b> clusters", "<b>6</b> groups", "<b>54,000</b> records behind"):
        assert tile in page
    assert "there is no folder" in page
    assert several.get("/c/gone/").status_code == 400
    assert '<a href="/c/prod/" aria-current="true">prod</a>' in page_of(several, "")
    worst = page[page.index('<table id="worst-groups">') :]
    groups = re.findall(r'<th scope="row"><a href="/c/(\w+)/group\?group=([^"]*)"', worst)
    assert groups[:2] == [("prod", GROWING), ("stage", GROWING)]
    assert '<h2 id="found">' not in page
    for search, link in (
        ("INVOI", "topic?topic=Invoices"),
        (GROWING, f"group?group={GROWING}"),
    ):
        searched = unescape(several.get(f"/?search={search}").text)
        links = searched.partition('<ul class="tiles">')[0]
        assert [f"/c/{name}/{link}" in links for name in clusters] == [True, True, False]


def test_the_worst_groups_of_several_clusters_have_the_greatest_lags(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = [{"group_id": f"g{n:02}", "status": "STOP", "lag": 100 * n} for n in range(20)]
    snapshot = ServedSnapshot(TableReader(folder))
    lags = GROUP_LAG_ROW.empty_table()
    rows = pa.Table.from_pylist(statuses, GROUP_STATUS_ROW)
    snapshot.__dict__["evaluation"] = Evaluation(snapshot.at, snapshot.status_rules, rows, lags)
    monkeypatch.setattr(Cluster, "snapshot", lambda *_: snapshot)
    page = client_of(create_app({"prod": folder, "stage": folder})).get("/").text
    worst = part_of(page, '<table id="worst-groups">', "</table>")
    groups = re.findall(r"group=(g\d\d)", worst)
    assert groups == [f"g{n}" for n in (19, 19, 18, 18, 17, 17, 16, 16, 15, 15)]


def test_a_group_without_a_name_can_be_selected_and_opened(tmp_path: Path) -> None:
    folder = create_tables(tmp_path / "tables")
    groups: list[Row] = [{"group_id": "", "state": "Empty", "member_count": 0}]
    apply_micro_batch(folder, progress=[{}], groups=groups)
    client = client_of(create_app({"prod": folder}))
    assert 'value="" form="compare" aria-label="Compare (empty)"' in page_of(client, "")
    assert '<span class="none">(empty)</span>' in page_of(client, "group", group="")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"sort": "-name"}, ["c", "b", "ab"]),
        # Equal values keep their order, and unknown ones come last in both directions.
        ({"sort": "lag"}, ["b", "c", "ab"]),
        ({"sort": "-lag"}, ["ab", "b", "c"]),
        ({"sort": "-lag", "page": "2"}, ["A"]),
        ({"sort": "password", "page": "9"}, ["c"]),
        ({"page": "x"}, ["A", "ab", "b"]),
    ],
)
def test_the_address_sorts_rows_and_names_their_page(
    arguments: dict[str, str], names: list[str]
) -> None:
    columns = ["name", "lag"]
    shown = rows_page(ROWS, arguments=arguments, sort="name", columns=columns, page_rows=3)
    assert [row["name"] for row in shown.rows] == names
    assert (shown.total, shown.of, shown.pages) == (4, 4, 2)
    empty = rows_page([], arguments=arguments, sort="name", columns=columns)
    assert (list(empty.rows), empty.pages, empty.total, empty.of) == ([], 1, 0, 0)
