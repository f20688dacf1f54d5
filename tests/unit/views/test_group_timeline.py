"""The owners of partitions over time, and the rebalances between them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streaming.tables.schemas import GROUP_EVENTS, GROUP_MEMBERS
from streaming.views.group_timeline import GroupTimeline, Lane, timeline_of
from tests.support.tables.event_rows import (
    BEGIN,
    assigned,
    by_member,
    event_row,
    in_log_order,
    joined,
    left,
    rebalance,
)
from tests.support.tables.event_rows import partitions_of_orders as orders

Row = dict[str, Any]
FIRST, SECOND = "search-consumer-aaaa", "search-consumer-bbbb"


def at(after_s: float) -> datetime:
    return BEGIN + timedelta(seconds=after_s)


def member_row(member_id: str, *partitions: int, **fields: Any) -> Row:
    """A row of `group_members`."""
    return {**by_member(member_id), "assignment": orders(*partitions)} | fields


def timeline(
    *events: Row, members: Sequence[Row] = (), group_type: str = "classic", until: float = 100
) -> GroupTimeline:
    replayed = timeline_of(
        pa.Table.from_pylist(in_log_order(events), GROUP_EVENTS.schema),
        pa.Table.from_pylist(list(members), GROUP_MEMBERS.schema),
        group_type=group_type,
        since=BEGIN,
        until=at(until),
    )
    assert replayed is not None
    return replayed


def shown(lane: Lane) -> list[tuple[float, float, str]]:
    """Begin and end in seconds, and the last character of the owner's id."""
    return [
        ((begin - BEGIN).total_seconds(), (end - BEGIN).total_seconds(), owner[-1])
        for begin, end, owner in lane.periods
    ]


def test_a_member_that_leaves_hands_over_its_partitions() -> None:
    replayed = timeline(
        rebalance(40, 4, record_offset=7),
        left(SECOND, 40, record_offset=7),
        assigned(FIRST, 40, [0], [0, 1], record_offset=7),
        members=[member_row(FIRST, 0), member_row(SECOND, 1)],
    )

    first, second = replayed.lanes
    assert first.partitions == [{"topic": "orders", "partition": 0}]
    # The change of the assignment does not end the period of a partition that stays.
    assert shown(first) == [(0, 100, "a")]
    assert second.partitions == [{"topic": "orders", "partition": 1}]
    assert shown(second) == [(0, 40, "b"), (40, 100, "a")]
    assert replayed.rebalances == [(at(40), 4)]
    assert replayed.standstills == []
    assert replayed.names == {FIRST: FIRST, SECOND: SECOND}


def test_partitions_with_the_same_owners_share_a_lane() -> None:
    replayed = timeline(members=[member_row(FIRST, 0, 1, 2), member_row(SECOND, 3)])
    assert [[place["partition"] for place in lane.partitions] for lane in replayed.lanes] == [
        [0, 1, 2],
        [3],
    ]


def test_a_static_member_is_the_same_owner_after_a_restart() -> None:
    static = {"group_instance_id": "one"}
    replayed = timeline(
        left("one-1", 1, **static),
        joined("one-2", 2, **static),
        assigned("one-2", 2, [], [0], **static),
        members=[member_row("one-1", 0, **static)],
    )
    (lane,) = replayed.lanes
    assert shown(lane) == [(0, 1, "e"), (2, 100, "e")]
    assert replayed.names["one"] == "one"
    assert replayed.standstills == [(at(1), at(2))]


def test_members_that_are_in_no_row_are_derived_from_their_events() -> None:
    replayed = timeline(assigned(FIRST, 10, [0, 1], [1]), left(SECOND, 20))
    assert [shown(lane) for lane in replayed.lanes] == [[(0, 10, "a")], [(0, 100, "a")]]


def test_a_consumer_group_has_a_target_some_time_after_its_epoch() -> None:
    replayed = timeline(
        joined(SECOND, 10),
        rebalance(10, 5),
        assigned(FIRST, 10.2, [0, 1], [0]),
        assigned(SECOND, 10.3, [], [1]),
        left(SECOND, 50),
        rebalance(50, 6),
        members=[member_row(FIRST, 2, target_assignment=orders(0, 1))],
        group_type="consumer",
    )
    assert [epoch for _, epoch in replayed.rebalances] == [5, 6]
    assert [shown(lane) for lane in replayed.lanes] == [
        [(0, 100, "a")],
        [(0, 10.2, "a"), (10.3, 50, "b")],
    ]


def test_lanes_of_a_streams_group_are_its_active_tasks() -> None:
    def task(kind: str) -> Row:
        return {"task_type": kind, "subtopology_id": "1", "partition": 4}

    tasks = [task("active"), task("standby") | {"partition": 5}]
    member = member_row(FIRST, assignment=None, tasks=tasks)
    (lane,) = timeline(members=[member], group_type="streams").lanes
    assert lane.partitions == [{"topic": "subtopology 1", "partition": 4}]


def test_each_member_of_a_share_group_has_its_lanes() -> None:
    members = [member_row(FIRST, 0, 1), member_row(SECOND, 1)]
    lanes = timeline(members=members, group_type="share").lanes
    assert [([place["partition"] for place in lane.partitions], shown(lane)) for lane in lanes] == [
        ([0, 1], [(0, 100, "a")]),
        ([1], [(0, 100, "b")]),
    ]


def test_times_never_go_back() -> None:
    replayed = timeline(
        assigned(FIRST, 10, [], [0]), assigned(FIRST, 5, [0], [], record_offset=99_999)
    )
    assert replayed.lanes == []
    assert replayed.standstills == []


_MEMBERS = ("a-1", "a-2", "b-1")
_EVENTS = st.builds(
    lambda kind, member, after_s, partitions: {
        "joined": lambda: joined(member, after_s, client_id=member[0]),
        "left": lambda: left(member, after_s, client_id=member[0]),
        "assigned": lambda: assigned(member, after_s, [], partitions),
        "rebalance": lambda: rebalance(after_s, 2),
        "created": lambda: event_row("group_created", after_s),
        "deleted": lambda: event_row("group_deleted", after_s),
    }[kind](),
    kind=st.sampled_from(["joined", "left", *3 * ["assigned"], "rebalance", "created", "deleted"]),
    member=st.sampled_from(_MEMBERS),
    after_s=st.integers(-5, 25),
    partitions=st.lists(st.integers(0, 3), max_size=4, unique=True),
)


def owners_at(
    moment: datetime, events: Sequence[Row], members: Sequence[Row]
) -> tuple[dict[int, set[str]], bool]:
    """The owners of each partition, and whether the group exists: the events, replayed."""
    owned = {row["member_id"]: {held["partition"] for held in row["assignment"]} for row in members}
    exists = not events or events[0]["event"] != "group_created"
    for row in events:
        if row["record_timestamp"] > moment:
            continue
        if row["event"] == "assignment_changed":
            owned[row["member_id"]] = {held["partition"] for held in row["assignment_after"]}
        elif row["event"] == "member_left":
            owned[row["member_id"]] = set()
        elif row["event"] in ("group_created", "group_deleted"):
            owned, exists = {}, row["event"] == "group_created"
    by_partition = {n: {name for name in owned if n in owned[name]} for n in range(4)}
    return {partition: names for partition, names in by_partition.items() if names}, exists


@given(
    st.lists(_EVENTS, max_size=30),
    st.lists(st.integers(0, 3), max_size=3, unique=True),
    st.sampled_from(["classic", "share"]),
)
def test_a_timeline_is_a_replay_of_all_moments(
    events: list[Row], partitions: list[int], group_type: str
) -> None:
    """A group stands still while it exists and no partition has an owner."""
    events = in_log_order(sorted(events, key=lambda row: row["record_timestamp"]))
    members = [member_row(name, *partitions) for name in _MEMBERS]
    replayed = timeline(*events, members=members, group_type=group_type, until=25)

    places = [place["partition"] for lane in replayed.lanes for place in lane.partitions]
    assert group_type == "share" or len(places) == len(set(places))
    for lane in replayed.lanes:
        assert all(begin < end for begin, end, _ in lane.periods)
        by_owner = sorted(lane.periods, key=lambda period: (period.owner, period.begin_at))
        assert all(a.owner != b.owner or a.end_at < b.begin_at for a, b in pairwise(by_owner))
        assert group_type != "share" or len({period.owner for period in lane.periods}) == 1
    for half_s in range(50):
        moment = at(half_s / 2)
        owners_now: dict[int, set[str]] = {}
        for lane in replayed.lanes:
            for begin, end, owner in lane.periods:
                if begin <= moment < end:
                    for place in lane.partitions:
                        owners_now.setdefault(place["partition"], set()).add(owner)
        expected, exists = owners_at(moment, events, members)
        assert owners_now == expected
        is_still = any(begin <= moment < end for begin, end in replayed.standstills)
        assert is_still == (exists and not expected and bool(replayed.lanes))
