"""A coordinator of Kafka that is asked in the same way as the model.

Requests and answers are those of the model. A message of Kafka is a dictionary here: its keys are
the names of Kafka's fields in snake case, bytes are bytes and topic ids are UUIDs.

Source: clients/src/main/resources/common/message at 4.2.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from coordinator_state.model.log import Producer
from coordinator_state.model.offset_manager import Partition
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ErrorCode,
    FetchedOffset,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)

Message = dict[str, Any]
Read = Callable[[Message], Any]
"""Makes an answer of the model from a response."""

_KEEPS_MEMBER_ID_VERSION: Final = 3
_SKIPS_NO_ASSIGNMENT_VERSION: Final = 8
_NEWEST_JOIN_VERSION: Final = 9


class KafkaRequests(ABC):
    """Sends requests of the model as messages of Kafka."""

    txn_offset_commit_version = 3

    @abstractmethod
    def _ask(self, api: str, version: int, message: Message, client_id: str = "") -> Message:
        """Send a request and return the response, or only its `error_code` if it was refused."""

    @abstractmethod
    def _begin(
        self, api: str, version: int, message: Message, read: Read, client_id: str = ""
    ) -> Reply[Any]:
        """Send a request that the coordinator answers later."""

    def _transactional_id(self, producer: Producer) -> str:
        return f"transaction of {producer.producer_id}"

    # --- members

    def join_group(self, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        version = _NEWEST_JOIN_VERSION
        if not request.supports_skipping_assignment:
            version = _SKIPS_NO_ASSIGNMENT_VERSION
        if not request.requires_known_member_id:
            version = _KEEPS_MEMBER_ID_VERSION
        message = {
            "group_id": request.group_id,
            "member_id": request.member_id,
            "group_instance_id": request.group_instance_id,
            "protocol_type": request.protocol_type,
            "protocols": [{"name": n, "metadata": m} for n, m in request.protocols],
            "session_timeout_ms": request.session_timeout_ms,
            "rebalance_timeout_ms": request.rebalance_timeout_ms,
            "reason": None,
        }
        return self._begin("JoinGroup", version, message, _read_joined, request.client_id)

    def sync_group(self, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        message = {
            "group_id": request.group_id,
            "member_id": request.member_id,
            "group_instance_id": request.group_instance_id,
            "generation_id": request.generation_id,
            "protocol_type": request.protocol_type,
            "protocol_name": request.protocol_name,
            "assignments": [
                {"member_id": member_id, "assignment": assignment}
                for member_id, assignment in request.assignments.items()
            ],
        }
        return self._begin("SyncGroup", 5, message, _read_synced)

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        generation_id: int,
        group_instance_id: str | None = None,
    ) -> ErrorCode:
        message = {
            "group_id": group_id,
            "member_id": member_id,
            "generation_id": generation_id,
            "group_instance_id": group_instance_id,
        }
        return ErrorCode(self._ask("Heartbeat", 4, message)["error_code"])

    def leave_group(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        identities = [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "reason": None,
            }
            for member in members
        ]
        answer = self._ask("LeaveGroup", 5, {"group_id": group_id, "members": identities})
        return LeaveGroupResponse(
            error_code=ErrorCode(answer["error_code"]),
            members=tuple(ErrorCode(member["error_code"]) for member in answer.get("members", ())),
        )

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        owned = None
        if request.owned is not None:
            owned = [
                {"topic_id": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in request.owned.items()
            ]
        names = request.subscribed_topics
        message = {
            "group_id": request.group_id,
            "member_id": request.member_id,
            "member_epoch": request.member_epoch,
            "instance_id": request.group_instance_id,
            "rack_id": None,
            "rebalance_timeout_ms": request.rebalance_timeout_ms,
            "subscribed_topic_names": None if names is None else list(names),
            "subscribed_topic_regex": None,
            "server_assignor": request.server_assignor,
            "topic_partitions": owned,
        }
        answer = self._ask("ConsumerGroupHeartbeat", 1, message, request.client_id)
        assignment = answer.get("assignment")
        assigned = None
        if assignment is not None:
            assigned = {
                topic["topic_id"]: frozenset(topic["partitions"])
                for topic in assignment["topic_partitions"]
            }
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode(answer["error_code"]),
            member_id=answer.get("member_id"),
            member_epoch=answer.get("member_epoch", 0),
            assigned=assigned,
        )

    # --- offsets and groups

    def commit_offsets(
        self, request: OffsetCommitRequest, producer: Producer | None = None
    ) -> dict[Partition, ErrorCode]:
        message: Message = {
            "group_id": request.group_id,
            "member_id": request.member_id,
            "group_instance_id": request.group_instance_id,
            "generation_id_or_member_epoch": request.generation_id,
            "topics": [
                {
                    "name": offset.topic,
                    "partitions": [
                        {
                            "partition_index": offset.partition,
                            "committed_offset": offset.committed_offset,
                            "committed_leader_epoch": offset.leader_epoch,
                            "committed_metadata": offset.metadata,
                        }
                    ],
                }
                for offset in request.offsets
            ],
        }
        if producer is None:
            message["retention_time_ms"] = request.retention_time_ms
            answer = self._ask("OffsetCommit", request.version, message)
        else:
            # The generation has another name since Kafka 4.4.
            message["generation_id"] = request.generation_id
            message["transactional_id"] = self._transactional_id(producer)
            message |= producer._asdict()
            answer = self._ask("TxnOffsetCommit", self.txn_offset_commit_version, message)
        if answer.get("error_code"):
            refusal = ErrorCode(answer["error_code"])
            return {(offset.topic, offset.partition): refusal for offset in request.offsets}
        return _read_errors(answer["topics"])

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Sequence[Partition] | None = None,
        *,
        require_stable: bool = False,
    ) -> tuple[ErrorCode, dict[Partition, FetchedOffset]]:
        topics = None
        if partitions is not None:
            topics = [{"name": t, "partition_indexes": [p]} for t, p in partitions]
        message = {
            "groups": [{"group_id": group_id, "topics": topics}],
            "require_stable": require_stable,
        }
        answer = self._ask("OffsetFetch", 8, message)
        if answer.get("error_code"):
            return ErrorCode(answer["error_code"]), {}
        (group,) = answer["groups"]
        return ErrorCode(group["error_code"]), {
            (topic["name"], partition["partition_index"]): FetchedOffset(
                committed_offset=partition["committed_offset"],
                leader_epoch=partition["committed_leader_epoch"],
                metadata=partition["metadata"],
                error_code=ErrorCode(partition["error_code"]),
            )
            for topic in group["topics"]
            for partition in topic["partitions"]
        }

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        topics = [{"name": t, "partitions": [{"partition_index": p}]} for t, p in partitions]
        answer = self._ask("OffsetDelete", 0, {"group_id": group_id, "topics": topics})
        return ErrorCode(answer["error_code"]), _read_errors(answer.get("topics", ()))

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        answer = self._ask("DeleteGroups", 2, {"groups_names": list(group_ids)})
        if answer.get("error_code"):
            return dict.fromkeys(group_ids, ErrorCode(answer["error_code"]))
        return {group["group_id"]: ErrorCode(group["error_code"]) for group in answer["results"]}


def _read_joined(answer: Message) -> JoinGroupResponse:
    # Kafka 3 has empty strings where Kafka 4 has null.
    return JoinGroupResponse(
        error_code=ErrorCode(answer["error_code"]),
        member_id=answer["member_id"],
        generation_id=answer["generation_id"],
        protocol_type=answer["protocol_type"] or None,
        protocol_name=answer["protocol_name"] or None,
        leader=answer["leader"] or None,
        skip_assignment=answer.get("skip_assignment", False),
        members=tuple(
            (member["member_id"], member.get("group_instance_id"), member["metadata"])
            for member in answer["members"]
        ),
    )


def _read_synced(answer: Message) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode(answer["error_code"]),
        protocol_type=answer["protocol_type"],
        protocol_name=answer["protocol_name"],
        assignment=bytes(answer["assignment"]),
    )


def _read_errors(topics: Sequence[Message]) -> dict[Partition, ErrorCode]:
    return {
        (topic["name"], partition["partition_index"]): ErrorCode(partition["error_code"])
        for topic in topics
        for partition in topic["partitions"]
    }
