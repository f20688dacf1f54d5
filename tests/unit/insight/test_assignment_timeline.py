"""The owners of partitions over time, and the rebalances between them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.assignment_replay import LaneKey
from coordinator_state.insight.assignment_timeline import (
    AssignmentTimeline,
    Lane,
    assignment_timeline,
)
from tests.support.tables.event_rows import BEGIN, by_member, event_row, in_log_order
from tests.support.tables.event_rows import partitions_of_orders as orders

Row = dict[str, Any]
FIRST, SECOND, THIRD = "search-consumer-aaaa", "search-consumer-bbbb", "search-consumer-cccc"


def at(after_s: float) -> datetime:
    return BEGIN + timedelta(seconds=after_s)


def member_row(member_id: str, *partitions: int, **fields: Any) -> Row:
    """A row of `group_members`."""
    empty = dict.fromkeys(("target_assignment", "tasks", "target_tasks", "group_instance_id"))
    return {**empty, **by_member(member_id), "assignment": orders(*partitions)} | fields


def joined(member_id: str, at_s: float, **fields: Any) -> Row:
    return event_row("member_joined", at_s, **(by_member(member_id) | fields))


def left(member_id: str, at_s: float, **fields: Any) -> Row:
    return event_row("member_left", at_s, **(by_member(member_id) | fields))


def assigned(member_id: str, at_s: float | None, before: Any, after: Any, **fields: Any) -> Row:
    sides = {"assignment_before": orders(*before), "assignment_after": orders(*after)}
    return event_row("assignment_changed", at_s, **(by_member(member_id) | sides | fields))


def rebalance(at_s: float, epoch: int, **fields: Any) -> Row:
    epochs = {"epoch_before": epoch - 1, "epoch_after": epoch}
    return event_row("rebalance", at_s, **(epochs | fields))


def timeline(
    *events: Row, members: Sequence[Row] = (), since: float = 0, until: float = 100
) -> AssignmentTimeline:
    in_order = in_log_order(events)
    return assignment_timeline(in_order, members, since=at(since), until=at(until))


def shown(lane: Lane) -> list[tuple[float, float, str]]:
    """Begin and end in seconds, and the last characters of the owners' ids."""
    return [
        (
            (begin - BEGIN).total_seconds(),
            (end - BEGIN).total_seconds(),
            "".join(owner[-1] for owner in owners),
        )
        for begin, end, owners in lane.segments
    ]


def test_a_member_that_leaves_hands_over_its_partitions() -> None:
    replayed = timeline(
        rebalance(40, 4, record_offset=7),
        left(SECOND, 40, record_offset=7),
        assigned(FIRST, 40, [0], [0, 1], record_offset=7),
        members=[member_row(FIRST, 0), member_row(SECOND, 1)],
    )

    first, second = replayed.lanes
    assert (first.keys, shown(first)) == ((LaneKey("orders", 0),), [(0, 100, "a")])
    assert (second.keys, shown(second)) == ((LaneKey("orders", 1),), [(0, 40, "b"), (40, 100, "a")])
    (only,) = replayed.rebalances
    assert (only.at, only.epoch_before, only.epoch_after) == (at(40), 3, 4)
    assert (only.joined, only.left, only.assigned_at) == ((), (SECOND,), None)
    assert replayed.standstills == []
    assert [owner.owned.total_seconds() for owner in replayed.owners] == [100, 40]
    assert [owner.partitions for owner in replayed.owners] == [2, 1]


def test_partitions_with_the_same_owners_share_a_lane() -> None:
    replayed = timeline(members=[member_row(FIRST, 0, 1, 2), member_row(SECOND, 3)])
    assert [[key.partition for key in lane.keys] for lane in replayed.lanes] == [[0, 1, 2], [3]]


def test_a_static_member_returns_to_its_own_seat() -> None:
    static = {"group_instance_id": "one"}
    replayed = timeline(
        left(FIRST, 1),
        left("one-1", 1, **static),
        joined("one-2", 2, **static),
        joined(THIRD, 3),
        members=[member_row(FIRST, 0), member_row("one-1", 1, **static)],
    )
    assert [owner.member_ids for owner in replayed.owners] == [(FIRST, THIRD), ("one-1", "one-2")]


def test_a_seat_of_the_same_host_comes_first() -> None:
    other = {"client_host": "/10.0.0.2"}
    replayed = timeline(
        left(FIRST, 1),
        left(SECOND, 1),
        joined(THIRD, 2, **other),
        members=[member_row(FIRST, 0), member_row(SECOND, 1, **other)],
    )
    assert [owner.member_ids for owner in replayed.owners] == [(FIRST,), (SECOND, THIRD)]


def test_members_that_are_in_no_row_are_derived_from_their_events() -> None:
    replayed = timeline(assigned(FIRST, 10, [0, 1], [1]), left(SECOND, 20))
    assert [shown(lane) for lane in replayed.lanes] == [[(0, 10, "a")], [(0, 100, "a")]]
    assert [owner.member_ids for owner in replayed.owners] == [(FIRST,), (SECOND,)]


def test_a_consumer_group_has_a_target_some_time_after_its_epoch() -> None:
    of = {"group_type": "consumer"}
    replayed = timeline(
        joined(SECOND, 10, **of),
        rebalance(10, 5, **of),
        assigned(FIRST, 10.2, [0, 1], [0], **of),
        assigned(SECOND, 10.3, [], [1], **of),
        left(SECOND, 50, **of),
        rebalance(50, 6, **of),
        members=[member_row(FIRST, target_assignment=orders(0, 1))],
    )
    first, second = replayed.rebalances
    assert (first.joined, first.assigned_at) == ((SECOND,), at(10.3))
    assert (second.left, second.assigned_at) == ((SECOND,), None)
    assert [shown(lane) for lane in replayed.lanes] == [
        [(0, 100, "a")],
        [(0, 10.2, "a"), (10.3, 50, "b")],
    ]


def test_lanes_of_a_streams_group_are_its_active_tasks() -> None:
    def task(kind: str) -> Row:
        return {"task_type": kind, "subtopology_id": "1", "partition": 4}

    tasks = [task("active"), task("standby") | {"partition": 5}]
    (lane,) = timeline(members=[member_row(FIRST, tasks=tasks)]).lanes
    assert lane.keys == (LaneKey("subtopology 1", 4),)


def test_times_never_go_back() -> None:
    replayed = timeline(
        assigned(FIRST, 10, [], [0]), assigned(FIRST, 5, [0], [], record_offset=99_999)
    )
    assert replayed.lanes == []
    assert timeline(assigned(FIRST, None, [], [0])).lanes == []


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
    after_s=st.integers(-5, 30),
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


@given(st.lists(_EVENTS, max_size=30), st.lists(st.integers(0, 3), max_size=3, unique=True))
def test_a_timeline_is_a_replay_of_all_moments(events: list[Row], partitions: list[int]) -> None:
    """A group stands still while it exists and no partition has an owner."""
    events = in_log_order(sorted(events, key=lambda row: row["record_timestamp"]))
    members = [member_row(name, *partitions) for name in _MEMBERS]
    replayed = assignment_timeline(events, members, since=BEGIN, until=at(25))
    in_time = [row for row in events if row["record_timestamp"] <= at(25)]

    keys = [key for lane in replayed.lanes for key in lane.keys]
    assert len(keys) == len(set(keys))
    for lane in replayed.lanes:
        assert all(begin < end for begin, end, _ in lane.segments)
        assert all(first.end <= second.begin for first, second in pairwise(lane.segments))
    for half_s in range(50):
        moment = at(half_s / 2)
        owners_now = {
            key.partition: set(owners)
            for lane in replayed.lanes
            for begin, end, owners in lane.segments
            if begin <= moment < end
            for key in lane.keys
        }
        expected, exists = owners_at(moment, in_time, members)
        assert owners_now == expected
        is_still = any(begin <= moment < end for begin, end in replayed.standstills)
        assert is_still == (exists and not expected and bool(replayed.lanes))
    assert set(replayed.owner_of) >= {
        owner for lane in replayed.lanes for segment in lane.segments for owner in segment.owners
    }
