"""The model where neither a broker nor a random sequence gets: loading, failed appends, bounds.

`integration/test_shard_oracle.py` compares timers and refused appends of Kafka 4 with its shard.

Cases of GroupCoordinatorTest.scala at 3.9.1 and GroupMetadataManagerTest.java at 4.2.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from coordinator_state.model.classic_group import (
    VALID_PREVIOUS_STATES,
    ClassicGroup,
    ClassicState,
    InvalidTransition,
)
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
from coordinator_state.model.members import ClassicMembers, ConsumerMembers, Member, Members
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ErrorCode,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
)
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.records.consumer_protocol import encode_assignment
from coordinator_state.records.serde import decode_key
from coordinator_state.replay.offsets import OffsetKey, Semantics
from coordinator_state.wire.primitives import uuid_from_text, uuid_text
from tests.support.clients.scripted_clients import assignment, subscription

both = pytest.mark.parametrize("semantics", list(Semantics))
GROUP = "g"
SESSION_MS, INITIAL_MS = 10_000, 3_000


def coordinator_of(semantics: Semantics = Semantics.COORDINATOR, **config: Any) -> GroupCoordinator:
    topics = Topics({"t": Topic(UUID(int=1), 4)})
    coordinator = GroupCoordinator(semantics, config=CoordinatorConfig(**config), topics=topics)
    coordinator.advance(1_700_000_000_000)
    return coordinator


def join(
    coordinator: GroupCoordinator,
    member_id: str = "",
    *,
    static: str | None = None,
    metadata: bytes = subscription("t"),
) -> Reply[JoinGroupResponse]:
    return coordinator.join_group(
        JoinGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=static,
            protocols=(("range", metadata),),
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=20_000,
            requires_known_member_id=False,
        )
    )


def beat(
    coordinator: GroupCoordinator, *, member_id: str = "b", member_epoch: int = 0, **request: Any
) -> ErrorCode:
    """The answer to a heartbeat (KIP-848), of a member that joins by default."""
    joins = {"rebalance_timeout_ms": 20_000, "subscribed_topics": ["t"], "owned": {}}
    settings = {"group_id": GROUP, **(joins if member_epoch == 0 else {}), **request}
    return coordinator.consumer_group_heartbeat(
        ConsumerGroupHeartbeatRequest(member_id=member_id, member_epoch=member_epoch, **settings)
    ).error_code


def wait(coordinator: GroupCoordinator, ms: int) -> None:
    coordinator.advance(coordinator.shard.now_ms + ms)


def joined(coordinator: GroupCoordinator, count: int = 1, static: str | None = None) -> list[str]:
    """A group with so many members whose leader has not brought the assignment."""
    replies = [join(coordinator, static=static) for _ in range(count)]
    wait(coordinator, INITIAL_MS)
    if count > 1:
        wait(coordinator, INITIAL_MS)
    return [reply.get().member_id for reply in replies]


def sync_request(member_id: str, *assigned: str, generation_id: int = 1) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id=generation_id,
        assignments={m: assignment(number) for number, m in enumerate(assigned)},
    )


def commit(
    coordinator: GroupCoordinator, producer: Producer | None = None, **request: Any
) -> ErrorCode:
    offsets = [OffsetToCommit(topic="t", partition=0, committed_offset=1)]
    error_codes = coordinator.commit_offsets(
        OffsetCommitRequest(group_id=GROUP, **{"offsets": offsets, **request}), producer
    )
    return error_codes["t", 0]


def group_of(coordinator: GroupCoordinator) -> ClassicGroup:
    group = coordinator.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


def test_every_transition_is_in_the_table() -> None:
    for state in ClassicState:
        for previous in ClassicState:
            group = ClassicGroup(group_id=GROUP, state=previous)
            if previous in VALID_PREVIOUS_STATES[state]:
                group.transition_to(state, 7)
                assert (group.state, group.previous_state) == (state, previous)
                assert group.state_timestamp_ms == 7
            else:
                with pytest.raises(InvalidTransition, match=f"{previous.value} to {state.value}"):
                    group.transition_to(state, 7)


@pytest.mark.parametrize(
    "error_code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
@both
def test_a_coordinator_that_is_loading_or_none(semantics: Semantics, error_code: ErrorCode) -> None:
    coordinator = coordinator_of(semantics)
    coordinator.shard.availability = error_code
    is_loading = error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert join(coordinator).get().error_code is error_code
    # In Kafka 3, the member is to join again with whoever then is the coordinator.
    is_to_join = is_loading and semantics is Semantics.SCALA
    assert coordinator.sync_group(sync_request("m")).get().error_code is (
        ErrorCode.REBALANCE_IN_PROGRESS if is_to_join else error_code
    )
    beat = coordinator.heartbeat(GROUP, "m", 1)
    assert beat is (ErrorCode.NONE if is_loading else error_code)
    assert coordinator.heartbeat("", "m", 1) is ErrorCode.INVALID_GROUP_ID
    left = coordinator.leave_group(GROUP, [MemberIdentity(member_id="m")])
    assert left.error_code is error_code
    assert commit(coordinator) is error_code
    assert coordinator.fetch_offsets(GROUP) == (error_code, {})
    assert coordinator.delete_offsets(GROUP, [("t", 0)]) == (error_code, {})
    assert coordinator.delete_groups([GROUP]) == {GROUP: error_code}
    assert coordinator.log.next_offset == 0


E = ErrorCode
GROUP_ERRORS = [
    (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
    (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
    (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE, E.REBALANCE_IN_PROGRESS),
    (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
    (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
    (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR),
    (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR),
    (E.INVALID_FETCH_SIZE, E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("refusal", "of_kafka_4", "of_kafka_3"), GROUP_ERRORS)
@both
def test_an_assignment_that_cannot_be_stored(
    semantics: Semantics, refusal: ErrorCode, of_kafka_4: ErrorCode, of_kafka_3: ErrorCode
) -> None:
    coordinator = coordinator_of(semantics)
    leader, follower = joined(coordinator, 2)
    waiting = coordinator.sync_group(sync_request(follower))
    written = coordinator.log.next_offset
    coordinator.log.refusal = refusal
    brought = coordinator.sync_group(sync_request(leader, leader, follower))
    expected = of_kafka_3 if semantics is Semantics.SCALA else of_kafka_4
    for reply in (waiting, brought):
        assert reply.get().error_code is expected
        assert reply.get().assignment == b""
        assert reply.get().protocol_name is None
    # A new rebalance has begun, and nothing was written.
    group = group_of(coordinator)
    assert group.is_in(ClassicState.PREPARING_REBALANCE)
    assert {member.assignment for member in group.members.values()} == {b""}
    assert coordinator.log.next_offset == written


@both
def test_a_static_member_whose_return_cannot_be_stored_keeps_its_old_id(
    semantics: Semantics,
) -> None:
    coordinator = coordinator_of(semantics)
    (old_id,) = joined(coordinator, static="i")
    coordinator.sync_group(sync_request(old_id, old_id))
    coordinator.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = join(coordinator, static="i").get()
    assert (answer.error_code, answer.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    group = group_of(coordinator)
    assert list(group.members) == [old_id]
    assert (group.state, group.leader_id) == (ClassicState.STABLE, old_id)
    assert coordinator.heartbeat(GROUP, old_id, 1, "i") is ErrorCode.NONE


def test_a_new_group_that_cannot_be_stored_never_was() -> None:
    coordinator = coordinator_of(Semantics.COORDINATOR)
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert join(coordinator).get().error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.groups == {}
    assert coordinator.shard.timers.next_due_ms is None


def test_kafka_3_loses_a_pending_offset_where_the_next_one_cannot_be_stored() -> None:
    for semantics, left in ((Semantics.COORDINATOR, 1), (Semantics.SCALA, 0)):
        coordinator = coordinator_of(semantics)
        commit(coordinator, Producer(7, 0))
        coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        commit(coordinator, Producer(7, 0))
        assert sum(map(len, coordinator.pending.values())) == left


def test_what_waits_in_two_transactions_is_deleted_once() -> None:
    coordinator = coordinator_of(Semantics.COORDINATOR)
    for producer_id in (7, 8):
        commit(coordinator, Producer(producer_id, 0))
    coordinator.delete_groups([GROUP])
    (_, _, deleted) = coordinator.log.batches()
    assert [decode_key(record.key or b"").record_type.id for record in deleted.records] == [1, 2]
    assert coordinator.pending == {}


@both
def test_offsets_that_cannot_be_stored_are_not_there(semantics: Semantics) -> None:
    coordinator = coordinator_of(semantics)
    coordinator.log.refusal = ErrorCode.MESSAGE_TOO_LARGE
    assert commit(coordinator) is (
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if semantics is Semantics.SCALA
        else ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert coordinator.offsets == {}
    # To Kafka 4 there never was such a group.
    assert (GROUP in coordinator.groups) == (semantics is Semantics.SCALA)


@both
def test_a_session_that_ends(semantics: Semantics) -> None:
    coordinator = coordinator_of(semantics)
    leader, follower = joined(coordinator, 2)
    coordinator.sync_group(sync_request(leader, leader))
    coordinator.sync_group(sync_request(follower))
    wait(coordinator, SESSION_MS - 1)
    assert coordinator.heartbeat(GROUP, follower, 1) is ErrorCode.NONE
    wait(coordinator, 1)
    assert coordinator.heartbeat(GROUP, leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(GROUP, follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = join(coordinator, follower).get()
    assert (answer.generation_id, answer.leader) == (2, follower)


@both
def test_a_group_that_is_full(semantics: Semantics) -> None:
    coordinator = coordinator_of(semantics, group_max_size=1)
    (member_id,) = joined(coordinator)
    coordinator.sync_group(sync_request(member_id, member_id))
    assert join(coordinator).get().error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.heartbeat(GROUP, member_id, 1) is ErrorCode.NONE


@both
def test_what_expires_when(semantics: Semantics) -> None:
    retention_ms = 6 * SESSION_MS
    coordinator = coordinator_of(semantics, offsets_retention_ms=retention_ms)
    assert commit(coordinator, retention_time_ms=5_000, version=4) is ErrorCode.NONE
    wait(coordinator, 4_999)
    assert coordinator.expire_offsets() == 0
    wait(coordinator, 1)
    assert coordinator.expire_offsets() == 1
    assert coordinator.groups == {}

    # While members consume the topic nothing expires; then from when the last one left.
    (member_id,) = joined(coordinator)
    coordinator.sync_group(sync_request(member_id, member_id))
    offsets = [OffsetToCommit(topic=topic, partition=0, committed_offset=1) for topic in "tu"]
    member: dict[str, Any] = {"member_id": member_id, "generation_id": 1}
    assert commit(coordinator, offsets=offsets, **member) is ErrorCode.NONE
    for _ in range(retention_ms // SESSION_MS * 2):
        coordinator.heartbeat(GROUP, member_id, 1)
        wait(coordinator, SESSION_MS // 2)
    assert coordinator.expire_offsets() == 1
    assert set(coordinator.offsets) == {OffsetKey(GROUP, "t", 0)}
    coordinator.leave_group(GROUP, [MemberIdentity(member_id=member_id)])
    wait(coordinator, retention_ms - 1)
    assert coordinator.expire_offsets() == 0
    wait(coordinator, 1)
    assert coordinator.expire_offsets() == 1
    assert coordinator.groups == {}
    last = coordinator.log.batches()[-1].records
    assert [record.value for record in last] == [None, None]


@both
def test_the_last_member_leaves_and_nothing_can_be_appended(semantics: Semantics) -> None:
    """Kafka 4 tells who leaves; Kafka 3 does not wait for it. The member is out all the same."""
    coordinator = coordinator_of(semantics)
    (member_id,) = joined(coordinator)
    coordinator.sync_group(sync_request(member_id, member_id))
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    left = coordinator.leave_group(GROUP, [MemberIdentity(member_id=member_id)])
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert left.error_code is (ErrorCode.NONE if semantics is Semantics.SCALA else unavailable)
    assert group_of(coordinator).members == {}


@pytest.mark.parametrize("for_good", [True, False])
@pytest.mark.parametrize("kind", [ClassicMembers, ConsumerMembers])
def test_a_static_member_may_return_unless_it_leaves_for_good(
    kind: type[Members], for_good: bool
) -> None:
    coordinator = coordinator_of()
    members, member = kind(coordinator, GROUP, ["t"]), Member("c", "/h", "i")
    members.start(member)
    members.tick()
    wait(coordinator, INITIAL_MS)
    assert members.tick()
    assert member.places == [("t", partition) for partition in range(4)]
    members.leave(member, for_good=for_good)
    assert coordinator.groups[GROUP].is_empty == for_good


# --- consumer groups (KIP-848)

WITH_USER_DATA = encode_assignment(
    {"assignedPartitions": [{"topic": "t", "partitions": [0]}], "userData": b"mine"}
)


@pytest.mark.parametrize(
    ("request_", "error_code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": {UUID(int=1): frozenset({0})}}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topics": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_heartbeat_with_a_wrong_field_is_refused(
    request_: dict[str, Any], error_code: ErrorCode
) -> None:
    coordinator = coordinator_of()
    assert beat(coordinator, **request_) is error_code
    assert coordinator.groups == {}
    assert beat(coordinator) is ErrorCode.NONE


def test_a_loading_coordinator_and_one_of_kafka_3_refuse_heartbeats() -> None:
    loading = coordinator_of()
    loading.shard.availability = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert beat(loading) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert beat(coordinator_of(Semantics.SCALA)) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("assignments", "config", "error_code"),
    [
        ([assignment(0)], {"consumer_group_max_size": 0}, ErrorCode.GROUP_ID_NOT_FOUND),
        # User data of a custom assignor would be lost.
        ([WITH_USER_DATA], {}, ErrorCode.GROUP_ID_NOT_FOUND),
        # Two members own partition 1.
        ([assignment(0, 1), assignment(1)], {}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ([assignment(0), assignment(1)], {}, ErrorCode.NONE),
    ],
)
def test_a_classic_group_is_converted_or_stays(
    assignments: list[bytes], config: dict[str, Any], error_code: ErrorCode
) -> None:
    coordinator = coordinator_of(**config)
    leader, *others = joined(coordinator, len(assignments))
    by_member = dict(zip([leader, *others], assignments, strict=True))
    coordinator.sync_group(replace(sync_request(leader), assignments=by_member))
    assert beat(coordinator) is error_code
    is_classic = isinstance(coordinator.groups[GROUP], ClassicGroup)
    assert is_classic == (error_code is not ErrorCode.NONE)


def test_a_group_in_its_first_rebalance_is_not_converted() -> None:
    """It has no protocol yet. A group whose members have all left gives way."""
    first = coordinator_of()
    reply = join(first)
    assert beat(first) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert reply.get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    left = coordinator_of()
    join(left, static="i")
    left.leave_group(GROUP, [MemberIdentity(group_instance_id="i")])
    assert beat(left) is ErrorCode.NONE


def test_a_classic_member_of_a_consumer_group() -> None:
    """It gets an id in Kafka's notation; a subscription that cannot be decoded is refused."""
    coordinator = coordinator_of()
    assert beat(coordinator) is ErrorCode.NONE
    member_id = join(coordinator).get().member_id
    assert uuid_text(uuid_from_text(member_id)) == member_id
    refused = join(coordinator, metadata=b"\x00\x01\xff").get()
    assert refused.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
