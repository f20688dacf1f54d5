"""Kafka's own coordinator shard, asked as the model is: the same requests, the same answers.

Requests go in by Kafka's JSON of its messages. What GroupCoordinatorService refuses before the
shard hears of it (empty ids, timeouts out of bounds) is not looked at here; the model's rules for
that are held to whole brokers and in unit tests.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.log import CoordinatorLog, Producer
from coordinator_state.model.requests import ErrorCode, LeaveGroupResponse, MemberIdentity, Reply
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topics
from coordinator_state.wire.primitives import uuid_from_text, uuid_text
from tests.shard_oracle.shard_process import Json, ShardProcess
from tests.support.clients.kafka_requests import KafkaRequests, Message, Read

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
_BYTES: Final = {("JoinGroup", "metadata"), ("SyncGroup", "assignment")}
"""The fields of responses that are bytes."""
_ID_BYTES: Final = 16


class KafkaShard(KafkaRequests):
    """A coordinator of one log partition that begins with an empty log.

    `log` is what it wrote, `groups` what it holds after the last question, as JSON; `drawn` the
    ids that it drew and `fired` the timers that went off in answering it, `timers` when those that
    are left are due, and `refusals` what was thrown.
    """

    # Of transactions of version 2 (KIP-890).
    txn_offset_commit_version = 4

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
        self._waiting: dict[str, tuple[Reply[Any], Read]] = {}
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
        self._put("Advance", nowMs=now_ms, order=list(order))

    def refuse(self, error_code: ErrorCode) -> None:
        """Have appends meet with an error, until it is NONE again."""
        self._put("Refuse", errorCode=int(error_code))

    def replay(self, records: Iterable[Json]) -> None:
        """Load a log into an empty shard."""
        self._put("Replay", records=list(records))

    def expire_offsets(self) -> None:
        """Expire offsets now."""
        self._put("Expire")

    # --- requests

    def leave_group(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        answer = super().leave_group(group_id, members)
        if answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            # There is no such group: the service says so of every member.
            return LeaveGroupResponse(members=(answer.error_code,) * len(members))
        return answer

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        fields = _to_json(producer._asdict())
        self._put("EndTransaction", **fields, isCommit=is_commit)
        self.log.append_marker(producer, int(is_commit), self._now_ms)

    def _begin(
        self, api: str, version: int, message: Message, read: Read, client_id: str = ""
    ) -> Reply[Any]:
        self._asked += 1
        name, reply = f"{api} {self._asked}", Reply[Any]()
        self._waiting[name] = reply, read
        # An instance id came with version 5; the shard does not ask for the version there.
        self._put(api, id=name, version=version, clientId=client_id, data=_to_json(message))
        return reply

    def _ask(self, api: str, version: int, message: Message, client_id: str = "") -> Message:
        producer = None
        if api == "TxnOffsetCommit":
            producer = Producer(message["producer_id"], message["producer_epoch"])
        elif api == "OffsetFetch":
            # The shard looks at the log offset, and not at `requireStable`.
            (group,) = message["groups"]
            message = {**message, **group, "last_committed_offset": self.log.next_offset}
        data = _to_json(message)
        answer = self._put(api, producer, version=version, clientId=client_id, data=data)
        if answer["errorCode"]:
            return {"error_code": answer["errorCode"]}
        response: Message = _from_json(api, answer["response"])
        return response

    def _put(self, ask: str, producer: Producer | None = None, **question: Any) -> Json:
        """Put a question to the process, and take over what the shard wrote and holds."""
        answer = self._process.ask({"ask": ask, **question})
        for batch in answer["batches"]:
            records = [(b64decode(k), None if v is None else b64decode(v)) for k, v in batch]
            self.log.append(records, self._now_ms, producer)
        for name, response in answer["done"].items():
            reply, read = self._waiting.pop(name)
            reply.complete(read(_from_json(name.partition(" ")[0], response)))
        self.groups, self.timers, self.fired = answer["groups"], answer["timers"], answer["fired"]
        self.refusals = answer["refusals"]
        ids = [raw for raw in map(b64decode, answer["drawn"]) if len(raw) == _ID_BYTES]
        self.drawn = [UUID(bytes=raw, version=4) for raw in ids]
        return answer


def _to_json(value: Any) -> Any:
    """A message in Kafka's JSON: names in camel case, bytes in base64."""
    if isinstance(value, dict):
        return {_camel_case(name): _to_json(field) for name, field in value.items()}
    if isinstance(value, list):
        return [_to_json(element) for element in value]
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return uuid_text(value) if isinstance(value, UUID) else value


def _from_json(api: str, value: Any, name: str = "") -> Any:
    """A response, or a field of it, from Kafka's JSON."""
    if isinstance(value, dict):
        return {
            _snake_case(name_of_field): _from_json(api, field, name_of_field)
            for name_of_field, field in value.items()
        }
    if isinstance(value, list):
        return [_from_json(api, element, name) for element in value]
    if (api, name) in _BYTES:
        return b64decode(value)
    return uuid_from_text(value) if name == "topicId" else value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _snake_case(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()
