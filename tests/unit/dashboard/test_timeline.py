"""The timeline of a group on its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from streaming.dashboard import timeline
from streaming.dashboard.timeline import ShownTimeline
from streaming.views import group_timeline
from streaming.views.group_timeline import GroupTimeline
from tests.support.browser.html import page_client, page_of, part_of
from tests.support.tables.event_rows import BEGIN
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
def client(timeline_tables: TimelineTables) -> TestClient:
    return page_client(prod=timeline_tables.folder)


def part(client: TestClient, group: str, **arguments: str) -> str:
    """The part of the page that the page of the group shows."""
    page = page_of(client, "group/timeline", group=group, **arguments)
    return part_of(page, '<div class="part">', "</main>")


def test_a_loop(client: TestClient) -> None:
    shown = part(client, LOOPING)
    assert re.search(r"<p class=.result.>40 rebalances in \S+ min; at least one partition", shown)
    assert len(re.findall("<title>rebalance to generation", shown)) == 40
    # Before, between and after the 20 visits the steady member has both partitions.
    assert len(re.findall(r'<rect class="owner-1"[^>]*><title>\S+-51f4 from', shown)) == 1 + 21
    assert len(re.findall(r'<rect class="owner-[2-8]"', shown)) == 20
    assert "<span>14 other members</span>" in shown


def test_a_deploy(client: TestClient) -> None:
    shown = part(client, DEPLOYED)
    assert re.search(r"4 rebalances in \S+ min; no partition had an owner for at least 3 s", shown)
    assert re.search(r"<title>no partition had an owner from \S+ \S+ to [^<]* UTC \(3 s\)", shown)
    assert re.findall(r'class="label">(.*?)<', shown)[:4] == [
        *("Rebalances", "No owner at all"),
        *("orders 0", "orders 1"),
    ]
    owners = re.findall(r'class="(owner-\d)"[^>]*><title>search-consumer-(\S+) from', shown)
    assert [owner for _, owner in owners] == ["old0", "old1", "new0", "old1", "new0", "new1"]
    assert len(set(owners)) == len({colour for colour, _ in owners}) == 4


def test_a_period_is_that_of_its_address(
    client: TestClient, timeline_tables: TimelineTables
) -> None:
    since, until = (timeline_tables.at + timedelta(seconds=s) for s in (-30, -10))
    shown = part(client, DEPLOYED, since=since.isoformat(), until=until.isoformat())
    assert "in 20 s" in shown
    # The members at the begin come from the events before it.
    assert "The timeline begins" not in shown


def test_lanes_of_many_and_of_no_members(client: TestClient) -> None:
    shown = part(client, MANY)
    assert "10 more partitions are not shown" in shown
    assert shown.count('<rect class="owner-') == 60
    assert "<span>53 other members</span>" in shown
    nothing = part(client, "nobody")
    assert "No rebalance in" in nothing
    assert "<svg" not in nothing


@pytest.mark.parametrize(
    ("module", "limit"),
    [
        (timeline, "_MOST_MARKS"),
        (group_timeline, "_MOST_EVENTS"),
        (group_timeline, "_MOST_PERIODS"),
    ],
)
def test_too_many_changes_need_a_shorter_period(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, module: object, limit: str
) -> None:
    monkeypatch.setattr(module, limit, 40)
    shown = part(client, LOOPING)
    assert "choose a shorter period" in shown
    assert "<svg" not in shown
    assert "<svg" in part(client, DEPLOYED)


def test_the_page_of_the_group_leads_to_it(
    client: TestClient, timeline_tables: TimelineTables
) -> None:
    page = page_of(client, "group", group=LOOPING, since="5m")
    assert 'data-part="/c/prod/group/timeline?group=search&since=5m' in page
    past = page_of(client, "group", group=LOOPING, at=timeline_tables.at.isoformat())
    assert re.search(r'data-part="/c/prod/group/timeline\?[^"]*span=1h[^"]*&at=', past)


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (50, [f"11-21 06:56:{second}" for second in ("00", "10", "20", "30", "40")]),
        (3600, [f"11-21 07:{minute}:00" for minute in ("00", "10", "20", "30", "40")]),
        (7 * 86_400, [f"11-{day} 00:00:00" for day in ("23", "25", "27")]),
    ],
)
def test_ticks_are_round_times(seconds: float, texts: list[str]) -> None:
    shown = ShownTimeline(
        GroupTimeline(
            since=BEGIN,
            until=BEGIN + timedelta(seconds=seconds),
            group_type=None,
            lanes=[],
            standstills=[],
            rebalances=[],
            names={},
        )
    )
    assert [tick.strftime("%m-%d %H:%M:%S") for tick in shown.ticks] == texts
