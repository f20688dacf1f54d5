"""The overview: trends, filters and columns in the address, sparklines, and groups compared."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from tests.support.tables.overview_tables import (
    GROWING,
    NEW,
    SHRINKING,
    STEADY,
    create_overview_tables,
)
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Tables for each test: their trends are those of the last five minutes."""
    return create_overview_tables(tmp_path / "overview")


@pytest.fixture
def client(folder: str) -> FlaskClient:
    return create_app({"prod": folder}).test_client()


def shown(client: FlaskClient, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    return answer.text


def table_of(page: str) -> str:
    return page[page.index('<table id="groups">') : page.index("</table>")]


def groups_of(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>([^<]*)<', table_of(page))


def trends_of(page: str) -> dict[str, str]:
    rows = re.findall(r"<tr>.*?</tr>", table_of(page), re.DOTALL)[1:]
    return {
        groups_of(f'<table id="groups">{row}</table>')[0]: " ".join(
            re.sub("<[^>]*>", " ", found.group(1)).split()
        )
        for row in rows
        if (found := re.search(r'(<span class="trend .*?</span> .*?</span>)', row))
    }


def test_the_trend_of_each_group_is_said_in_words(client: FlaskClient) -> None:
    page = shown(client, "/c/prod/?search=orders")
    assert trends_of(page) == {
        GROWING: "↗ growing +50/s",
        SHRINKING: "↘ shrinking, caught up in 3.3 min",
        STEADY: "→ steady",
    }
    # The arrow is for the eye only.
    assert page.count('<span aria-hidden="true">↗</span>') == 1
    by_trend = groups_of(shown(client, "/c/prod/?sort=-growth_per_s"))
    # Its rates are unknown: it comes last in both directions.
    assert by_trend == [GROWING, STEADY, SHRINKING, NEW]
    assert groups_of(shown(client, "/c/prod/?sort=growth_per_s"))[-1] == NEW


@pytest.mark.parametrize(
    ("filters", "groups"),
    [
        ("trend=growing", [GROWING]),
        ("topic=INVOICE", [NEW]),
        ("topic=nothing", []),
        ("type=consumer", [GROWING]),
        ("type=consumer&type=classic&type=", [GROWING, SHRINKING, STEADY, NEW]),
        ("state=Stable&search=ORDERS-", [GROWING, SHRINKING, STEADY]),
        ("state=Dead", []),
        ("status=WARN", [GROWING]),
        ("status=OK&status=DATA_LOSS", [SHRINKING, STEADY, NEW]),
        ("status=nothing", []),
    ],
)
def test_filters_are_in_the_address(client: FlaskClient, filters: str, groups: list[str]) -> None:
    page = shown(client, f"/c/prod/?{filters}")
    assert sorted(groups_of(page)) == sorted(groups)


def test_each_active_filter_can_be_removed(client: FlaskClient) -> None:
    page = shown(client, "/c/prod/?status=OK&status=STALL&topic=ord&sort=lag&page=2")
    chips = page[page.index('<ul class="chips"') :]
    chips = chips[: chips.index("</ul>")]
    links = {
        re.sub("<[^>]*>", "", text).partition(",")[0].strip(): unescape(href)
        for href, text in re.findall(r'<a [^>]*href="([^"]*)"[^>]*>(.*?)</a>', chips)
    }
    assert links == {
        "Topic: ord": "/c/prod/?status=OK&status=STALL&sort=lag",
        "Status: OK": "/c/prod/?status=STALL&topic=ord&sort=lag",
        "Status: STALL": "/c/prod/?status=OK&topic=ord&sort=lag",
        "Remove all": "/c/prod/?sort=lag",
    }


def test_statuses_are_counted_under_the_other_filters(client: FlaskClient) -> None:
    page = unescape(shown(client, "/c/prod/?topic=invoices&status=WARN"))
    counts = page[page.index('<ul class="counts"') :]
    counts = counts[: counts.index("</ul>")]
    assert re.findall(r'href="([^"]*)"', counts) == ["/c/prod/?topic=invoices&status=OK"]
    assert groups_of(page) == []


def test_chosen_columns_are_kept_for_the_next_visit(client: FlaskClient) -> None:
    assert "Members</a>" in table_of(shown(client, "/c/prod/"))
    answer = client.get("/c/prod/?columns=&columns=lag&columns=trend&columns=password")
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert "columns=lag.trend;" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    for page in (answer.text, shown(client, "/c/prod/")):
        assert "Members</a>" not in table_of(page)
        assert 'class="reason"' not in table_of(page)
        assert "Trend</a>" in table_of(page)
    # A link with columns comes first, and none may be chosen.
    assert "Members</a>" in table_of(shown(client, "/c/prod/?columns=members"))
    assert "Lag</a>" not in table_of(shown(client, "/c/prod/?columns="))
    assert "Lag</a>" not in table_of(shown(client, "/c/prod/"))


def test_sparklines_are_those_of_the_shown_page(client: FlaskClient) -> None:
    page = shown(client, "/c/prod/?search=orders-s")
    (address,) = re.findall(r'data-sparks="([^"]*)"', page)
    assert unescape(address) == "/c/prod/overview/sparklines?search=orders-s"
    part = shown(client, unescape(address))
    assert re.findall(r'<li data-of="([^"]*)"', part) == [GROWING]
    (points,) = re.findall(
        r'<svg class="spark" [^>]*aria-hidden="true"><polyline points="(.*?)"', part
    )
    heights = [int(point.partition(",")[2]) for point in points.split()]
    assert len(heights) >= 5
    assert heights[-1] < heights[0]


def test_groups_are_compared_on_one_scale(client: FlaskClient) -> None:
    page = shown(client, f"/c/prod/compare?group={GROWING}&group={STEADY}&group=nobody&group={NEW}")
    heads = re.findall(r'<th scope="col"><a [^>]*>([^<]*)<', page)
    assert heads == [GROWING, STEADY, NEW]
    assert "These groups do not exist at this moment: nobody." in page
    assert "0 to 25,000" in page
    assert page.count('<svg class="spark large"') == 3
    assert re.search(r'<li><a [^>]*>orders</a> <span class="number">25,000</span>', page)
    assert "growing +50/s" in page
    many = "&".join(f"group={number}" for number in range(11))
    assert "3 more are left out" in shown(client, f"/c/prod/compare?{many}")
    assert "Select groups" in shown(client, "/c/prod/compare")


def test_several_clusters_have_totals_and_one_search(folder: str, tmp_path: Path) -> None:
    other = create_overview_tables(tmp_path / "other")
    several = create_app({"a": folder, "b": other, "c": str(tmp_path / "gone")}).test_client()
    page = shown(several, "/")
    for tile in ("<b>2 of 3</b> clusters", "<b>8</b> groups", "<b>94,000</b> records behind"):
        assert tile in page
    worst = page[page.index('<table id="worst-groups">') :]
    found = re.findall(r'<th scope="row"><a href="/c/(.)/group\?group=([^"]*)"', worst)
    assert found[:2] == [("a", GROWING), ("b", GROWING)]
    assert '<h2 id="found">' not in page

    searched = shown(several, "/?search=INVOI")
    links = unescape(searched[: searched.index('<ul class="tiles">')])
    assert [f"/c/{name}/topic?topic=Invoices" in links for name in "abc"] == [True, True, False]
    searched = shown(several, "/?search=orders-slow")
    links = unescape(searched[: searched.index('<ul class="tiles">')])
    assert f"/c/b/group?group={GROWING}" in links
    assert "none" in links


def test_a_group_without_a_name_can_be_selected_and_opened(tmp_path: Path) -> None:
    folder = create_tables(tmp_path / "tables")
    groups: list[Row] = [{"group_id": "", "state": "Empty", "member_count": 0}]
    apply_micro_batch(folder, progress=[{}], groups=groups)
    client = create_app({"prod": folder}).test_client()
    assert 'value="" form="compare" aria-label="Compare (empty)"' in shown(client, "/c/prod/")
    assert '<span class="none">(empty)</span>' in shown(client, "/c/prod/group?group=")
