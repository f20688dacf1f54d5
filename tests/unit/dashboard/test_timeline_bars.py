"""The places of a timeline on the page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.assignment_replay import Segment
from streaming.dashboard.timeline_bars import Axis, bars_of
from tests.support.tables.event_rows import BEGIN

OWNER_OF = {"a": 0, "b": 1, "c": 2}


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
    shared = Segment(BEGIN, BEGIN + timedelta(seconds=9), ("b", "c"))
    ((bar,),) = bars_of([[shared]], OWNER_OF, axis(10), most=5)
    assert bar.parts == [(1, 0, 50), (2, 50, 50)]


def test_a_bar_of_many_owners_shows_those_with_the_most_time() -> None:
    many = Segment(BEGIN, BEGIN + timedelta(seconds=9), tuple("abcdefgh"))
    owner_of = {name: number for number, name in enumerate(many.owners)}
    ((bar,),) = bars_of([[many]], owner_of, axis(10), most=5)
    assert [part.owner for part in bar.parts] == [0, 1, 2, 3, None]
    assert bar.parts[-1] == (None, 50, 50)


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
    found = bars_of(lanes, OWNER_OF, axis(3_600), most=most)

    assert sum(map(len, found)) <= max(most, len(lanes))
    for segments, bars in zip(lanes, found, strict=True):
        assert [one for bar in bars for one in bar.segments] == segments
        for bar in bars:
            assert (bar.begin, bar.end) == (bar.segments[0].begin, bar.segments[-1].end)
            assert sum(part.height for part in bar.parts) == pytest.approx(100, abs=0.2)
