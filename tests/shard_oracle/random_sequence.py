"""Random requests to groups of both protocols, drawn from a seed and from what was answered."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.log import Producer
from coordinator_state.records.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from coordinator_state.wire.primitives import uuid_from_text
from tests.shard_oracle.comparison import SUBSCRIPTIONS, Comparison, Settings
from tests.shard_oracle.kafka_shard import Reply, topic_partitions
from tests.shard_oracle.shard_process import Json, ShardError, ShardProcess

MAX_CLIENTS: Final = 8
REBALANCE_MS: Final = 20_000
SESSION_MS: Final = 45_000
INSTANCE_IDS: Final = (None, None, "one", "two")
PROTOCOLS: Final = (("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("other",))
PROTOCOL_WEIGHTS: Final = (6, 2, 2, 1)
REFUSALS: Final = (19, 6, 10)
"""NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER and MESSAGE_TOO_LARGE."""
_NONE: Final = 0
_MEMBER_ID_REQUIRED: Final = 79
_GONE: Final = (25, 82)
"""UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID."""
_PROTOCOL_VERSION: Final = 1


@dataclass(kw_only=True, eq=False)
class Client:
    """A member, or who wants to be one: `epoch` is its member epoch, or its generation."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1


@dataclass(kw_only=True, eq=False)
class ConsumerClient(Client):
    """Of the new protocol (KIP-848)."""

    owned: Mapping[UUID, list[int]] = field(default_factory=dict)

    def hear(self, answer: Json) -> bool:
        """Learn from an answer; whether it goes on as a member."""
        if answer["errorCode"] == _NONE:
            self.epoch = answer["memberEpoch"]
            if answer["assignment"] is not None:
                topics = answer["assignment"]["topicPartitions"]
                self.owned = {uuid_from_text(t["topicId"]): t["partitions"] for t in topics}
        return answer["errorCode"] not in _GONE


@dataclass(kw_only=True, eq=False)
class ClassicClient(Client):
    """Of the classic protocol; its joins and syncs are answered some time."""

    topics: tuple[str, ...]
    owned: Mapping[str, list[int]] = field(default_factory=dict)
    join: Reply | None = None
    sync: Reply | None = None

    def subscription(self, owned: Mapping[str, list[int]]) -> bytes:
        """Its metadata under each protocol."""
        partitions = [{"topic": topic, "partitions": ps} for topic, ps in owned.items()]
        fields = {"topics": list(self.topics), "userData": None, "ownedPartitions": partitions}
        return encode_subscription(fields, _PROTOCOL_VERSION)

    def hear(self) -> bool:
        """Learn from what has been answered; whether it goes on, as a member or to be one."""
        error_codes = []
        if self.join is not None and self.join.answer is not None:
            joined, self.join = self.join.answer, None
            error_codes.append(joined["errorCode"])
            if joined["errorCode"] in (_NONE, _MEMBER_ID_REQUIRED):
                self.member_id, self.epoch = joined["memberId"], joined["generationId"]
        if self.sync is not None and self.sync.answer is not None:
            synced, self.sync = self.sync.answer, None
            error_codes.append(synced["errorCode"])
            if synced["errorCode"] == _NONE:
                assigned = decode_assignment(b64decode(synced["assignment"]))["assignedPartitions"]
                self.owned = {topic["topic"]: list(topic["partitions"]) for topic in assigned}
        is_known = bool(self.member_id) or self.join is not None
        return is_known and not any(code in _GONE for code in error_codes)


def assignment(partitions: Mapping[str, list[int]]) -> str:
    """What a leader gives to a member."""
    topics = [{"topic": topic, "partitions": ps} for topic, ps in partitions.items()]
    fields = {"assignedPartitions": topics, "userData": None}
    return b64encode(encode_assignment(fields, _PROTOCOL_VERSION)).decode()


@dataclass
class RandomSequence:
    """A coordinator of one or two groups, and `step` after step what clients ask of it."""

    process: ShardProcess
    seed: int
    consumers: list[ConsumerClient] = field(default_factory=list)
    classics: list[ClassicClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._choose = random.Random(self.seed)
        self._settings = Settings.draw(self._choose)
        self._open_producers: set[Producer] = set()
        self.comparison = Comparison(self.process, self._settings, self.seed)
        self._actions: dict[Callable[[], None], int] = {
            self._join_consumer: 10,
            self._heartbeat_consumer: 30,
            self._leave_consumer: 7,
            self._join_classic: 13,
            self._rejoin_classic: 15,
            self._sync_classic: 12,
            self._heartbeat_classic: 5,
            self._leave_classic: 3,
            self._commit: 12,
            self._end_transaction: 5,
            self._delete_offsets: 1,
            self._delete_groups: 1,
            self._expire: 2,
            self._wait: 8,
        }

    def step(self) -> None:
        """Somebody asks for something, or time passes."""
        if self._settings.fails:
            refusal = self._choose.choice(REFUSALS) if self._chance(0.15) else _NONE
            if refusal != self.comparison.refusal:
                self.comparison.refuse(refusal)
        (action,) = self._choose.choices(list(self._actions), list(self._actions.values()))
        action()
        if self._chance(0.2):
            self._wait()
        self.classics = [client for client in self.classics if client.hear()]

    def _chance(self, share: float) -> bool:
        return self._choose.random() < share

    def _perhaps_another(self, epoch: int) -> int:
        return epoch + self._choose.choice((-1, 1)) if self._chance(0.1) else epoch

    def _group_id(self) -> str:
        return self._choose.choice(self._settings.group_ids)

    # --- consumers (KIP-848)

    def _join_consumer(self) -> None:
        if self.classics and self._chance(0.1):
            # A member of the classic protocol comes back with the new one, as itself.
            was = self._choose.choice(self.classics)
            client = ConsumerClient(
                group_id=was.group_id, member_id=was.member_id, instance_id=was.instance_id
            )
        elif len(self.consumers) + len(self.classics) < MAX_CLIENTS:
            client = ConsumerClient(
                group_id=self._group_id(),
                member_id=str(UUID(int=self._choose.getrandbits(128), version=4)),
                instance_id=self._choose.choice(INSTANCE_IDS),
            )
        elif self.consumers:
            client = self._choose.choice(self.consumers)
        else:
            return
        if client.member_id:
            self._beat(client, 0)

    def _heartbeat_consumer(self) -> None:
        if not self.consumers:
            return
        client = self._choose.choice(self.consumers)
        epoch = self._perhaps_another(client.epoch)
        if epoch <= 0 or self._chance(0.05):
            self._beat(client, 0)
            return
        request: Json = {}
        if self._chance(0.15):
            request["subscribedTopicNames"] = self._choose.choice(SUBSCRIPTIONS)
        if self._chance(0.05):
            request["serverAssignor"] = self._assignor()
        if self._chance(0.7):
            request["topicPartitions"] = topic_partitions(client.owned.items())
        elif self._chance(0.3):
            request["topicPartitions"] = []
        self._beat(client, epoch, **request)

    def _leave_consumer(self) -> None:
        if self.consumers:
            client = self._choose.choice(self.consumers)
            is_back_soon = client.instance_id is not None and self._chance(0.6)
            self._beat(client, -2 if is_back_soon else -1)

    def _beat(self, client: ConsumerClient, epoch: int, **request: Any) -> None:
        if epoch == 0:
            request = {
                "rebalanceTimeoutMs": REBALANCE_MS,
                "subscribedTopicNames": self._choose.choice(SUBSCRIPTIONS),
                "serverAssignor": self._assignor(),
                "topicPartitions": [],
            }
        message = {
            "groupId": client.group_id,
            "memberId": client.member_id,
            "memberEpoch": epoch,
            # A member stays with its instance id: a broker goes on knowing it by the old one too.
            "instanceId": None if epoch > 0 and self._chance(0.05) else client.instance_id,
            "rackId": None,
            "rebalanceTimeoutMs": -1,
            "subscribedTopicNames": None,
            "subscribedTopicRegex": None,
            "serverAssignor": None,
            "topicPartitions": None,
            **request,
        }
        answer = self.comparison.ask("ask", "ConsumerGroupHeartbeat", 1, message)
        goes_on = client.hear(answer) and client.epoch > 0
        if goes_on and client not in self.consumers:
            self.consumers.append(client)
        elif not goes_on and client in self.consumers:
            self.consumers.remove(client)

    def _assignor(self) -> str | None:
        return self._choose.choice((None, "uniform", "range"))

    # --- classic members

    def _join_classic(self) -> None:
        if len(self.consumers) + len(self.classics) < MAX_CLIENTS:
            client = ClassicClient(
                group_id=self._group_id(),
                instance_id=self._choose.choice(INSTANCE_IDS),
                topics=self._choose.choice(SUBSCRIPTIONS),
            )
            self.classics.append(client)
            self._join(client)

    def _rejoin_classic(self) -> None:
        client = self._any_classic()
        if client is None:
            return
        if self._chance(0.15):
            client.topics = self._choose.choice(SUBSCRIPTIONS)
        self._join(client)

    def _join(self, client: ClassicClient) -> None:
        metadata = client.subscription(client.owned if self._chance(0.7) else {})
        (names,) = self._choose.choices(PROTOCOLS, PROTOCOL_WEIGHTS)
        encoded = b64encode(metadata).decode()
        message = {
            "groupId": client.group_id,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id,
            "protocolType": "connect" if self._chance(0.02) else "consumer",
            "protocols": [{"name": name, "metadata": encoded} for name in names],
            "sessionTimeoutMs": SESSION_MS,
            "rebalanceTimeoutMs": REBALANCE_MS,
            "reason": None,
        }
        # Up to version 3 a new member keeps its id; since version 9 a leader may skip assigning.
        client.join = self.comparison.ask(
            "begin", "JoinGroup", self._choose.choice((3, 8, 9)), message
        )

    def _sync_classic(self) -> None:
        client = self._any_classic()
        if client is None:
            return
        held = self.comparison.kafka.groups.get(client.group_id, {"type": "", "members": []})
        assignments = []
        if held["type"] == "classic":
            members = sorted(held["members"])
            # A bad leader may give the same to everybody.
            share = 1 if self._chance(0.03) else max(len(members), 1)
            for number, member_id in enumerate(members):
                shares = {
                    topic: [p for p in range(known.partitions) if p % share == number % share]
                    for topic, known in self._settings.topics.items()
                }
                assignments.append({"memberId": member_id, "assignment": assignment(shares)})
        message = {
            "groupId": client.group_id,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id,
            "generationId": self._perhaps_another(client.epoch),
            "protocolType": self._choose.choice((None, "consumer", "consumer", "connect")),
            "protocolName": "sticky" if self._chance(0.05) else None,
            "assignments": assignments,
        }
        client.sync = self.comparison.ask("begin", "SyncGroup", 5, message)

    def _heartbeat_classic(self) -> None:
        client = self._any_classic()
        if client is not None:
            message = {
                "groupId": client.group_id,
                "memberId": client.member_id,
                "generationId": self._perhaps_another(client.epoch),
                "groupInstanceId": "unknown" if self._chance(0.1) else client.instance_id,
            }
            self.comparison.ask("ask", "Heartbeat", 4, message)

    def _leave_classic(self) -> None:
        """Some leave in one request, whichever protocol they speak; or an administrator's does."""
        group_id = self._group_id()
        clients = [*self.classics, *self.consumers]
        known = [c for c in clients if c.group_id == group_id and c.member_id]
        leaving = self._choose.sample(known, min(len(known), self._choose.choice((1, 1, 1, 2))))
        members = [
            {
                "memberId": "" if client.instance_id and self._chance(0.3) else client.member_id,
                "groupInstanceId": client.instance_id,
                "reason": None,
            }
            for client in leaving
        ]
        if self._chance(0.1):
            members.append({"memberId": "nobody", "groupInstanceId": None, "reason": None})
        if members:
            message = {"groupId": group_id, "members": members}
            self.comparison.ask("ask", "LeaveGroup", 5, message)

    def _any_classic(self) -> ClassicClient | None:
        known = [client for client in self.classics if client.member_id]
        return self._choose.choice(known) if known else None

    # --- offsets and groups

    def _commit(self) -> None:
        """In the name of one of the clients, or of nobody; some in a transaction."""
        clients: list[Client] = [*self.classics, *self.consumers]
        client = Client(group_id=self._group_id())
        if clients and self._chance(0.8):
            client = self._choose.choice(clients)
        epoch = self._perhaps_another(client.epoch)
        message: Json = {
            "groupId": client.group_id,
            "memberId": client.member_id,
            "groupInstanceId": client.instance_id,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partitionIndex": self._choose.randrange(2),
                            "committedOffset": self._choose.randrange(100),
                            "committedLeaderEpoch": self._choose.choice((-1, 5)),
                            "committedMetadata": self._choose.choice(("", "somebody's")),
                        }
                    ],
                }
                for topic in self._choose.choice(SUBSCRIPTIONS)
            ],
        }
        if not self._chance(0.4):
            message["generationIdOrMemberEpoch"] = epoch
            version = self._choose.choice((8, 9))
            self.comparison.ask("ask", "OffsetCommit", version, message)
            return
        producer = Producer(self._choose.randrange(2), 0)
        self._open_producers.add(producer)
        message |= {
            "transactionalId": f"transaction of {producer.producer_id}",
            "producerId": producer.producer_id,
            "producerEpoch": producer.producer_epoch,
            # It has another name since Kafka 4.4.
            "generationId": epoch,
            "generationIdOrMemberEpoch": epoch,
        }
        # Version 4 is that of transactions of version 2 (KIP-890).
        self.comparison.ask("ask", "TxnOffsetCommit", 4, message, producer)

    def _end_transaction(self) -> None:
        """One of those that are open."""
        if self._open_producers:
            producer = self._choose.choice(sorted(self._open_producers))
            self._open_producers.remove(producer)
            self.comparison.ask("end_transaction", producer, is_commit=self._chance(0.6))

    def _delete_offsets(self) -> None:
        """Of both topics."""
        topics = [
            {"name": topic, "partitions": [{"partitionIndex": self._choose.randrange(2)}]}
            for topic in self._settings.topics
        ]
        self.comparison.ask(
            "ask", "OffsetDelete", 0, {"groupId": self._group_id(), "topics": topics}
        )

    def _delete_groups(self) -> None:
        """One of them."""
        self.comparison.ask("ask", "DeleteGroups", 2, {"groupsNames": [self._group_id()]})

    def _expire(self) -> None:
        """Have a look at what has expired."""
        self.comparison.ask("expire_offsets")

    # --- time

    def _wait(self) -> None:
        self.comparison.wait(self._choose.choice(self._settings.waits_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a sequence went: `error` where the two were not of one mind, after the last of `steps`.

    `seen` counts what came about.
    """

    seed: int
    steps: list[str]
    seen: Counter[str]
    error: Exception | None = None

    def __str__(self) -> str:
        lines = [f"seed {self.seed}:", *(f"  {step}" for step in self.steps)]
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {self.error}")
        return "\n".join(lines)


def run_sequence(process: ShardProcess, seed: int, steps: int) -> Outcome:
    """Put a sequence to Kafka, and its log to the loader, up to the first difference."""
    sequence = RandomSequence(process, seed)
    comparison = sequence.comparison
    outcome = Outcome(seed=seed, steps=comparison.steps, seen=comparison.seen)
    try:
        for _ in range(steps):
            sequence.step()
        comparison.load_again()
    except ShardError:
        raise
    except Exception as error:  # noqa: BLE001 - a loader that fails differs as well
        return replace(outcome, error=error)
    return outcome
