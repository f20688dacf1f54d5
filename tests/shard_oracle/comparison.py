"""A log that Kafka's own shard wrote, loaded by the reference loader and by a second shard.

Random requests drive the shard; it may be of any Kafka release with this coordinator.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import CorruptBatch, read_record_batches
from coordinator_state.model.topics import Topic
from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.replay.groups import CLASSIC, Group
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import CONTROL_TYPE_COMMIT
from tests.shard_oracle.kafka_shard import KafkaShard
from tests.shard_oracle.shard_process import Json, ShardProcess

START_MS: Final = 1_000_000
SUBSCRIPTIONS: Final = (("t",), ("t", "u"), ("u",), ("t", "missing"))
SHORT_WAITS_MS: Final = (10, 500, 1_500, 3_000, 6_000)
LONG_WAITS_MS: Final = (10_000, 21_000, 46_000, 301_000)
UNSTABLE_OFFSET_COMMIT: Final = 88
_CONSUMER: Final = "consumer"
_VALUES: Final = ("committedOffset", "committedLeaderEpoch", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of one sequence: the cluster, and how long its clients wait.

    In one that `fails`, appends do now and then.
    """

    group_ids: tuple[str, ...]
    properties: Json
    topics: dict[str, Topic]
    waits_ms: tuple[int, ...]
    fails: bool

    @classmethod
    def draw(cls, choose: random.Random) -> Settings:
        """Draw them."""
        sizes = {"group.max.size": 2, "group.consumer.max.size": 3}
        return cls(
            group_ids=("g",) if choose.random() < 0.7 else ("g", "h"),
            properties={
                "group.initial.rebalance.delay.ms": choose.choice((0, 3_000)),
                "offsets.retention.minutes": 1,
                **(sizes if choose.random() < 0.2 else {}),
            },
            topics={t: Topic(UUID(int=i), choose.randrange(1, 9)) for i, t in enumerate("tu", 1)},
            waits_ms=SHORT_WAITS_MS + (LONG_WAITS_MS if choose.random() < 0.5 else ()),
            fails=choose.random() < 0.3,
        )


class Difference(AssertionError):
    """The loader and Kafka are not of one mind."""

    def __init__(self, subject: str, loader: Any, kafka: Any) -> None:
        super().__init__(f"{subject} differ\n  loader: {loader}\n  Kafka:  {kafka}")


def require_same(subject: str, loader: Any, kafka: Any) -> None:
    """Raise a Difference unless the two are equal."""
    if loader != kafka:
        raise Difference(subject, loader, kafka)


class Comparison:
    """Puts each request to Kafka; counts the compared groups and offsets by kind.

    `steps` are those so far, as they can be read. After each, consumer groups of the shard, which
    are in the log as they are, have to be those of the loader. `load_again` has another shard load
    the log, and compares everything.

    Raises:
        Difference: the loader has something else, or would refuse the log.
    """

    def __init__(self, process: ShardProcess, settings: Settings, seed: int) -> None:
        self.steps: list[str] = []
        self.seen = Counter[str]()
        self.refusal = 0
        self.new_shard = lambda: KafkaShard(
            process,
            properties=settings.properties,
            topics=settings.topics,
            seed=seed,
            now_ms=START_MS,
        )
        self.kafka = self.new_shard()
        self._now_ms = START_MS
        self._loader = ReferenceLoader(strict=True, release=process.release)
        self._loaded = 0
        self._types: dict[str, str] = {}

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Put a request to Kafka by a method of its shard; returns the answer."""
        named = (f"{name}={value!r}" for name, value in options.items())
        self.steps.append(f"{method}({', '.join([*map(str, arguments), *named])})")
        answer = getattr(self.kafka, method)(*arguments, **options)
        self._compare()
        return answer

    def wait(self, delay_ms: int) -> None:
        """Let time pass."""
        self._now_ms += delay_ms
        self.ask("advance", self._now_ms)

    def refuse(self, error_code: int) -> None:
        """Have appends meet with an error, until it is 0 again."""
        self.refusal = error_code
        self.ask("refuse", error_code)

    def load_again(self) -> None:
        """Have a new shard replay the log, and compare all groups and offsets."""
        log = b"".join(self.kafka.log.raw)
        self.steps.append("a new shard loads the log")
        again = self.new_shard()
        again.replay(_records(log))
        again.log = self.kafka.log
        held = {g: _without_members_in_memory(group) for g, group in again.groups.items()}
        expected = {group_id: _of_loader(group) for group_id, group in self._loader.groups.items()}
        require_same("groups after a load", expected, held)
        for group_id in expected:
            fetched = again.offsets(group_id, require_stable=False)
            values = {key: tuple(map(at.__getitem__, _VALUES)) for key, at in fetched.items()}
            require_same(f"offsets of {group_id}", self._offsets(group_id), values)
            stable = again.offsets(group_id, require_stable=True)
            unstable = {k for k, at in stable.items() if at["errorCode"] == UNSTABLE_OFFSET_COMMIT}
            require_same(f"pending offsets of {group_id}", self._pending(group_id), unstable)
            self.seen["loaded group"] += 1
            self.seen["pending offset"] += len(unstable)
            self.seen["loaded offset"] += len(fetched)

    def _compare(self) -> None:
        new = self.kafka.log.raw[self._loaded :]
        self._loaded = len(self.kafka.log.raw)
        self._loader.load(read_record_batches(b"".join(new)))
        groups = self._loader.groups
        for group_id, held in self.kafka.groups.items():
            was = self._types.get(group_id, held["type"])
            if was != held["type"]:
                self.seen[f"{was} to {held['type']}"] += 1
            if held["type"] == _CONSUMER:
                loaded = _of_loader(groups[group_id]) if group_id in groups else None
                require_same(f"group {group_id}", loaded, _without_members_in_memory(held))
                self.seen["live consumer group"] += 1
        self._types = {group_id: held["type"] for group_id, held in self.kafka.groups.items()}

    def _pending(self, group_id: str) -> set[tuple[str, int]]:
        return {
            (key.topic, key.partition)
            for keys in self._loader.pending.values()
            for key in keys
            # Without partitions OffsetFetch names only those that have a committed offset.
            if key.group_id == group_id and key in self._loader.offsets
        }

    def _offsets(self, group_id: str) -> dict[tuple[str, int], tuple[Any, ...]]:
        return {
            (key.topic, key.partition): (
                offset.committed_offset,
                NO_LEADER_EPOCH if offset.leader_epoch is None else offset.leader_epoch,
                offset.metadata,
            )
            for key, offset in self._loader.offset_fetch(group_id).items()
        }


def _records(log: bytes) -> Iterator[Json]:
    """The log as questions to the shard."""
    for batch in read_record_batches(log):
        assert not isinstance(batch, CorruptBatch)
        for record in batch.records:
            question: Json = {
                "offset": record.record_offset,
                "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch,
            }
            if batch.is_control:
                _, control_type = read_control_key(record.key or b"")
                yield {**question, "isCommit": control_type == CONTROL_TYPE_COMMIT}
            else:
                yield {**question, "key": _base64(record.key), "value": _base64(record.value)}


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _of_loader(group: Group) -> Json:
    members = sorted(member.member_id for member in group.members)
    fields: Json = {"type": group.group_type, "state": group.state, "members": members}
    if group.group_type == CLASSIC:
        return {**fields, "epoch": group.generation, "leader": group.leader}
    return {**fields, "epoch": group.group_epoch, "assignmentEpoch": group.assignment_epoch}


def _without_members_in_memory(held: Json) -> Json:
    """What a shard holds, without members that no record has yet."""
    stored = {name: value for name, value in held.items() if name != "pending"}
    return {**stored, "members": sorted(held["members"])}
