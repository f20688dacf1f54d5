"""Requests of the model as Kafka's JSON of its messages, and answers the other way.

Source: clients/src/main/resources/common/message at 4.2.0, whose names these are.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.log import Producer
from coordinator_state.model.offset_manager import Partition
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.wire.primitives import uuid_from_text, uuid_text
from tests.shard_oracle.shard_process import Json

# --- requests


def join_group(request: JoinGroupRequest) -> Json:
    return {
        "groupId": request.group_id,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
        "protocolType": request.protocol_type,
        "protocols": [{"name": n, "metadata": base64_text(m)} for n, m in request.protocols],
        "sessionTimeoutMs": request.session_timeout_ms,
        "rebalanceTimeoutMs": request.rebalance_timeout_ms,
        "reason": None,
    }


def sync_group(request: SyncGroupRequest) -> Json:
    return {
        "groupId": request.group_id,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
        "generationId": request.generation_id,
        "protocolType": request.protocol_type,
        "protocolName": request.protocol_name,
        "assignments": [
            {"memberId": member_id, "assignment": base64_text(assignment)}
            for member_id, assignment in request.assignments.items()
        ],
    }


def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest) -> Json:
    owned = None
    if request.owned is not None:
        owned = [
            {"topicId": uuid_text(topic_id), "partitions": sorted(partitions)}
            for topic_id, partitions in request.owned.items()
        ]
    names = request.subscribed_topics
    return {
        "groupId": request.group_id,
        "memberId": request.member_id,
        "memberEpoch": request.member_epoch,
        "instanceId": request.group_instance_id,
        "rackId": None,
        "rebalanceTimeoutMs": request.rebalance_timeout_ms,
        "subscribedTopicNames": None if names is None else list(names),
        "subscribedTopicRegex": None,
        "serverAssignor": request.server_assignor,
        "topicPartitions": owned,
    }


def topics_to_commit(request: OffsetCommitRequest) -> list[Json]:
    return [
        {
            "name": offset.topic,
            "partitions": [
                {
                    "partitionIndex": offset.partition,
                    "committedOffset": offset.committed_offset,
                    "committedLeaderEpoch": offset.leader_epoch,
                    "committedMetadata": offset.metadata,
                }
            ],
        }
        for offset in request.offsets
    ]


def producer_fields(producer: Producer) -> Json:
    """Who writes in a transaction."""
    return {"producerId": producer.producer_id, "producerEpoch": producer.producer_epoch}


# --- answers


def read_joined(response: Json) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode(response["errorCode"]),
        member_id=response["memberId"],
        generation_id=response["generationId"],
        protocol_type=response["protocolType"] or None,
        protocol_name=response["protocolName"] or None,
        leader=response["leader"] or None,
        skip_assignment=response["skipAssignment"],
        members=tuple(
            (member["memberId"], member["groupInstanceId"], base64_bytes(member["metadata"]))
            for member in response["members"]
        ),
    )


def read_synced(response: Json) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode(response["errorCode"]),
        protocol_type=response["protocolType"],
        protocol_name=response["protocolName"],
        assignment=base64_bytes(response["assignment"]),
    )


def read_error(answer: Json) -> ErrorCode:
    return ErrorCode(answer["errorCode"] or answer["response"].get("errorCode", 0))


def read_errors(topics: Sequence[Json]) -> dict[Partition, ErrorCode]:
    return {
        (topic["name"], partition["partitionIndex"]): ErrorCode(partition["errorCode"])
        for topic in topics
        for partition in topic["partitions"]
    }


def base64_text(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


def base64_bytes(text: str) -> bytes:
    return b64decode(text)


def read_heartbeat(told: Json) -> ConsumerGroupHeartbeatResponse:
    assigned = None
    if told["assignment"] is not None:
        assigned = {
            uuid_from_text(topic["topicId"]): frozenset(topic["partitions"])
            for topic in told["assignment"]["topicPartitions"]
        }
    return ConsumerGroupHeartbeatResponse(
        member_id=told["memberId"], member_epoch=told["memberEpoch"], assigned=assigned
    )
