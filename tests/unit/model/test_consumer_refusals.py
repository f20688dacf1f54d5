"""What the model's consumer groups (KIP-848) refuse, and what they tell whom."""

from __future__ import annotations

import pytest

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import (
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    SyncGroupRequest,
)
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.wire.primitives import uuid_from_text, uuid_text
from tests.support.clients.model_consumers import (
    GROUP,
    JOINS,
    TOPICS,
    T,
    U,
    assignment,
    beat,
    classic_coordinator,
    classic_join,
    consumer_group,
    join,
    new_coordinator,
    wait,
)


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
