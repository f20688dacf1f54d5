"""Random requests to groups of both protocols, drawn from a seed and from what was answered.

What docs/simulate.md says that the model does not do is left out, each where it stands here; the
rest is held to Kafka as it is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.java_hash import in_hash_order
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ErrorCode,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.records.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tests.shard_oracle.comparison import (
    SUBSCRIPTIONS,
    Compared,
    Comparison,
    KnownDifference,
    Settings,
)
from tests.shard_oracle.kafka_shard import KafkaShard
from tests.shard_oracle.replay_comparison import ReplayComparison
from tests.shard_oracle.shard_process import ShardError, ShardProcess

MAX_CLIENTS: Final = 8
REBALANCE_MS: Final = 20_000
INSTANCE_IDS: Final = (None, None, "one", "two")
PROTOCOLS: Final = (("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("other",))
PROTOCOL_WEIGHTS: Final = (6, 2, 2, 1)
REFUSALS: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
)
_PROTOCOL_VERSION: Final = 1
_GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


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

    owned: Mapping[UUID, frozenset[int]] = field(default_factory=dict)

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Learn from an answer; whether it goes on as a member."""
        if answer.error_code is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assigned is not None:
                self.owned = answer.assigned
        return answer.error_code not in _GONE


@dataclass(kw_only=True, eq=False)
class ClassicClient(Client):
    """Of the classic protocol; its joins and syncs are answered some time."""

    topics: tuple[str, ...]
    owned: Mapping[str, list[int]] = field(default_factory=dict)
    join: Reply[JoinGroupResponse] | None = None
    sync: Reply[SyncGroupResponse] | None = None

    def subscription(self, owned: Mapping[str, list[int]]) -> bytes:
        """Its metadata under each protocol."""
        partitions = [{"topic": topic, "partitions": ps} for topic, ps in owned.items()]
        fields = {"topics": list(self.topics), "userData": None, "ownedPartitions": partitions}
        return encode_subscription(fields, _PROTOCOL_VERSION)

    def hear(self) -> bool:
        """Learn from what has been answered; whether it goes on, as a member or to be one."""
        error_codes = []
        if self.join is not None and self.join.is_done:
            joined, self.join = self.join.get(), None
            error_codes.append(joined.error_code)
            if joined.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id, self.epoch = joined.member_id, joined.generation_id
        if self.sync is not None and self.sync.is_done:
            synced, self.sync = self.sync.get(), None
            error_codes.append(synced.error_code)
            if synced.error_code is ErrorCode.NONE:
                assigned = decode_assignment(synced.assignment)["assignedPartitions"]
                self.owned = {topic["topic"]: list(topic["partitions"]) for topic in assigned}
        is_known = bool(self.member_id) or self.join is not None
        return is_known and not any(code in _GONE for code in error_codes)


def assignment(partitions: Mapping[str, list[int]]) -> bytes:
    """What a leader gives to a member.

    A topic without partitions is left out: of such a one a broker writes an empty list where the
    group becomes a consumer group.
    """
    topics = [{"topic": topic, "partitions": ps} for topic, ps in partitions.items() if ps]
    return encode_assignment({"assignedPartitions": topics, "userData": None}, _PROTOCOL_VERSION)


@dataclass
class RandomSequence:
    """A coordinator of one or two groups, and `step` after step what clients ask of it.

    The model is compared with it, or if it `replays`, what the reference loader makes of its log.
    """

    process: ShardProcess
    seed: int
    replays: bool = False
    consumers: list[ConsumerClient] = field(default_factory=list)
    classics: list[ClassicClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._choose = random.Random(self.seed)
        self._settings = Settings.draw(self._choose)
        self._stale: dict[str, int] = {}
        self._open_producers: set[Producer] = set()
        process, settings, seed = self.process, self._settings, self.seed
        self.comparison: Compared = (
            ReplayComparison(process, settings, seed)
            if self.replays
            else Comparison(process, settings, seed, self._known_difference)
        )
        self._actions: dict[Callable[[], None], int] = {
            self._join_consumer: 10,
            self._heartbeat_consumer: 30,
            self._leave_consumer: 7,
            self._join_classic: 13,
            self._rejoin_classic: 15,
            self._sync_classic: 12,
            self._heartbeat_classic: 5,
            self._leave_classic: 3,
            self._commit: 5,
            self._end_transaction: 2,
            self._fetch: 3,
            self._delete_offsets: 1,
            self._delete_groups: 1,
            self._expire: 2,
            self._wait: 8,
        }

    def step(self) -> None:
        """Somebody asks for something, or time passes."""
        if self._settings.fails:
            refusal = self._choose.choice(REFUSALS) if self._chance(0.15) else ErrorCode.NONE
            if refusal is not self.comparison.refusal:
                self.comparison.refuse(refusal)
        (action,) = self._choose.choices(list(self._actions), list(self._actions.values()))
        action()
        if self._chance(0.2):
            self._wait()
        self.classics = [client for client in self.classics if client.hear()]

    def _known_difference(self, kafka: KafkaShard) -> str | None:
        for group_id in self._settings.group_ids:
            group = kafka.groups.get(group_id, {"type": None, "members": []})
            due_ms = kafka.timers.get(f"join-{group_id}")
            # A join timer that outlives its group, which was converted or never could be stored,
            # and finds a classic group again.
            if due_ms is not None and group["type"] != "classic":
                self._stale[group_id] = due_ms
            elif due_ms is not None and due_ms == self._stale.get(group_id):
                return "the join timer of a classic group of before"
            if self._settings.is_uniform and _share_a_bucket(group["members"]):
                return "members of one bucket, between which the uniform assignor chooses"
        return None

    def _chance(self, share: float) -> bool:
        return self._choose.random() < share

    def _perhaps_another(self, epoch: int) -> int:
        return epoch + self._choose.choice((-1, 1)) if self._chance(0.1) else epoch

    # --- consumers (KIP-848)

    def _join_consumer(self) -> None:
        group_id = self._choose.choice(self._settings.group_ids)
        if self.classics and self._chance(0.1):
            # A member of the classic protocol comes back with the new one, as itself.
            was = self._choose.choice(self.classics)
            client = ConsumerClient(
                group_id=was.group_id, member_id=was.member_id, instance_id=was.instance_id
            )
        elif len(self.consumers) + len(self.classics) < MAX_CLIENTS:
            client = ConsumerClient(
                group_id=group_id,
                member_id=self._new_id(group_id),
                instance_id=self._choose.choice(INSTANCE_IDS),
            )
        elif self.consumers:
            client = self._choose.choice(self.consumers)
        else:
            return
        if client.member_id:
            self._beat(client, 0)

    def _new_id(self, group_id: str) -> str:
        """An id, if it can be of a bucket of its own, for the order of the uniform assignor."""
        members = self.comparison.kafka.groups.get(group_id, {"members": []})["members"]
        for _ in range(100):
            new = str(UUID(int=self._choose.getrandbits(128), version=4))
            if not _share_a_bucket([*members, new]):
                break
        return new

    def _heartbeat_consumer(self) -> None:
        if not self.consumers:
            return
        client = self._choose.choice(self.consumers)
        epoch = self._perhaps_another(client.epoch)
        if epoch <= 0 or self._chance(0.05):
            self._beat(client, 0)
            return
        request: dict[str, Any] = {}
        if self._chance(0.15) and not self._settings.is_uniform:
            request["subscribed_topics"] = self._choose.choice(SUBSCRIPTIONS)
        if self._chance(0.05):
            request["server_assignor"] = self._assignor()
        if self._chance(0.7):
            request["owned"] = client.owned
        elif self._chance(0.3):
            request["owned"] = {}
        self._beat(client, epoch, **request)

    def _leave_consumer(self) -> None:
        if self.consumers:
            client = self._choose.choice(self.consumers)
            is_back_soon = client.instance_id is not None and self._chance(0.6)
            self._beat(client, -2 if is_back_soon else -1)

    def _beat(self, client: ConsumerClient, epoch: int, **request: Any) -> None:
        if epoch == 0:
            request = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topics": self._subscription(),
                "server_assignor": self._assignor(),
                "owned": {},
            }
        # A member stays with its instance id: a broker would go on knowing it by the old one too.
        instance_id = None if epoch > 0 and self._chance(0.05) else client.instance_id
        answer = self.comparison.ask(
            "consumer_group_heartbeat",
            ConsumerGroupHeartbeatRequest(
                group_id=client.group_id,
                member_id=client.member_id,
                member_epoch=epoch,
                group_instance_id=instance_id,
                **request,
            ),
        )
        goes_on = client.hear(answer) and client.epoch > 0
        if goes_on and client not in self.consumers:
            self.consumers.append(client)
        elif not goes_on and client in self.consumers:
            self.consumers.remove(client)

    def _subscription(self) -> tuple[str, ...]:
        return ("t", "u") if self._settings.is_uniform else self._choose.choice(SUBSCRIPTIONS)

    def _assignor(self) -> str | None:
        if not self._settings.is_uniform:
            return "range"
        return self._choose.choice((None, "uniform", "range"))

    # --- classic members

    def _join_classic(self) -> None:
        if len(self.consumers) + len(self.classics) < MAX_CLIENTS:
            client = ClassicClient(
                group_id=self._choose.choice(self._settings.group_ids),
                instance_id=self._choose.choice(INSTANCE_IDS),
                topics=self._subscription(),
            )
            self.classics.append(client)
            self._join(client)

    def _rejoin_classic(self) -> None:
        client = self._any_classic()
        if client is None:
            return
        held = self.comparison.kafka.groups.get(client.group_id, {"type": "classic", "members": []})
        if held["type"] == "consumer" and not held["members"] and not self._settings.forgets:
            return
        if self._chance(0.15):
            client.topics = self._subscription()
        self._join(client)

    def _join(self, client: ClassicClient) -> None:
        metadata = client.subscription(client.owned if self._chance(0.7) else {})
        (names,) = self._choose.choices(PROTOCOLS, PROTOCOL_WEIGHTS)
        version = self._choose.choice((3, 5, 9))
        client.join = self.comparison.ask(
            "join_group",
            JoinGroupRequest(
                group_id=client.group_id,
                member_id=client.member_id,
                group_instance_id=client.instance_id,
                protocol_type="connect" if self._chance(0.02) else "consumer",
                protocols=tuple((name, metadata) for name in names),
                rebalance_timeout_ms=REBALANCE_MS,
                requires_known_member_id=version > 3,
                supports_skipping_assignment=version == 9,
            ),
        )

    def _sync_classic(self) -> None:
        client = self._any_classic()
        if client is None:
            return
        held = self.comparison.kafka.groups.get(client.group_id, {"type": "", "members": []})
        assignments = {}
        if held["type"] == "classic":
            members = sorted(held["members"])
            topics = self._settings.topics.by_name
            # A bad leader may give the same to everybody.
            share = 1 if self._chance(0.03) else max(len(members), 1)
            for number, member_id in enumerate(members):
                shares = {
                    topic: [p for p in range(known.partitions) if p % share == number % share]
                    for topic, known in topics.items()
                }
                assignments[member_id] = assignment(shares)
        client.sync = self.comparison.ask(
            "sync_group",
            SyncGroupRequest(
                group_id=client.group_id,
                member_id=client.member_id,
                generation_id=self._perhaps_another(client.epoch),
                group_instance_id=client.instance_id,
                protocol_type=self._choose.choice((None, "consumer", "consumer", "connect")),
                protocol_name="sticky" if self._chance(0.05) else None,
                assignments=assignments,
            ),
        )

    def _heartbeat_classic(self) -> None:
        client = self._any_classic()
        if client is not None:
            epoch = self._perhaps_another(client.epoch)
            instance_id = "unknown" if self._chance(0.1) else client.instance_id
            self.comparison.ask("heartbeat", client.group_id, client.member_id, epoch, instance_id)

    def _leave_classic(self) -> None:
        """Some leave in one request, whichever protocol they speak; or an administrator's does."""
        clients: list[Client] = [*self.classics, *self.consumers]
        group_id = self._choose.choice(self._settings.group_ids)
        known = [c for c in clients if c.group_id == group_id and c.member_id]
        leaving = self._choose.sample(known, min(len(known), self._choose.choice((1, 1, 1, 2))))
        identities = [
            MemberIdentity(
                member_id="" if client.instance_id and self._chance(0.3) else client.member_id,
                group_instance_id=client.instance_id,
            )
            for client in leaving
        ]
        if self._chance(0.1):
            identities.append(MemberIdentity(member_id="nobody"))
        if identities:
            self.comparison.ask("leave_group", group_id, identities)

    def _any_classic(self) -> ClassicClient | None:
        known = [client for client in self.classics if client.member_id]
        return self._choose.choice(known) if known else None

    # --- offsets and groups

    def _commit(self) -> None:
        """In the name of one of the clients, or of nobody; some in a transaction."""
        clients: list[Client] = [*self.classics, *self.consumers]
        client = Client(group_id=self._choose.choice(self._settings.group_ids))
        if clients and self._chance(0.8):
            client = self._choose.choice(clients)
        request = OffsetCommitRequest(
            group_id=client.group_id,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            generation_id=self._perhaps_another(client.epoch),
            version=self._choose.choice((8, 9)),
            offsets=[
                OffsetToCommit(
                    topic=topic,
                    partition=self._choose.randrange(2),
                    committed_offset=self._choose.randrange(100),
                    leader_epoch=self._choose.choice((-1, 5)),
                    metadata=self._choose.choice(("", "somebody's")),
                )
                for topic in self._choose.choice(SUBSCRIPTIONS)
            ],
        )
        if self._chance(0.4):
            producer = Producer(self._choose.randrange(2), 0)
            self._open_producers.add(producer)
            self.comparison.ask("commit_offsets", request, producer)
        else:
            self.comparison.ask("commit_offsets", request)

    def _end_transaction(self) -> None:
        """One of those that are open."""
        if self._open_producers:
            producer = self._choose.choice(sorted(self._open_producers))
            self._open_producers.remove(producer)
            self.comparison.ask("end_transaction", producer, is_commit=self._chance(0.6))

    def _fetch(self) -> None:
        """All that a group has."""
        group_id = self._choose.choice(self._settings.group_ids)
        is_stable = self._settings.forgets or self._chance(0.5)
        self.comparison.ask("fetch_offsets", group_id, require_stable=is_stable)

    def _delete_offsets(self) -> None:
        """Of both topics."""
        group_id = self._choose.choice(self._settings.group_ids)
        partitions = [(topic, self._choose.randrange(2)) for topic in ("t", "u")]
        self.comparison.ask("delete_offsets", group_id, partitions)

    def _delete_groups(self) -> None:
        """One of them."""
        self.comparison.ask("delete_groups", [self._choose.choice(self._settings.group_ids)])

    def _expire(self) -> None:
        """Have a look at what has expired."""
        self.comparison.ask("expire_offsets")

    # --- time

    def _wait(self) -> None:
        self.comparison.wait(self._choose.choice(self._settings.waits_ms))


def _share_a_bucket(member_ids: Sequence[str]) -> bool:
    """Whether it matters to a Java hash map in which order these came."""
    return in_hash_order(member_ids) != in_hash_order(reversed(member_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a sequence went: `error` where the two were not of one mind, after the last of `steps`.

    `known` is why it was ended early, `seen` counts what came about.
    """

    seed: int
    steps: list[str]
    seen: Counter[str]
    error: Exception | None = None
    known: str | None = None

    def __str__(self) -> str:
        lines = [f"seed {self.seed}:", *(f"  {step}" for step in self.steps)]
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {self.error}")
        return "\n".join(lines)


def run_sequence(process: ShardProcess, seed: int, steps: int, *, replays: bool = False) -> Outcome:
    """Put a sequence to Kafka, and to the model or the loader, up to the first difference."""
    sequence = RandomSequence(process, seed, replays)
    outcome = Outcome(seed=seed, steps=sequence.comparison.steps, seen=sequence.comparison.seen)
    try:
        for _ in range(steps):
            sequence.step()
        if isinstance(sequence.comparison, ReplayComparison):
            sequence.comparison.load_again()
    except KnownDifference as known:
        return replace(outcome, known=str(known))
    except ShardError:
        raise
    except Exception as error:  # noqa: BLE001 - a model that fails differs as well
        return replace(outcome, error=error)
    return outcome
