"""Kafka's own coordinator shard, asked as the model is: the same requests, the same answers.

Requests go in by Kafka's JSON of its messages. What GroupCoordinatorService refuses before the
shard hears of it (empty ids, timeouts out of bounds) is not looked at here; the model's rules for
that are held to whole brokers and in unit tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.log import CoordinatorLog, Producer
from coordinator_state.model.offset_manager import Partition
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
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
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topics
from coordinator_state.wire.primitives import uuid_text
from tests.shard_oracle.kafka_messages import (
    base64_bytes,
    consumer_group_heartbeat,
    join_group,
    producer_fields,
    read_error,
    read_errors,
    read_heartbeat,
    read_joined,
    read_synced,
    sync_group,
    topics_to_commit,
)
from tests.shard_oracle.shard_process import Json, ShardProcess

_PROPERTIES: Final = {
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_max_size": "group.max.size",
    "consumer_group_max_size": "group.consumer.max.size",
    "consumer_session_timeout_ms": "group.consumer.session.timeout.ms",
}
# The model assigns within the request, as brokers before 4.3 do; those know none of these names.
_AT_ONCE: Final = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.assignor.offload.enable": False,
}
_MINUTE_MS: Final = 60_000
_KEEPS_MEMBER_ID_VERSION: Final = 3
_SKIPS_NO_ASSIGNMENT_VERSION: Final = 8
_NEWEST_JOIN_VERSION: Final = 9
_TXN_OFFSET_COMMIT_VERSION: Final = 4
_OFFSET_FETCH_VERSION: Final = 8
_ID_BYTES: Final = 16


class KafkaShard:
    """A coordinator of one log partition that begins with an empty log.

    `log` is what it wrote, `groups` what it holds after the last question, as JSON; `drawn` the
    ids that it drew and `fired` the timers that went off in answering it, `timers` when those that
    are left are due, and `refusals` what was thrown.
    """

    def __init__(
        self,
        process: ShardProcess,
        *,
        config: CoordinatorConfig,
        topics: Topics,
        seed: int,
        now_ms: int,
    ) -> None:
        self._process = process
        self._waiting: dict[str, Reply[Any]] = {}
        self._asked = 0
        self._now_ms = now_ms
        self.log = CoordinatorLog()
        self.groups: Json = {}
        self.timers: dict[str, int] = {}
        self.fired: list[str] = []
        self.drawn: list[UUID] = []
        self.refusals: list[str] = []
        properties = {name: getattr(config, field) for field, name in _PROPERTIES.items()}
        properties["offsets.retention.minutes"] = config.offsets_retention_ms // _MINUTE_MS
        properties |= _AT_ONCE
        process.ask(
            {
                "ask": "Start",
                "nowMs": now_ms,
                "seed": seed,
                "config": properties,
                "topics": {
                    name: {"id": uuid_text(topic.topic_id), "partitions": topic.partitions}
                    for name, topic in topics.by_name.items()
                },
            }
        )

    # --- time, and what becomes of appends

    def advance(self, now_ms: int, order: Sequence[str] = ()) -> None:
        """Let time pass; timers that are due together fire in an order."""
        self._now_ms = now_ms
        self._ask("Advance", nowMs=now_ms, order=list(order))

    def refuse(self, error_code: ErrorCode) -> None:
        """Have appends meet with an error, until it is NONE again."""
        self._ask("Refuse", errorCode=int(error_code))

    def replay(self, records: Iterable[Json]) -> None:
        """Load a log into an empty shard."""
        self._ask("Replay", records=list(records))

    # --- requests of members

    def join_group(self, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        version = _NEWEST_JOIN_VERSION
        if not request.supports_skipping_assignment:
            version = _SKIPS_NO_ASSIGNMENT_VERSION
        if not request.requires_known_member_id:
            version = _KEEPS_MEMBER_ID_VERSION
        return self._ask_and_wait(
            "JoinGroup",
            # An instance id came with version 5; the shard does not ask for the version there.
            version=version,
            clientId=request.client_id,
            data=join_group(request),
        )

    def sync_group(self, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        return self._ask_and_wait(
            "SyncGroup",
            version=5,
            data=sync_group(request),
        )

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        generation_id: int,
        group_instance_id: str | None = None,
    ) -> ErrorCode:
        data = {
            "groupId": group_id,
            "memberId": member_id,
            "generationId": generation_id,
            "groupInstanceId": group_instance_id,
        }
        return read_error(self._ask("Heartbeat", version=4, data=data))

    def leave_group(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        identities = [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "reason": None,
            }
            for member in members
        ]
        data = {"groupId": group_id, "members": identities}
        answer = self._ask("LeaveGroup", version=5, data=data)
        error_code = read_error(answer)
        if error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            # There is no such group: the service says so of every member.
            return LeaveGroupResponse(members=(error_code,) * len(members))
        if error_code is not ErrorCode.NONE:
            return LeaveGroupResponse(error_code=error_code)
        told = answer["response"]["members"]
        return LeaveGroupResponse(members=tuple(ErrorCode(one["errorCode"]) for one in told))

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        answer = self._ask(
            "ConsumerGroupHeartbeat",
            version=1,
            clientId=request.client_id,
            data=consumer_group_heartbeat(request),
        )
        error_code = read_error(answer)
        if error_code is not ErrorCode.NONE:
            return ConsumerGroupHeartbeatResponse(error_code=error_code)
        return read_heartbeat(answer["response"])

    # --- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, producer: Producer | None = None
    ) -> dict[Partition, ErrorCode]:
        data: Json = {
            "groupId": request.group_id,
            "memberId": request.member_id,
            "groupInstanceId": request.group_instance_id,
            "topics": topics_to_commit(request),
        }
        if producer is None:
            data["generationIdOrMemberEpoch"] = request.generation_id
            answer = self._ask("OffsetCommit", version=request.version, data=data)
        else:
            data |= producer_fields(producer)
            # The field has another name since Kafka 4.4.
            names = ("generationId", "generationIdOrMemberEpoch")
            data |= {
                "transactionalId": "transaction",
                **dict.fromkeys(names, request.generation_id),
            }
            answer = self._ask(
                "TxnOffsetCommit", producer, version=_TXN_OFFSET_COMMIT_VERSION, data=data
            )
        error_code = read_error(answer)
        if error_code is not ErrorCode.NONE:
            return {(o.topic, o.partition): error_code for o in request.offsets}
        return read_errors(answer["response"]["topics"])

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        self._ask("EndTransaction", **producer_fields(producer), isCommit=is_commit)
        self.log.append_marker(producer, int(is_commit), self._now_ms)

    def fetch_offsets(
        self, group_id: str, *, require_stable: bool = False
    ) -> tuple[ErrorCode, dict[Partition, FetchedOffset]]:
        data = {
            "groupId": group_id,
            "requireStable": require_stable,
            "lastCommittedOffset": self.log.next_offset,
        }
        answer = self._ask("OffsetFetch", version=_OFFSET_FETCH_VERSION, data=data)
        error_code = read_error(answer)
        if error_code is not ErrorCode.NONE:
            return error_code, {}
        (group,) = answer["response"]["groups"]
        return ErrorCode(group["errorCode"]), {
            (topic["name"], found["partitionIndex"]): FetchedOffset(
                committed_offset=found["committedOffset"],
                leader_epoch=found["committedLeaderEpoch"],
                metadata=found["metadata"],
                error_code=ErrorCode(found["errorCode"]),
            )
            for topic in group["topics"]
            for found in topic["partitions"]
        }

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        topics = [{"name": t, "partitions": [{"partitionIndex": p}]} for t, p in partitions]
        answer = self._ask("OffsetDelete", version=0, data={"groupId": group_id, "topics": topics})
        error_code = read_error(answer)
        if error_code is not ErrorCode.NONE:
            return error_code, {}
        return ErrorCode.NONE, read_errors(answer["response"]["topics"])

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        answer = self._ask("DeleteGroups", version=2, data={"groupsNames": list(group_ids)})
        if answer["errorCode"]:
            return dict.fromkeys(group_ids, ErrorCode(answer["errorCode"]))
        results = answer["response"]["results"]
        return {result["groupId"]: ErrorCode(result["errorCode"]) for result in results}

    def expire_offsets(self) -> None:
        self._ask("Expire")

    # --- questions

    def _ask_and_wait(self, ask: str, **question: Any) -> Reply[Any]:
        self._asked += 1
        name, reply = f"{ask} {self._asked}", Reply[Any]()
        self._waiting[name] = reply
        self._ask(ask, id=name, **question)
        return reply

    def _ask(self, ask: str, producer: Producer | None = None, **question: Any) -> Json:
        answer = self._process.ask({"ask": ask, **question})
        for batch in answer["batches"]:
            records = [(base64_bytes(k), None if v is None else base64_bytes(v)) for k, v in batch]
            self.log.append(records, self._now_ms, producer)
        for name, response in answer["done"].items():
            is_join = name.startswith("JoinGroup")
            self._waiting.pop(name).complete(
                read_joined(response) if is_join else read_synced(response)
            )
        self.groups, self.timers, self.fired = answer["groups"], answer["timers"], answer["fired"]
        self.refusals = answer["refusals"]
        ids = [raw for raw in map(base64_bytes, answer["drawn"]) if len(raw) == _ID_BYTES]
        self.drawn = [UUID(bytes=raw, version=4) for raw in ids]
        return answer
