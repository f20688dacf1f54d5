"""A coordinator of the model with members of both protocols in one group, for unit tests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    SyncGroupRequest,
)
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topic, Topics
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription

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


def consumer_group(coordinator: GroupCoordinator) -> LiveConsumerGroup:
    group = coordinator.groups[GROUP]
    assert isinstance(group, LiveConsumerGroup)
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
