"""Kafka's own coordinator shard, which answers requests in Kafka's JSON of its messages.

What GroupCoordinatorService refuses before the shard hears of it (empty ids, time-outs out of
bounds) is not looked at here.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.log import CoordinatorLog, Producer
from coordinator_state.model.topics import Topic
from coordinator_state.wire.primitives import uuid_text
from tests.shard_oracle.shard_process import Json, ShardProcess

# Assign within the request, as brokers before 4.3 do; those know none of these names.
_AT_ONCE: Final = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.assignor.offload.enable": False,
}


@dataclass(slots=True, eq=False)
class Reply:
    """The future answer to a request: a join waits for other members, a sync for the leader."""

    answer: Json | None = None


class KafkaShard:
    """A coordinator of one log partition that begins with an empty log.

    `log` is what it wrote, `groups` what it holds after the last question, as JSON.
    """

    def __init__(
        self,
        process: ShardProcess,
        *,
        properties: Mapping[str, Any],
        topics: Mapping[str, Topic],
        seed: int,
        now_ms: int,
    ) -> None:
        self._process = process
        self._waiting: dict[str, Reply] = {}
        self._asked = 0
        self._now_ms = now_ms
        self.log = CoordinatorLog()
        self.groups: Json = {}
        process.ask(
            {
                "ask": "Start",
                "nowMs": now_ms,
                "seed": seed,
                "config": {**properties, **_AT_ONCE},
                "topics": {
                    name: {"id": uuid_text(topic.topic_id), "partitions": topic.partitions}
                    for name, topic in topics.items()
                },
            }
        )

    # --- time, and what becomes of appends

    def advance(self, now_ms: int) -> None:
        """Let time pass."""
        self._now_ms = now_ms
        self._put("Advance", nowMs=now_ms)

    def refuse(self, error_code: int) -> None:
        """Have appends meet with an error, until it is 0 again."""
        self._put("Refuse", errorCode=error_code)

    def replay(self, records: Iterable[Json]) -> None:
        """Load a log into an empty shard."""
        self._put("Replay", records=list(records))

    def expire_offsets(self) -> None:
        """Expire offsets now."""
        self._put("Expire")

    # --- requests

    def ask(self, api: str, version: int, message: Json, producer: Producer | None = None) -> Json:
        """Send a request; returns the response, or only its `errorCode` if it was refused."""
        answer = self._put(api, producer, version=version, clientId="", data=message)
        if answer["errorCode"]:
            return {"errorCode": answer["errorCode"]}
        response: Json = answer["response"]
        return response

    def begin(self, api: str, version: int, message: Json) -> Reply:
        """Send a request that the coordinator answers later."""
        self._asked += 1
        name, reply = f"{api} {self._asked}", Reply()
        self._waiting[name] = reply
        self._put(api, id=name, version=version, clientId="consumer", data=message)
        return reply

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        """End a producer's transaction, and write its marker."""
        self._put(
            "EndTransaction",
            producerId=producer.producer_id,
            producerEpoch=producer.producer_epoch,
            isCommit=is_commit,
        )
        self.log.append_marker(producer, int(is_commit), self._now_ms)

    def offsets(self, group_id: str, *, require_stable: bool) -> dict[tuple[str, int], Json]:
        """All that OffsetFetch answers about a group, by topic and partition."""
        # The shard looks at the log offset, and not at `requireStable`.
        end = {"lastCommittedOffset": self.log.next_offset}
        request = {"groupId": group_id, "requireStable": require_stable, **end}
        (group,) = self.ask("OffsetFetch", 8, request)["groups"]
        assert not group["errorCode"]
        return {
            (topic["name"], partition["partitionIndex"]): partition
            for topic in group["topics"]
            for partition in topic["partitions"]
        }

    def _put(self, ask: str, producer: Producer | None = None, **question: Any) -> Json:
        """Put a question to the process, and take over what the shard wrote and holds."""
        answer = self._process.ask({"ask": ask, **question})
        for batch in answer["batches"]:
            records = [(b64decode(k), None if v is None else b64decode(v)) for k, v in batch]
            self.log.append(records, self._now_ms, producer)
        for name, response in answer["done"].items():
            self._waiting.pop(name).answer = response
        self.groups = answer["groups"]
        return answer


def topic_partitions(assigned: Iterable[tuple[UUID, Iterable[int]]]) -> list[Json]:
    """Partitions in Kafka's JSON."""
    return [{"topicId": uuid_text(i), "partitions": sorted(ps)} for i, ps in assigned]
