"""The same requests put to the model and to Kafka's own coordinator shard, one by one.

Both are told the time, and the model draws the ids that Kafka has drawn, so whatever they say,
write and hold can be compared as it is. Left out is what a broker's hash maps decide, and what the
model does not claim: which member leads next (the model is told), the order of records of members
and offsets in a batch, the number behind a metadata hash, and whether several groups that expire
share a batch.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import CoordinatorLog
from coordinator_state.model.requests import ErrorCode, JoinGroupResponse, Reply, SyncGroupResponse
from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.timers import Action, Timers
from coordinator_state.model.topics import Topic, Topics
from tests.shard_oracle.kafka_shard import KafkaShard
from tests.shard_oracle.shard_process import ShardProcess
from tests.support.clients.comparable_records import assignment_of, records_of
from tests.support.clients.scripted_clients import Names

START_MS: Final = 1_000_000
_TIMER_NAMES: Final = {
    ("join", 2): "join-{}",
    ("sync", 2): "sync-{}",
    ("heartbeat", 3): "heartbeat-{}-{}",
    ("session", 3): "session-timeout-{}-{}",
    ("rebalance", 3): "rebalance-timeout-{}-{}",
    ("rejoin", 3): "join-{}-{}",
    ("resync", 3): "sync-{}-{}",
}
"""Kafka's names of the model's timers."""


# Ids of different buckets of a Java hash map: in one bucket, a map's history decides.
TOPIC_IDS: Final = {"t": UUID(int=1), "u": UUID(int=2)}
SUBSCRIPTIONS: Final = (("t",), ("t", "u"), ("u",), ("t", "missing"))
SHORT_WAITS_MS: Final = (10, 500, 1_500, 3_000, 6_000)
LONG_WAITS_MS: Final = (10_000, 21_000, 46_000, 301_000)
RETENTION_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of one sequence: the cluster, and what its clients never do.

    That is what docs/simulate.md says that the model does otherwise.

    In one that `fails`, appends do now and then. Where it `is_uniform`, all members subscribe to
    the same topics: only then the uniform assignor is Kafka's. Elsewhere everybody names the range
    assignor, which always is.

    A client that `forgets` joins an empty consumer group with an earlier member id. Kafka then
    forgets the group without a record. The group is back if an append fails, and requests for the
    committed state always have it, so no client sends those.
    """

    group_ids: tuple[str, ...]
    config: CoordinatorConfig
    topics: Topics
    waits_ms: tuple[int, ...]
    fails: bool
    forgets: bool
    is_uniform: bool

    @classmethod
    def draw(cls, choose: random.Random) -> Settings:
        """Draw them."""
        fails, is_uniform = choose.random() < 0.3, choose.random() < 0.4
        # A full classic group cannot take back a consumer group whose last member that named an
        # assignor leaves: the default one follows, which is the uniform assignor.
        is_limited = is_uniform and choose.random() < 0.5
        most = {"group_max_size": 2, "consumer_group_max_size": 3} if is_limited else {}
        return cls(
            group_ids=("g",) if choose.random() < 0.7 else ("g", "h"),
            config=CoordinatorConfig(
                group_initial_rebalance_delay_ms=choose.choice((0, 3_000)),
                offsets_retention_ms=RETENTION_MS,
                **most,
            ),
            topics=Topics({t: Topic(i, choose.randrange(1, 9)) for t, i in TOPIC_IDS.items()}),
            waits_ms=SHORT_WAITS_MS + (LONG_WAITS_MS if choose.random() < 0.5 else ()),
            fails=fails,
            forgets=not fails and choose.random() < 0.3,
            is_uniform=is_uniform,
        )


class Difference(AssertionError):
    """The model and Kafka are not of one mind."""

    def __init__(self, subject: str, model: Any, kafka: Any) -> None:
        super().__init__(f"{subject} differ\n  model: {model}\n  Kafka: {kafka}")


def require_same(subject: str, model: Any, kafka: Any) -> None:
    """Raise a Difference unless the two are equal."""
    if model != kafka:
        raise Difference(subject, model, kafka)


class KnownDifference(Exception):
    """From here on the two need not agree, as docs/simulate.md says."""


@dataclass(slots=True)
class _WatchedTimers(Timers):
    """Notes which timers fire."""

    fired: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def schedule(self, name: tuple[str, ...], delay_ms: int, action: Action) -> None:
        def noted() -> None:
            self.kinds[f"{name[0]} timer"] += 1
            self.fired.append(_TIMER_NAMES[name[0], len(name)].format(*name[1:]))
            action()

        # By its name: a dataclass with slots is not the class that super() would look for.
        Timers.schedule(self, name, delay_ms, noted)


class _DrawnIds(random.Random):
    """Draws what another has drawn."""

    drawn: Sequence[UUID] = ()

    def getrandbits(self, k: int, /) -> int:
        assert k == 128
        # Kafka draws again where an id begins with a dash.
        return self.drawn[-1].int


class Compared(ABC):
    """A shard of Kafka whose requests are noted: `steps` are those so far, as they can be read.

    `seen` counts what came about.
    """

    def __init__(self, process: ShardProcess, settings: Settings, seed: int) -> None:
        self.steps: list[str] = []
        self.seen = Counter[str]()
        self.refusal = ErrorCode.NONE
        self.new_shard = lambda: KafkaShard(
            process, config=settings.config, topics=settings.topics, seed=seed, now_ms=START_MS
        )
        self.kafka = self.new_shard()

    @abstractmethod
    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Put a request, compare, and return Kafka's answer."""

    @abstractmethod
    def wait(self, delay_ms: int) -> None:
        """Let time pass, and compare."""

    def refuse(self, error_code: ErrorCode) -> None:
        """Have appends meet with an error, until it is NONE again."""
        self.note("refuse", error_code)
        self.refusal = error_code
        self.kafka.refuse(error_code)

    def note(self, method: str, *arguments: Any, **options: Any) -> None:
        """Add a step."""
        named = (f"{name}={value!r}" for name, value in options.items())
        self.steps.append(f"{method}({', '.join([*map(str, arguments), *named])})")


class Comparison(Compared):
    """Puts each request to both; counts migrations and timers.

    `is_known` says, after each request, why the two may differ from here on, None if not.

    Raises:
        Difference: they answer, write or hold something else.
        KnownDifference: they may do so.
    """

    def __init__(
        self,
        process: ShardProcess,
        settings: Settings,
        seed: int,
        is_known: Callable[[KafkaShard], str | None],
    ) -> None:
        super().__init__(process, settings, seed)
        self.model = GroupCoordinator(config=settings.config, topics=settings.topics)
        self._timers = self.model.shard.timers = _WatchedTimers()
        self.seen = self._timers.kinds
        self._ids = self.model.shard.choose = _DrawnIds()
        self.model.advance(START_MS)
        self._is_known = is_known
        self._waiting: list[tuple[Reply[Any], Reply[Any]]] = []
        self._compared = {"model": 0, "Kafka": 0}
        self._types: dict[str, str] = {}

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Put a request to both; returns Kafka's answer, which is the model's as well."""
        self.note(method, *arguments, **options)
        kafka = getattr(self.kafka, method)(*arguments, **options)
        self._ids.drawn = self.kafka.drawn
        model = getattr(self.model, method)(*arguments, **options)
        self._stop_where_known()
        if isinstance(kafka, Reply):
            self._waiting.append((model, kafka))
        elif method != "expire_offsets" and model != kafka:
            raise Difference("answers", model, (kafka, *self.kafka.refusals))
        self._compare(is_one_batch=method in ("expire_offsets", "leave_group"))
        return kafka

    def wait(self, delay_ms: int) -> None:
        """Let time pass."""
        self.note("wait", delay_ms)
        until_ms = self.model.shard.now_ms + delay_ms
        while self.model.shard.now_ms < until_ms:
            # One after the other, so that what each timer wrote is compared, in its order.
            now_ms = min([until_ms, *self.kafka.timers.values()])
            self._timers.fired.clear()
            self.model.advance(now_ms)
            self.kafka.advance(now_ms, self._timers.fired)
            self._stop_where_known()
            self._compare()

    def refuse(self, error_code: ErrorCode) -> None:
        super().refuse(error_code)
        self.model.log.refusal = error_code

    def _stop_where_known(self) -> None:
        reason = self._is_known(self.kafka)
        if reason is not None:
            raise KnownDifference(reason)

    # --- compared

    def _compare(self, *, is_one_batch: bool = False) -> None:
        model = self._written("model", self.model.log)
        kafka = self._written("Kafka", self.kafka.log)
        if is_one_batch:
            # Members and groups that go together go in the order of a hash map.
            model, kafka = _as_one_batch(model), _as_one_batch(kafka)
        require_same("records", model, kafka)
        self._compare_replies()
        held = self._held()
        require_same("groups", held, _comparable(self.kafka.groups))
        for group_id, group in held.items():
            was = self._types.get(group_id, group["type"])
            if was != group["type"]:
                self.seen[f"{was} to {group['type']}"] += 1
        self._types = {group_id: group["type"] for group_id, group in held.items()}
        self._follow_leaders()

    def _written(self, whose: str, log: CoordinatorLog) -> list[Any]:
        new = log.raw[self._compared[whose] :]
        self._compared[whose] = len(log.raw)
        return [records_of(batch, Names(), of_one_clock=True) for batch in new]

    def _compare_replies(self) -> None:
        done = [(m, k) for m, k in self._waiting if m.is_done or k.is_done]
        self._waiting = [pair for pair in self._waiting if pair not in done]
        members_from_model, members_from_kafka = [], []
        for model, kafka in done:
            if not (model.is_done and kafka.is_done):
                raise Difference("replies", model.answer, kafka.answer)
            require_same("replies", _without_leader(model.get()), _without_leader(kafka.get()))
            members_from_model.append(_told_members(model.get()))
            members_from_kafka.append(_told_members(kafka.get()))
        require_same("answers to leaders", sorted(members_from_model), sorted(members_from_kafka))

    def _held(self) -> dict[str, Any]:
        held: dict[str, Any] = {}
        for group_id, group in self.model.shard.groups.items():
            held[group_id] = {"state": group.state.value, "members": sorted(group.members)}
            if isinstance(group, ClassicGroup):
                held[group_id] |= {
                    "type": "classic",
                    "epoch": group.generation_id,
                    "pending": len(group.pending_members),
                    "leader": group.leader_id is not None,
                }
            else:
                epochs = {"epoch": group.group_epoch, "assignmentEpoch": group.target_epoch}
                held[group_id] |= {"type": "consumer", **epochs}
        return held

    def _follow_leaders(self) -> None:
        """Where a leader goes, which member is the next one is up to a broker's hash map."""
        for group_id, group in self.model.shard.groups.items():
            if isinstance(group, ClassicGroup):
                group.leader_id = self.kafka.groups[group_id]["leader"]


def _comparable(groups: Mapping[str, Any]) -> dict[str, Any]:
    shown = {}
    for group_id, group in groups.items():
        shown[group_id] = {**group, "members": sorted(group["members"])}
        if "leader" in group:
            shown[group_id]["leader"] = group["leader"] is not None
    return shown


def _as_one_batch(batches: Sequence[Sequence[Any]]) -> list[Any]:
    return sorted((record for batch in batches for record in batch), key=repr)


def _without_leader(answer: JoinGroupResponse | SyncGroupResponse) -> Any:
    if isinstance(answer, JoinGroupResponse):
        return replace(answer, leader=None, members=())
    return (
        answer.error_code,
        answer.protocol_type,
        answer.protocol_name,
        assignment_of(answer.assignment),
    )


def _told_members(answer: JoinGroupResponse | SyncGroupResponse) -> list[str]:
    return sorted(map(repr, answer.members)) if isinstance(answer, JoinGroupResponse) else []
