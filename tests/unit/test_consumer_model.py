"""The model's consumer groups (KIP-848) where no broker can be made to answer in time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.loader import ReferenceLoader
from coordinator_state.model.assignors import Subscriber, range_assignor, uniform_assignor
from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.consumer_group import ConsumerGroup, ConsumerGroupState
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.java_hash import in_hash_order
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    SyncGroupRequest,
)
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.offsets import Semantics
from coordinator_state.primitives import uuid_from_text, uuid_text

GROUP = "g"
T, U = UUID(int=1), UUID(int=2)
TOPICS = Topics({"t": Topic(T, 4), "u": Topic(U, 2)})
SESSION_MS, REBALANCE_MS = 45_000, 20_000
JOINS: dict[str, Any] = {
    "rebalance_timeout_ms": REBALANCE_MS,
    "subscribed_topics": ["t"],
    "owned": {},
}


def new_coordinator(**config: Any) -> GroupCoordinator:
    coordinator = GroupCoordinator(config=CoordinatorConfig(**config), topics=TOPICS)
    coordinator.advance(1_000)
    return coordinator


def beat(
    coordinator: GroupCoordinator, member_id: str, epoch: int, **request: Any
) -> ConsumerGroupHeartbeatResponse:
    return coordinator.consumer_group_heartbeat(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, **request
        )
    )


def join(coordinator: GroupCoordinator, member_id: str, **request: Any) -> None:
    answer = beat(coordinator, member_id, 0, **{**JOINS, **request})
    assert answer.error_code is ErrorCode.NONE


def wait(coordinator: GroupCoordinator, ms: int) -> None:
    coordinator.advance(coordinator.shard.now_ms + ms)


def consumer_group(coordinator: GroupCoordinator) -> ConsumerGroup:
    group = coordinator.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    return group


def classic_coordinator(**config: Any) -> tuple[GroupCoordinator, str]:
    """A coordinator with a Stable classic group of one."""
    coordinator = new_coordinator(**config)
    reply = coordinator.join_group(classic_join())
    wait(coordinator, 10_000)
    member_id = reply.get().member_id
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=1,
            assignments={member_id: assignment(0, 1, 2, 3)},
        )
    )
    return coordinator, member_id


def classic_join(member_id: str = "", *owned: int, **request: Any) -> JoinGroupRequest:
    fields = {
        "topics": ["t"],
        "userData": None,
        "ownedPartitions": [{"topic": "t", "partitions": list(owned)}],
    }
    return JoinGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        **{
            "protocols": (("range", encode_subscription(fields, 1)),),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "requires_known_member_id": False,
            **request,
        },
    )


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    topics = [{"topic": "t", "partitions": list(partitions)}]
    return encode_assignment({"assignedPartitions": topics, "userData": user_data}, 1)


# --- sessions and timeouts


def test_a_member_whose_session_ends_is_out() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    wait(coordinator, SESSION_MS - 1)
    assert beat(coordinator, "a", 1).member_epoch == 1
    wait(coordinator, 1)
    assert list(consumer_group(coordinator).members) == ["a"]
    assert consumer_group(coordinator).group_epoch == 3
    assert beat(coordinator, "b", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    wait(coordinator, SESSION_MS)
    assert consumer_group(coordinator).state is ConsumerGroupState.EMPTY


def test_a_member_that_gives_nothing_up_is_out() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    beat(coordinator, "a", 1)
    assert consumer_group(coordinator).state is ConsumerGroupState.RECONCILING
    wait(coordinator, REBALANCE_MS - 1)
    assert set(consumer_group(coordinator).members) == {"a", "b"}
    wait(coordinator, 1)
    assert list(consumer_group(coordinator).members) == ["b"]


def test_a_member_that_gave_up_stays() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    assigned = beat(coordinator, "a", 1).assigned
    assert beat(coordinator, "a", 1, owned=assigned).member_epoch == 2
    wait(coordinator, REBALANCE_MS)
    assert set(consumer_group(coordinator).members) == {"a", "b"}


def test_a_static_member_that_is_away_for_too_long_is_out() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a", group_instance_id="i")
    assert beat(coordinator, "a", -2, group_instance_id="i").member_epoch == -2
    wait(coordinator, SESSION_MS)
    assert consumer_group(coordinator).is_empty


def test_what_a_timer_cannot_append_it_appends_later() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    wait(coordinator, SESSION_MS)
    assert list(consumer_group(coordinator).members) == ["a"]
    coordinator.log.refusal = ErrorCode.NONE
    wait(coordinator, 500)
    assert consumer_group(coordinator).is_empty


@pytest.mark.parametrize("syncs", [False, True])
def test_a_classic_member_that_does_not_go_on_is_out(syncs: bool) -> None:
    """It is to sync after each join, and to join when a heartbeat says so."""
    coordinator, member_id = classic_coordinator()
    join(coordinator, "b")
    assert coordinator.heartbeat(GROUP, member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    generation = coordinator.join_group(classic_join(member_id)).get().generation_id
    if syncs:
        synced = coordinator.sync_group(
            SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=generation)
        )
        assert synced.get().error_code is ErrorCode.NONE
        # The other one waits for what this one gave up, and comes: another epoch, another join.
        beat(coordinator, "b", 2, subscribed_topics=["t", "u"])
        rebalance = ErrorCode.REBALANCE_IN_PROGRESS
        assert coordinator.heartbeat(GROUP, member_id, generation) is rebalance
        assert coordinator.heartbeat(GROUP, member_id, generation) is rebalance
    wait(coordinator, REBALANCE_MS)
    assert list(consumer_group(coordinator).members) == ["b"]


def test_what_a_member_gives_up_is_waited_for_once() -> None:
    """Another assignor is no reason to wait for longer."""
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    beat(coordinator, "a", 1)
    wait(coordinator, REBALANCE_MS - 5_000)
    beat(coordinator, "a", 1, server_assignor="range")
    wait(coordinator, 5_000)
    assert list(consumer_group(coordinator).members) == ["b"]


def test_timers_find_a_group_that_was_converted_there_and_back() -> None:
    """As a broker does not cancel them: a classic member was to join again, and did not."""
    coordinator, member_id = classic_coordinator()
    join(coordinator, "n")
    began_ms = coordinator.shard.now_ms
    assert coordinator.heartbeat(GROUP, member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    beat(coordinator, "n", -1)
    rejoined = coordinator.join_group(classic_join(member_id))
    wait(coordinator, 3_000)
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=rejoined.get().generation_id,
            assignments={member_id: assignment(0)},
        )
    )
    join(coordinator, "n2")
    coordinator.advance(began_ms + REBALANCE_MS - 1)
    assert member_id in consumer_group(coordinator).members
    wait(coordinator, 1)
    assert list(consumer_group(coordinator).members) == ["n2"]


# --- appends that fail


def test_a_member_that_could_not_leave_stays_until_it_is_heard_of() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    beat(coordinator, "a", -1)
    coordinator.log.refusal = ErrorCode.NONE
    wait(coordinator, 10 * SESSION_MS)
    assert list(consumer_group(coordinator).members) == ["a"]
    beat(coordinator, "a", 1)
    wait(coordinator, SESSION_MS)
    assert consumer_group(coordinator).is_empty


@pytest.mark.parametrize(
    ("member_id", "request_"),
    [("b", JOINS), ("a", {"subscribed_topics": ["u"]})],
)
def test_a_heartbeat_that_cannot_be_appended_changes_nothing(
    member_id: str, request_: dict[str, Any]
) -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    before = consumer_group(coordinator).copy()
    coordinator.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = 1 if member_id == "a" else 0
    answer = beat(coordinator, member_id, epoch, **request_)
    assert answer.error_code is ErrorCode.NOT_COORDINATOR
    assert beat(coordinator, "a", -1).error_code is ErrorCode.NOT_COORDINATOR
    assert consumer_group(coordinator) == before


def test_a_step_that_cannot_be_appended_is_to_be_taken_in_time() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    beat(coordinator, "a", 1, subscribed_topics=["u"])
    coordinator.log.refusal = ErrorCode.NONE
    # It has nothing to give up, which ends nothing.
    assert beat(coordinator, "a", 1).error_code is ErrorCode.NONE
    wait(coordinator, REBALANCE_MS)
    assert not consumer_group(coordinator).members


def test_a_conversion_that_cannot_be_appended_changes_nothing() -> None:
    coordinator, member_id = classic_coordinator()
    before = coordinator.groups[GROUP]
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert beat(coordinator, "b", 0, **JOINS).error_code is unavailable
    assert coordinator.groups[GROUP] is before
    coordinator.log.refusal = ErrorCode.NONE
    join(coordinator, "b")
    converted = consumer_group(coordinator)
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert beat(coordinator, "b", -1).error_code is unavailable
    left = coordinator.leave_group(GROUP, [MemberIdentity(member_id=member_id)])
    assert left.error_code is unavailable
    joined = coordinator.join_group(classic_join(member_id)).get()
    assert joined.error_code is unavailable
    assert consumer_group(coordinator) == converted


def test_an_empty_group_stays_where_a_classic_one_cannot_be_appended() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    beat(coordinator, "a", -1)
    before = consumer_group(coordinator)
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.join_group(classic_join())
    assert consumer_group(coordinator) is before
    coordinator.log.refusal = ErrorCode.NONE
    coordinator.join_group(classic_join())
    assert isinstance(coordinator.groups[GROUP], ClassicGroup)


# --- what is refused


def test_groups_that_are_full() -> None:
    coordinator = new_coordinator(consumer_group_max_size=1)
    join(coordinator, "a")
    full = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert beat(coordinator, "b", 0, **JOINS).error_code is full
    assert coordinator.join_group(classic_join()).get().error_code is full
    assert beat(coordinator, "a", 1).error_code is ErrorCode.NONE


def test_a_classic_group_that_is_too_large_is_not_converted() -> None:
    coordinator, _ = classic_coordinator(consumer_group_max_size=0)
    assert beat(coordinator, "b", 0, **JOINS).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_cannot_be_converted() -> None:
    """User data of an assignor would be lost; a group that never joined has no protocol."""
    coordinator, member_id = classic_coordinator()
    coordinator.join_group(classic_join(member_id))
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=2,
            assignments={member_id: assignment(0, user_data=b"mine")},
        )
    )
    assert beat(coordinator, "b", 0, **JOINS).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    first = new_coordinator()
    reply = first.join_group(classic_join())
    assert beat(first, "b", 0, **JOINS).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert reply.get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    # Nobody is left of those that came.
    left = new_coordinator()
    left.join_group(classic_join(group_instance_id="i"))
    left.leave_group(GROUP, [MemberIdentity(group_instance_id="i")])
    assert beat(left, "b", 0, **JOINS).member_epoch == 1


def test_what_a_leader_gave_to_two_is_not_converted() -> None:
    coordinator = new_coordinator()
    replies = [coordinator.join_group(classic_join()) for _ in range(2)]
    wait(coordinator, 10_000)
    first, second = (reply.get().member_id for reply in replies)
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            member_id=first,
            generation_id=1,
            assignments={first: assignment(0, 1), second: assignment(1)},
        )
    )
    assert beat(coordinator, "b", 0, **JOINS).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(coordinator.groups[GROUP], ClassicGroup)


def test_the_assignor_that_nobody_named_before_wins_a_tie() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a", server_assignor="uniform", subscribed_topics=["t", "u"])
    join(coordinator, "b", server_assignor="range", subscribed_topics=["t", "u"])
    assert consumer_group(coordinator).targets == {
        "a": {T: frozenset({0, 1}), U: frozenset({0})},
        "b": {T: frozenset({2, 3}), U: frozenset({1})},
    }


@pytest.mark.parametrize(("asks", "wins"), [("a", "range"), ("b", "uniform")])
def test_the_assignor_of_who_asks_wins_a_tie(asks: str, wins: str) -> None:
    coordinator = new_coordinator()
    join(coordinator, "a", server_assignor="range", subscribed_topics=["t", "u"])
    join(coordinator, "b", server_assignor="uniform", subscribed_topics=["t", "u"])
    group = consumer_group(coordinator)
    assert group.preferred_assignor(group.members[asks]) == wins


def test_not_the_coordinator_and_not_of_kafka_3() -> None:
    coordinator = new_coordinator()
    coordinator.shard.availability = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert beat(coordinator, "a", 0, **JOINS).error_code is loading
    old = GroupCoordinator(Semantics.SCALA, topics=TOPICS)
    assert beat(old, "a", 0, **JOINS).error_code is ErrorCode.UNSUPPORTED_VERSION


def test_nobody_commits_in_a_transaction_with_generation_minus_one_only() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    for generation, expected in ((-1, ErrorCode.NONE), (-2, ErrorCode.UNKNOWN_MEMBER_ID)):
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id=generation,
            offsets=[OffsetToCommit(topic="t", partition=0, committed_offset=1)],
        )
        found = coordinator.commit_offsets(request, Producer(1, 0))
        assert found == {("t", 0): expected}


def test_a_classic_member_of_a_consumer_group_has_an_id_as_kafka_prints_them() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    member_id = coordinator.join_group(classic_join()).get().member_id
    assert uuid_text(uuid_from_text(member_id)) == member_id


def test_offsets_of_a_member_expire_once_nobody_consumes_the_topic() -> None:
    coordinator = new_coordinator(offsets_retention_ms=60_000)
    join(coordinator, "a")
    coordinator.commit_offsets(
        OffsetCommitRequest(
            group_id=GROUP,
            member_id="a",
            generation_id=1,
            offsets=[
                OffsetToCommit(topic=topic, partition=0, committed_offset=1) for topic in ("t", "u")
            ],
        )
    )
    for _ in range(2):
        wait(coordinator, 30_000)
        beat(coordinator, "a", 1)
    assert coordinator.expire_offsets() == 1
    beat(coordinator, "a", -1)
    assert coordinator.expire_offsets() == 1
    assert coordinator.groups == {}
    loader = ReferenceLoader(strict=True)
    loader.load(coordinator.log.batches())
    assert (loader.groups, loader.offsets) == ({}, {})


# --- assignors


def test_range_gives_ranges() -> None:
    topics = {T: 5, U: 2}
    members = {
        "b": Subscriber(None, topics, {}),
        "a": Subscriber(None, {T: 5}, {}),
        "z": Subscriber("instance", topics, {}),
    }
    assert range_assignor(members) == {
        "z": {T: frozenset({0, 1}), U: frozenset({0})},
        "a": {T: frozenset({2, 3})},
        "b": {T: frozenset({4}), U: frozenset({1})},
    }


@pytest.mark.parametrize("subscribed", [("tu", "tu", "tu"), ("tu", "t", "u"), ("t", "t", "u")])
def test_uniform_gives_every_partition_to_one_subscriber(subscribed: tuple[str, ...]) -> None:
    sizes = {"t": (T, 7), "u": (U, 4)}
    targets: dict[str, Any] = {}
    for count in (1, 2, 3, 2, 1):
        members = {
            f"m{number}": Subscriber(
                None,
                dict(sizes[topic] for topic in subscribed[number]),
                targets.get(f"m{number}", {}),
            )
            for number in range(count)
        }
        targets = uniform_assignor(members)
        given = [(t, p) for of in targets.values() for t, ps in of.items() for p in ps]
        wanted = {topic for number in range(count) for topic in subscribed[number]}
        assert sorted(given) == sorted(
            (topic_id, p) for topic_id, n in map(sizes.__getitem__, wanted) for p in range(n)
        )
        for member_id, assigned in targets.items():
            assert set(assigned) <= set(members[member_id].topic_ids)
        if len(set(subscribed[:count])) == 1:
            loads = [sum(map(len, assigned.values())) for assigned in targets.values()]
            assert max(loads) - min(loads) <= 1


def test_uniform_takes_partitions_away_in_the_order_of_a_java_hash_set() -> None:
    """What UniformAssignor.java of 4.2.0 makes of thirty partitions and a fourth member."""
    had = {
        member_id: {T: frozenset(range(start, start + 10))}
        for member_id, start in (("A", 0), ("B", 10), ("C", 20), ("D", 30))
    }
    had["D"] = {}
    members = {member_id: Subscriber(None, {T: 30}, target) for member_id, target in had.items()}
    assert uniform_assignor(members)["B"] == {T: frozenset({10, 11, 12, 13, 16, 17, 18, 19})}


def test_the_order_of_a_java_hash_map() -> None:
    """As `new HashSet<>(List.of(...))` and the keys of a `HashMap` print themselves with JDK 17."""
    assert in_hash_order(["range", "roundrobin", "sticky"]) == ["sticky", "range", "roundrobin"]
    numbers = [19, 18, 17, 16, 5, 15, 6, 14, 3, 13, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]
    members = [f"member-{number}" for number in range(20)]
    assert in_hash_order(members) == [f"member-{number}" for number in numbers]
    ids = [UUID(int=(0x123456789ABCDEF0 * number << 64) + 77 * number) for number in range(5)]
    assert in_hash_order(ids) == [ids[number] for number in (0, 4, 3, 2, 1)]
