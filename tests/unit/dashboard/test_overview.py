"""The overview: tiles, trends, filters and columns in the address, sparklines, comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone
from html import unescape
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from streaming.dashboard.tables_of_rows import rows_page
from streaming.lag.evaluation import GROUP_LAG_ROW, GROUP_STATUS_ROW, Evaluation
from streaming.served.cluster import Cluster
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.reader import TableReader
from streaming.views.list_query import Column
from streaming.views.text import printable
from tests.support.browser.html import page_client, page_of, part_of, rows_of, text_of
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.dashboard_tables import GROUPS, HOSTILE, REWOUND, DashboardTables
from tests.support.tables.tables_folder import (
    Row,
    apply_micro_batch,
    create_tables,
)

ROWS: list[Row] = [
    *({"name": "b", "lag": 2}, {"name": "A", "lag": None}),
    *({"name": "c", "lag": 2}, {"name": "ab", "lag": 7}),
]


def groups_of(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>(.*?)</a>', part_of(page, '"groups">', "</table>"))


def heads_of(page: str) -> list[str]:
    head = part_of(page, '"groups">', "</thead>")
    return [text_of(cell) for cell in re.findall("<th.*?</th>", head)]


def tiles_of(folder: str) -> dict[str, tuple[str, str]]:
    """The colour and the value of each tile by its caption."""
    page = page_of(page_client(prod=folder), "")
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
        ("search=PAY", [REWOUND]),
        ("status=REWIND&status=DATA_LOSS&status=", [REWOUND]),
        ("state=Stable&type=classic&topic=IMG&search=pay&trend=x", [REWOUND]),
        ("search=group-00&sort=-group_id", [f"group-00{number}" for number in range(9, -1, -1)]),
        *((no_match, []) for no_match in ("status=x", "state=Dead", "type=share", "topic=orders")),
        ("trend=growing", []),
    ],
)
def test_the_address_filters_and_sorts(client: TestClient, address: str, groups: list[str]) -> None:
    """What each filter selects is in `property/test_lists.py`."""
    assert groups_of(page_of(client, f"?{address}")) == groups


def test_groups_in_trouble_come_first_and_odd_addresses_select_nothing_else(
    client: TestClient,
) -> None:
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
    page = page_of(client, "", search="payments", status="WARN")
    counts = part_of(page, '<ul class="counts"', "</ul>")
    assert re.findall(r'href="([^"]*)"', counts) == ["/c/prod/?search=payments&status=REWIND"]
    assert groups_of(page) == []


def test_chosen_columns_are_kept_for_the_next_visit(tables: DashboardTables) -> None:
    client = page_client(prod=tables.folder)
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


def test_sparklines_are_those_of_the_shown_page(demo_client: TestClient) -> None:
    page = page_of(demo_client, "", search="fraud")
    (address,) = re.findall(r'data-sparks="/c/prod/([^"]*)"', page)
    assert address == "overview/sparklines?search=fraud"
    part = page_of(demo_client, address)
    assert re.findall(r'<li data-of="([^"]*)"', part) == ["fraud-check"]
    (points,) = re.findall(
        r'<svg class="spark" [^>]*aria-hidden="true"><polyline points="(.*?)"', part
    )
    heights = [int(point.partition(",")[2]) for point in points.split()]
    assert len(heights) >= 5
    assert heights[-1] < heights[0]


def test_groups_are_compared_on_one_scale(client: TestClient) -> None:
    page = page_of(client, f"compare?group={REWOUND}&group=group-000&group=nobody")
    assert re.findall(r'<th scope="col"><a [^>]*>([^<]*)<', page) == [REWOUND, "group-000"]
    assert "These groups do not exist at this moment: nobody." in page
    assert "0 to 1,800" in page
    assert page.count('<svg class="spark large"') == 2
    assert '</a> <span class="number">1,800</span>' in page
    many = "&".join(f"group={number}" for number in range(11))
    assert "3 more are left out" in page_of(client, f"compare?{many}")
    assert "Select groups" in page_of(client, "compare")


def test_several_clusters_have_totals_and_one_search(
    tables: DashboardTables, demo: str, tmp_path: Path
) -> None:
    several = page_client(prod=tables.folder, stage=demo, gone=str(tmp_path / "gone"))
    page = unescape(several.get("/").text)
    for tile in ("<b>2 of 3</b> clusters", "<b>130</b> groups", "<b>133,010</b> records behind"):
        assert tile in page
    assert "there is no folder" in page
    assert several.get("/c/gone/").status_code == 400
    assert '<a href="/c/prod/" aria-current="true">prod</a>' in page_of(several, "")
    assert '<h2 id="found">' not in page
    for text, link in (("REPORTS-", "topic?topic=reports-topic"), ("Pay", "group?group=payments")):
        page = unescape(several.get(f"/?search={text}").text)
        links, _, _ = page.partition('<ul class="tiles">')
        linked = [f"/c/{name}/{link}" in links for name in ("prod", "stage", "gone")]
        assert linked == [link.startswith("group"), True, False]


@pytest.fixture
def shown_groups(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[Row]], TestClient]:
    """A function that gives clusters other groups, by their rows of `group_status`."""

    def shown(rows: list[Row]) -> TestClient:
        snapshot = ServedSnapshot(TableReader(tables.folder))
        statuses, lags = pa.Table.from_pylist(rows, GROUP_STATUS_ROW), GROUP_LAG_ROW.empty_table()
        evaluation = Evaluation(snapshot.at, snapshot.status_rules, statuses, lags)
        snapshot.__dict__["evaluation"] = evaluation
        monkeypatch.setattr(Cluster, "snapshot", lambda *_: snapshot)
        return page_client(prod=tables.folder, stage=tables.folder)

    return shown


def test_trends_are_words(shown_groups: Callable[[list[Row]], TestClient]) -> None:
    growths = {"new": None, "down": -30.0, "level": 0.0, "up": 50.0}
    client = shown_groups(
        [
            {"group_id": name, "status": "OK", "growth_per_s": growth, "partitions": 1}
            for name, growth in growths.items()
        ]
    )
    page = page_of(client, "", columns="trend", sort="-growth_per_s")
    # The arrow is for the eye only.
    words = ["↗ growing +50/s", "→ steady", "↘ shrinking -30/s", "-"]
    assert [row[-1] for row in rows_of(page, "groups")] == words
    assert page.count('<span aria-hidden="true">↗</span>') == 1
    assert groups_of(page_of(client, "", trend="growing")) == ["up"]


def test_the_worst_groups_of_several_clusters_have_the_greatest_lags(
    shown_groups: Callable[[list[Row]], TestClient],
) -> None:
    client = shown_groups(
        [{"group_id": f"g{n:02}", "status": "STOP", "lag": 100 * n} for n in range(20)]
    )
    worst = part_of(client.get("/").text, '<table id="worst-groups">', "</table>")
    groups = re.findall(r"group=(g\d\d)", worst)
    assert groups == [f"g{n}" for n in (19, 19, 18, 18, 17, 17, 16, 16, 15, 15)]


def test_a_group_without_a_name_can_be_selected_and_opened(tmp_path: Path) -> None:
    folder = create_tables(tmp_path / "tables")
    apply_micro_batch(folder, progress=[{}], groups=[{"group_id": ""}])
    client = page_client(prod=folder)
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
    columns = [Column(name, name, sort=name) for name in ("name", "lag")]
    shown = rows_page(ROWS, columns, arguments=arguments, sort="name", page_rows=3)
    assert [row["name"] for row in shown.rows] == names
    assert (shown.total, shown.of, shown.pages) == (4, 4, 2)
    empty = rows_page([], columns, arguments=arguments, sort="name")
    assert (list(empty.rows), empty.pages, empty.total, empty.of) == ([], 1, 0, 0)
