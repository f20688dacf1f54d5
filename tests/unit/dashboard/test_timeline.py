"""The timeline of a group, and the places of its bars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from coordinator_state.insight.assignment_replay import Segment
from streaming.dashboard.timeline_bars import Axis, bars_of
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

OWNER_OF = {"a": 0, "b": 1, "c": 2}


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


def test_a_loop_in_words_and_bars(client: TestClient) -> None:
    """The sentences and the names of owners are those of `unit/insight`."""
    shown = part(client, LOOPING)
    assert re.search(r"<p class=.result.>40 rebalances in \S+ min, all within 78 s", shown)
    assert "search-consumer-0000, then 19 members in its place <small>owned 1 partition" in shown
    assert re.search(r"rebalances from [^<]* UTC, generation \d+ to \d+", shown)
    assert re.search(r">\+\d+</text>", shown)


def test_a_deploy_in_words_and_tables(client: TestClient) -> None:
    shown = part(client, DEPLOYED)
    assert "2 members of search-consumer were replaced one after another in 15 s" in shown
    assert re.search(r"no partition had an owner from [^<]* UTC \(3 s\)", shown)
    lanes = dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', shown))
    assert list(lanes) == ["orders 0", "orders 1"]
    # Both old members have a colour, which their successors keep.
    assert set(re.findall('<rect class="(owner[^"]*)"', shown)) == {"owner-1", "owner-2"}
    owners = "search-consumer-old1, then search-consumer-new1 "
    assert all(owners in text for text in lanes.values())
    assert re.search(r"<td>3 to 4</td><td>search-consumer-new1 joined</td>", shown)


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
    assert shown.count('<th scope="row">') == 60
    assert "54 more owners are not listed. Eight colours repeat" in shown
    nothing = part(client, "nobody")
    assert "No rebalance in" in nothing
    assert "<svg" not in nothing


def test_the_page_of_the_group_leads_to_it(
    client: TestClient, timeline_tables: TimelineTables
) -> None:
    page = page_of(client, "group", group=LOOPING, since="5m")
    assert 'data-part="/c/prod/group/timeline?group=search&since=5m' in page
    past = page_of(client, "group", group=LOOPING, at=timeline_tables.at.isoformat())
    assert re.search(r'data-part="/c/prod/group/timeline\?[^"]*span=1h[^"]*&at=', past)


def axis(seconds: float) -> Axis:
    return Axis(BEGIN, BEGIN + timedelta(seconds=seconds))


def lane(*ends_s: float) -> list[Segment]:
    """Segments of a and b in turn, one after the other."""
    begins = [0.0, *ends_s]
    return [
        Segment(BEGIN + timedelta(seconds=begin), BEGIN + timedelta(seconds=end), ("ab"[n % 2],))
        for n, (begin, end) in enumerate(zip(begins, ends_s, strict=False))
    ]


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (50, ["06:56:00", "06:56:10", "06:56:20", "06:56:30", "06:56:40"]),
        (3600, ["07:00", "07:10", "07:20", "07:30", "07:40"]),
        (7 * 86_400, ["11-23", "11-25", "11-27"]),
        (60 * 86_400, ["11-23", "12-03", "12-13", "12-23", "01-02"]),
    ],
)
def test_ticks_are_round_times(seconds: float, texts: list[str]) -> None:
    assert [tick.text for tick in axis(seconds).ticks()] == texts


def test_things_at_one_place_are_together() -> None:
    at = {n: BEGIN + timedelta(seconds=n) for n in (1, 2, 51, 100)}
    assert axis(100).places(at, at, 10) == [[1, 2], [51], [100]]


def test_segments_that_are_too_short_are_one_bar() -> None:
    ends = [100, *(100 + n / 2 for n in range(1, 9)), 1_000]
    first, short, last = bars_of([lane(*ends)], OWNER_OF, axis(1_000), most=100)[0]
    assert [len(bar.segments) for bar in (first, short, last)] == [1, 8, 1]
    assert (short.begin, short.end) == (first.end, last.begin)
    assert short.parts == [(0, 0, 50), (1, 50, 50)]
    assert first.parts == [(0, 0, 100)]


def test_the_owners_of_a_shared_partition_share_its_bar() -> None:
    for owners, parts in (
        ("bc", [(1, 0, 50), (2, 50, 50)]),
        # A bar of many owners shows those with the most time.
        ("abcdefgh", [*((n, n * 12.5, 12.5) for n in range(4)), (None, 50, 50)]),
    ):
        shared = Segment(BEGIN, BEGIN + timedelta(seconds=9), tuple(owners))
        owner_of = {name: number for number, name in enumerate("abcdefgh")}
        ((bar,),) = bars_of([[shared]], owner_of, axis(10), most=5)
        assert bar.parts == parts


@given(
    st.lists(
        st.lists(st.integers(1, 3_600_000), unique=True, max_size=60).map(sorted),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 50),
)
def test_bars_are_few_and_have_every_segment(lanes_ms: list[list[int]], most: int) -> None:
    lanes = [lane(*(ms / 1000 for ms in ends)) for ends in lanes_ms]
    bars_by_lane = bars_of(lanes, OWNER_OF, axis(3_600), most=most)

    assert sum(map(len, bars_by_lane)) <= max(most, len(lanes))
    for segments, bars in zip(lanes, bars_by_lane, strict=True):
        assert [segment for bar in bars for segment in bar.segments] == segments
        for bar in bars:
            assert (bar.begin, bar.end) == (bar.segments[0].begin, bar.segments[-1].end)
            assert sum(part.height for part in bar.parts) == pytest.approx(100, abs=0.2)
