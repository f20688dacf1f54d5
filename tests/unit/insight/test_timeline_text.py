"""Sentences about a timeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from coordinator_state.insight.assignment_replay import LaneKey, Segment, Standstill
from coordinator_state.insight.assignment_timeline import (
    AssignmentTimeline,
    Lane,
    Owner,
    Rebalance,
)
from coordinator_state.insight.timeline_text import (
    cause_text,
    owner_text,
    owners_text,
    timeline_sentence,
)
from tests.support.tables.event_rows import BEGIN


def rebalance(
    after_s: float = 0, joined: tuple[str, ...] = (), left: tuple[str, ...] = ()
) -> Rebalance:
    return Rebalance(
        at=BEGIN + timedelta(seconds=after_s),
        epoch_before=1,
        epoch_after=2,
        joined=joined,
        left=left,
        assigned_at=None,
    )


def timeline(
    *rebalances_s: float, still_s: float = 0, group_type: str = "classic"
) -> AssignmentTimeline:
    until = BEGIN + timedelta(hours=1)
    still = Standstill(BEGIN, BEGIN + timedelta(seconds=still_s))
    return AssignmentTimeline(
        since=BEGIN,
        until=until,
        group_type=group_type,
        lanes=[Lane((LaneKey("orders", 0),), (Segment(still.end, until, ("a",)),))],
        owners=[],
        owner_of={},
        rebalances=[rebalance(after_s) for after_s in rebalances_s],
        changes=[],
        standstills=[still] if still_s else [],
    )


@pytest.mark.parametrize(
    ("timeline_of_group", "sentence"),
    [
        (timeline(), "No rebalance in 60 min; at least one partition always had an owner"),
        (
            timeline(*range(0, 3600, 63), still_s=250),
            "58 rebalances in 60 min, one every 63 s; the group stood still for at least 4.2 min "
            "(7 %)",
        ),
        (
            timeline(5, 10, still_s=3, group_type="consumer"),
            "2 rebalances in 60 min, all within 5 s; the group stood still for 3 s (<1 %)",
        ),
        (timeline(7), "1 rebalance in 60 min; at least one partition always had an owner"),
        (replace(timeline(7), lanes=[]), "1 rebalance in 60 min; no partition had an owner"),
    ],
)
def test_the_result_is_one_sentence(timeline_of_group: AssignmentTimeline, sentence: str) -> None:
    assert timeline_sentence(timeline_of_group) == sentence


def test_rebalances_have_causes() -> None:
    labels = {name: name.upper() for name in "abcd"}
    assert cause_text(rebalance(), labels) == "no member joined or left"
    assert cause_text(rebalance(left=("a",)), labels) == "A left"
    both = rebalance(left=("a", "b", "c"), joined=("a", "b", "c", "d"))
    assert cause_text(both, labels) == "A, B and C left, 4 members joined"


def test_owners_have_names() -> None:
    owner = Owner(
        client_id="app", group_instance_id=None, member_ids=("a",), owned=timedelta(), partitions=0
    )
    labels = {name: f"app-{name}" for name in "abcd"}
    assert owner_text(owner, labels) == "app-a"
    assert owner_text(replace(owner, member_ids=("a", "b")), labels) == "app-a, then app-b"
    many = replace(owner, member_ids=("a", "b", "c", "d"))
    assert owner_text(many, labels) == "app-a, then 3 members in its place"
    assert owner_text(replace(many, group_instance_id="i"), labels) == "i"


def test_owners_have_shares_of_the_time() -> None:
    def segment(begin: int, end: int, *owners: str) -> Segment:
        return Segment(BEGIN + timedelta(seconds=begin), BEGIN + timedelta(seconds=end), owners)

    labels = {"a1": "A", "a2": "A", "b": "B"}
    segments = [segment(0, 10, "a1"), segment(10, 40, "b"), segment(50, 85, "a2", "b")]
    text = owners_text(segments, labels, BEGIN, BEGIN + timedelta(seconds=100))
    assert text == "B 65 %, A 45 %, no owner 25 %"
    many = [segment(n, n + 1, str(n)) for n in range(8)]
    text = owners_text(many, {str(n): f"m{n}" for n in range(8)}, BEGIN, many[-1].end)
    assert text.endswith(", m4 12 %, 3 other owners")
