"""The timeline of a group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from tests.support.browser.html import page_of, part_of
from tests.support.tables.dashboard_tables import HOSTILE
from tests.support.tables.held_moment import held_at
from tests.support.tables.timeline_tables import (
    DEPLOYED,
    LOOPING,
    MANY,
    TimelineTables,
    create_timeline_tables,
)


@pytest.fixture(scope="module")
def timeline_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimelineTables]:
    tables = create_timeline_tables(tmp_path_factory.mktemp("timeline") / "tables")
    with held_at(tables.folder, tables.at):
        yield tables


@pytest.fixture(scope="module")
def client(timeline_tables: TimelineTables) -> FlaskClient:
    return create_app({"prod": timeline_tables.folder}).test_client()


def part(client: FlaskClient, group: str, **arguments: str) -> str:
    """The part of the page that the page of the group shows."""
    page = page_of(client, "group/timeline", group=group, **arguments)
    return part_of(page, '<div class="part">', "</main>")


def test_a_loop_in_words_and_bars(client: FlaskClient) -> None:
    shown = part(client, LOOPING)

    assert re.search(r"<p class=.result.>40 rebalances in \S+ min, all within 78 s", shown)
    assert "search-consumer joins and leaves every 4 s, generation" in shown
    assert "Pauses within a rebalance are not in the log" in shown
    assert "search-consumer-0000, then 19 members in its place <small>owned 1 partition" in shown
    assert re.search(r"orders 1: search-consumer-0007 from [^<]* UTC \(2 s\)", shown)
    assert re.search(r"rebalances from [^<]* UTC, generation \d+ to \d+", shown)
    assert re.search(r">\+\d+</text>", shown)


def test_a_deploy_in_words_and_tables(client: FlaskClient) -> None:
    shown = part(client, DEPLOYED)

    assert "2 members of search-consumer were replaced one after another in 15 s" in shown
    assert "the group stood still for at least 3 s" in shown
    assert '<small>for 3<span class="unit"> s</span></small>' in shown
    assert re.search(r"no partition had an owner from [^<]* UTC \(3 s\)", shown)
    lanes = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', shown)
    assert [name for name, _ in lanes] == ["orders 0", "orders 1"]
    assert all("search-consumer-old1, then search-consumer-new1 " in owners for _, owners in lanes)
    assert re.search(r"<td>3 to 4</td><td>search-consumer-new1 joined</td>", shown)


def test_a_period_is_that_of_its_address(
    client: FlaskClient, timeline_tables: TimelineTables
) -> None:
    since, until = (timeline_tables.at + timedelta(seconds=s) for s in (-30, -10))
    shown = part(client, DEPLOYED, since=since.isoformat(), until=until.isoformat())
    assert "in 20 s" in shown
    # The members at the begin come from the events before it.
    assert "The timeline begins" not in shown


def test_lanes_beyond_sixty_are_counted(client: FlaskClient) -> None:
    shown = part(client, MANY)
    assert "10 more partitions are not shown" in shown
    assert shown.count('<th scope="row">') == 60
    assert "54 more owners are not listed. Eight colours repeat" in shown


def test_names_of_clients_are_text(client: FlaskClient) -> None:
    answer = client.get(f"/c/prod/group/timeline?{urlencode({'group': HOSTILE})}").text
    shown = answer[answer.index('<div class="part">') :]
    assert "img src=x" in shown
    assert "<img" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_group_without_members_has_a_sentence(client: FlaskClient) -> None:
    shown = part(client, "nobody")
    assert "No rebalance in" in shown
    assert "no partition had an owner" in shown
    assert "<svg" not in shown


def test_the_page_of_the_group_leads_to_it(
    client: FlaskClient, timeline_tables: TimelineTables
) -> None:
    page = page_of(client, "group", group=LOOPING, since="5m")
    assert 'data-part="/c/prod/group/timeline?group=search&since=5m' in page
    past = page_of(client, "group", group=LOOPING, at=timeline_tables.at.isoformat())
    assert re.search(r'data-part="/c/prod/group/timeline\?[^"]*span=1h[^"]*&at=', past)
