"""Refusals of the model's consumer groups (KIP-848) that no random sequence reaches.

`integration/test_shard_oracle.py` compares all other answers with Kafka's coordinator shard.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ErrorCode,
    JoinGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.replay.offsets import Semantics
from coordinator_state.wire.primitives import uuid_from_text, uuid_text

GROUP = "g"
TOPICS = Topics({"t": Topic(UUID(int=1), 4), "u": Topic(UUID(int=2), 2)})
JOINS: dict[str, Any] = {
    "rebalance_timeout_ms": 20_000,
    "subscribed_topics": ["t"],
    "owned": {},
}


def new_coordinator(
    semantics: Semantics = Semantics.COORDINATOR, **config: Any
) -> GroupCoordinator:
    coordinator = GroupCoordinator(semantics, config=CoordinatorConfig(**config), topics=TOPICS)
    coordinator.advance(1_000)
    return coordinator


def beat(
    coordinator: GroupCoordinator, *, member_id: str = "b", member_epoch: int = 0, **request: Any
) -> ErrorCode:
    """The answer to a heartbeat, of a member that joins by default."""
    settings = {"group_id": GROUP, **(JOINS if member_epoch == 0 else {}), **request}
    return coordinator.consumer_group_heartbeat(
        ConsumerGroupHeartbeatRequest(member_id=member_id, member_epoch=member_epoch, **settings)
    ).error_code


def classic_join(**request: Any) -> JoinGroupRequest:
    fields = {"topics": ["t"], "userData": None, "ownedPartitions": []}
    return JoinGroupRequest(
        group_id=GROUP,
        **{
            "protocols": (("range", encode_subscription(fields, 1)),),
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 20_000,
            "requires_known_member_id": False,
            **request,
        },
    )


def classic_coordinator(*assignments: bytes, **config: Any) -> GroupCoordinator:
    """A coordinator with a classic group, whose leader has brought these assignments."""
    coordinator = new_coordinator(**config)
    replies = [coordinator.join_group(classic_join()) for _ in assignments]
    coordinator.advance(coordinator.shard.now_ms + 10_000)
    member_ids = [reply.get().member_id for reply in replies]
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            member_id=member_ids[0],
            generation_id=1,
            assignments=dict(zip(member_ids, assignments, strict=True)),
        )
    )
    return coordinator


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    topics = [{"topic": "t", "partitions": list(partitions)}]
    return encode_assignment({"assignedPartitions": topics, "userData": user_data}, 1)


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
    coordinator = new_coordinator()
    assert beat(coordinator, **request_) is error_code
    assert coordinator.groups == {}
    assert beat(coordinator) is ErrorCode.NONE


def test_a_loading_coordinator_and_one_of_kafka_3_refuse_heartbeats() -> None:
    loading = new_coordinator()
    loading.shard.availability = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert beat(loading) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert beat(new_coordinator(Semantics.SCALA)) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("assignments", "config", "error_code"),
    [
        ([assignment(0)], {"consumer_group_max_size": 0}, ErrorCode.GROUP_ID_NOT_FOUND),
        # User data of a custom assignor would be lost.
        ([assignment(0, user_data=b"mine")], {}, ErrorCode.GROUP_ID_NOT_FOUND),
        # Two members own partition 1.
        ([assignment(0, 1), assignment(1)], {}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ([assignment(0), assignment(1)], {}, ErrorCode.NONE),
    ],
)
def test_a_classic_group_is_converted_or_stays(
    assignments: list[bytes], config: dict[str, int], error_code: ErrorCode
) -> None:
    coordinator = classic_coordinator(*assignments, **config)
    assert beat(coordinator) is error_code
    is_classic = isinstance(coordinator.groups[GROUP], ClassicGroup)
    assert is_classic == (error_code is not ErrorCode.NONE)


def test_a_group_in_its_first_rebalance_is_not_converted() -> None:
    """It has no protocol yet. A group whose members have all left gives way."""
    first = new_coordinator()
    reply = first.join_group(classic_join())
    assert beat(first) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert reply.get().error_code is ErrorCode.REBALANCE_IN_PROGRESS
    left = new_coordinator()
    left.join_group(classic_join(group_instance_id="i"))
    left.leave_group(GROUP, [MemberIdentity(group_instance_id="i")])
    assert beat(left) is ErrorCode.NONE


def test_a_classic_member_of_a_consumer_group() -> None:
    """It gets an id in Kafka's notation; a subscription that cannot be decoded is refused."""
    coordinator = new_coordinator()
    assert beat(coordinator) is ErrorCode.NONE
    member_id = coordinator.join_group(classic_join()).get().member_id
    assert uuid_text(uuid_from_text(member_id)) == member_id
    damaged = classic_join(protocols=(("range", b"\x00\x01\xff"),))
    refused = coordinator.join_group(damaged).get()
    assert refused.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
