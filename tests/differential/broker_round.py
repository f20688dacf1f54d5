"""Logs in front of a real broker: put in place, loaded, and asked about."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_state.groups import CLASSIC, STABLE
from coordinator_state.loader import ReferenceLoader
from coordinator_state.offsets import Semantics
from coordinator_state.primitives import uuid_from_text, uuid_text
from coordinator_state.record_types import NO_LEADER_EPOCH
from streaming.answers.answer import IS_PENDING, AnswerKey, Answers, Fields
from streaming.answers.broker_answers import BrokerAnswers
from streaming.answers.group_fields import group_fields, member_fields
from streaming.answers.verification import Verification, compare
from streaming.broker.embedded import BrokerError, EmbeddedBroker
from tests.differential.random_round import LOG_PARTITIONS, UNEXPECTED_UNLOAD, RoundLog, loaded
from tests.modern_records import Topic

_TOPIC_NAMES = ("t", "u")
_LOAD_TIMEOUT_S = 60.0
# What a broker fails to load, in the new coordinator's words and in the old one's, whose reason is
# in the line below.
_FAILED = re.compile(
    r"Failed to load metadata from __consumer_offsets-(?P<new>\d+)"
    r"|Error loading offsets from __consumer_offsets-(?P<old>\d+).*\n?(?P<reason>.*)"
)
# Members of random groups have no heartbeats, and their commits are old.
_PROPERTIES = {
    "group.consumer.max.session.timeout.ms": 1_800_000,
    "group.consumer.session.timeout.ms": 1_800_000,
    "group.share.max.session.timeout.ms": 1_800_000,
    "group.share.session.timeout.ms": 1_800_000,
    "group.streams.max.session.timeout.ms": 1_800_000,
    "group.streams.session.timeout.ms": 1_800_000,
    "offsets.retention.check.interval.ms": 3_600_000,
    "log.cleaner.enable": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What a round showed.

    `refused` are the log partitions that the broker did not load, `unloaded` those of which it says
    "Unexpected unload of active group" after it has loaded them, `warned` those where we say so.
    """

    verification: Verification
    refused: frozenset[int]
    unloaded: frozenset[int]
    warned: frozenset[int]


class BrokerRounds:
    """A broker that is started anew for each round; a context manager."""

    def __init__(self, version: str, folder: Path) -> None:
        self.semantics = Semantics.SCALA if version.startswith("3") else Semantics.COORDINATOR
        self.broker = EmbeddedBroker(version=version, folder=folder, properties=_PROPERTIES)
        self.topics: tuple[Topic, ...] = ()

    def __enter__(self) -> BrokerRounds:
        try:
            self.broker.start()
            self.broker.create_offsets_topic()
            self.topics = self._make_topics()
            self.broker.stop()
        except BaseException:
            self.broker.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.broker.close()

    def run(self, logs: Mapping[int, RoundLog]) -> RoundResult:
        """Let the broker load the logs and compare what it answers with the reference loader."""
        for log_partition in range(LOG_PARTITIONS):
            log = logs.get(log_partition)
            self.broker.replace_log(log_partition, b"" if log is None else log.segment)
        self.broker.start()
        try:
            refused, unloaded = self._wait_until_loaded()
            loaders = {
                log_partition: loaded(log, self.semantics)
                for log_partition, log in logs.items()
                if log_partition not in refused
            }
            names = {uuid_text(topic_id): name for topic_id, name in self.topics}
            expected = answers_of(loaders, names)
            pending = [
                (key.group_id, key.topic, key.partition)
                for key in expected
                if key.kind == "pending"
            ]
            with BrokerAnswers(self.broker.bootstrap_servers) as answering:
                found = answering.answers(pending=pending, is_loaded=True)
        finally:
            self.broker.stop()
        return RoundResult(
            verification=compare(found, expected, found),
            refused=refused,
            unloaded=unloaded,
            warned=frozenset(p for p, loader in loaders.items() if _warns_of_unload(loader)),
        )

    def _make_topics(self) -> tuple[Topic, ...]:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        for future in admin.create_topics([NewTopic(name, 2, 1) for name in _TOPIC_NAMES]).values():
            future.result()
        described = admin.describe_topics(TopicCollection([*_TOPIC_NAMES]))
        return tuple(
            (uuid_from_text(str(described[name].result().topic_id)), name) for name in _TOPIC_NAMES
        )

    def _wait_until_loaded(self) -> tuple[frozenset[int], frozenset[int]]:
        """Wait until the broker is done with every log partition; which it refused and unloaded."""
        deadline = time.monotonic() + _LOAD_TIMEOUT_S
        while len(done := self._failures().keys() | self._loaded()) < LOG_PARTITIONS:
            if not self.broker.is_running or time.monotonic() > deadline:
                raise BrokerError(f"{LOG_PARTITIONS - len(done)} log partitions were not loaded")
            time.sleep(0.1)
        # The reason of the last one may not have been written.
        time.sleep(0.1)
        failures = self._failures()
        unloaded = {p for p, reason in failures.items() if UNEXPECTED_UNLOAD in reason}
        return frozenset(failures.keys() - unloaded), frozenset(unloaded)

    def _failures(self) -> dict[int, str]:
        found = _FAILED.finditer(self.broker.log_since_start())
        return {int(one["new"] or one["old"]): one["reason"] or "" for one in found}

    def _loaded(self) -> set[int]:
        return {summary.log_partition for summary in self.broker.load_summaries()}


def _warns_of_unload(loader: ReferenceLoader) -> bool:
    return any(UNEXPECTED_UNLOAD in (g.replay_warning or "") for g in loader.groups.values())


def answers_of(loaders: Mapping[int, ReferenceLoader], topic_names: Mapping[str, str]) -> Answers:
    """What a coordinator with these loaders' state would answer."""
    found: dict[AnswerKey, Fields] = {}
    for loader in loaders.values():
        for group in loader.groups.values():
            found[AnswerKey("group", group.group_id)] = group_fields(asdict(group))
            if group.group_type == CLASSIC and group.state != STABLE:
                continue
            for member in group.members:
                found[AnswerKey("member", group.group_id, member_id=member.member_id)] = (
                    member_fields(group.group_type, asdict(member), topic_names)
                )
        for group_id in loader.groups:
            for key, offset in loader.offset_fetch(group_id).items():
                epoch = offset.leader_epoch
                found[AnswerKey("offset", *key)] = {
                    "committed_offset": offset.committed_offset,
                    "leader_epoch": NO_LEADER_EPOCH if epoch is None else epoch,
                    "metadata": offset.metadata,
                }
        for waiting in loader.pending.values():
            for key in waiting:
                if key.group_id in loader.groups:
                    found[AnswerKey("pending", *key)] = IS_PENDING
    return found
