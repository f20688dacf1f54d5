"""Logs in front of a real broker: put in place, loaded, and asked about."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import tenacity
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.replay.groups import CLASSIC, STABLE
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.partitioner import partition_for
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_from_text, uuid_text
from streaming.kafka.loader_rules import ClusterRules
from streaming.local.broker.embedded import BrokerError, EmbeddedBroker
from streaming.verify.answer import (
    IS_PENDING,
    AnswerKey,
    Answers,
    Fields,
    group_fields,
    member_fields,
)
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.verification import compare
from tests.differential.random_round import (
    LOG_PARTITIONS,
    UNEXPECTED_UNLOAD,
    loaded,
    refusal,
    rules_of,
)
from tests.support.logs.modern_records import Topic

TOPIC_NAMES = ("t", "u")
_LOAD_TIMEOUT_S = 60.0
_POLL_EVERY_S = 0.1
_BATCHES_PER_SEGMENT = 3
_CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
# The cleaner, or the clean-up of groups, is done when it says as much as it did so long ago.
_QUIET_S = 2.0
_LONGEST_S = 15.0
_CLEAN_UP = {"offsets.retention.check.interval.ms": 1_500}
# KAFKA-19862, mended in 4.0.2 and 4.1.2: no rule of a release, because clients cannot tell these.
_VERSIONS_WITH_A_DEFECT = ("4.0.0", "4.0.1", "4.1.0", "4.1.1")
_DEFECT = re.compile(r"failed due to: Cannot (?:set|remove) the epoch ")
# What a broker fails to load, in the new coordinator's words and in the old one's, whose reason is
# in the line below.
_FAILED = re.compile(
    r"Failed to load metadata from __consumer_offsets-(?P<new>\d+)(?P<cause>.*)"
    r"|Error loading offsets from __consumer_offsets-(?P<old>\d+).*\n(?P<reason>.+)\n"
)
_CLEANED = re.compile(r"cleaned log __consumer_offsets-(\d+)")
_CLEANED_UP = re.compile(
    r"tombstone records while cleaning up group metadata|Removed [1-9]\d* expired offsets"
)
# In the words of 4.4, and of earlier releases.
_CLEAN_UP_FAILED = re.compile(
    r"__consumer_offsets(?: partition=|-)(\d+)\]?.*key=expire-group-metadata\) .* failed"
)
_PROPERTIES = {
    # Members of random groups have no heartbeats, and their commits are old: let both be.
    "group.consumer.max.session.timeout.ms": 1_800_000,
    "group.consumer.session.timeout.ms": 1_800_000,
    "group.share.max.session.timeout.ms": 1_800_000,
    "group.share.session.timeout.ms": 1_800_000,
    "group.streams.max.session.timeout.ms": 1_800_000,
    "group.streams.session.timeout.ms": 1_800_000,
    # Whatever is not in the active segment is cleaned at once.
    "offsets.retention.check.interval.ms": 3_600_000,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.min.cleanable.ratio": 0.0,
    "log.cleaner.delete.retention.ms": 1,
}
# Kafka 4.1 has share and streams groups, but does not offer them by default.
_PREVIEW_PROPERTIES = {
    "unstable.feature.versions.enable": True,
    "unstable.api.versions.enable": True,
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
}
_PREVIEW_FEATURES = {"share.version": 1, "streams.version": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What a round showed: lines by log partition where there is a difference, and counts."""

    differences: Mapping[int, list[str]]
    summary: str


class BrokerRounds:
    """A broker that is started anew for each round; a context manager."""

    def __init__(self, version: str, folder: Path) -> None:
        self.rules = rules_of(version)
        is_preview = self.rules.release is Release.KAFKA_4_1
        self.broker = EmbeddedBroker(
            version=version,
            folder=folder,
            properties={**_PROPERTIES, **(_PREVIEW_PROPERTIES if is_preview else {})},
            features=_PREVIEW_FEATURES if is_preview else {},
        )
        self.topics: tuple[Topic, ...] = ()

    def __enter__(self) -> BrokerRounds:
        with ExitStack() as stack:
            stack.callback(self.broker.close)
            self.broker.start()
            self.broker.create_offsets_topic()
            self.topics = self._make_topics()
            self.broker.stop()
            stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self.broker.close()

    def run(
        self,
        logs: Mapping[int, bytes],
        tables_answers: Callable[[BrokerRounds, Answers], Answers] | None = None,
    ) -> RoundResult:
        """Let the broker load logs and compare what it answers with the reference loader.

        `tables_answers`, called while the broker runs, with what the loader would answer, gives
        the answers of tables to compare instead; those about log partitions that the broker
        refused do not count.
        """
        for log_partition in range(LOG_PARTITIONS):
            self.broker.replace_log(log_partition, logs.get(log_partition, b""))
        self.broker.start()
        try:
            known = ClusterRules(self.broker.bootstrap_servers, {}, "auto").known
            assert not known.differ_from(self.rules), known
            failures = self._wait_until_loaded()
            loaders = {p: loaded(logs.get(p, b""), self.rules) for p in range(LOG_PARTITIONS)}
            names = {uuid_text(topic_id): name for topic_id, name in self.topics}
            unloaded = {p for p, reason in failures.items() if UNEXPECTED_UNLOAD in reason}
            refused = failures.keys() - unloaded
            expected = answers_of({p: loaders[p] for p in loaders if p not in refused}, names)
            pending = [
                (key.group_id, key.topic, key.partition)
                for key in expected
                if key.kind == "pending"
            ]
            with BrokerAnswers(self.broker.bootstrap_servers) as answering:
                answers = answering.answers(pending=pending, is_loaded=True)
            if tables_answers is not None:
                expected = {
                    key: fields
                    for key, fields in tables_answers(self, expected).items()
                    if partition_for(key.group_id, LOG_PARTITIONS) not in refused
                }
        finally:
            self.broker.stop()
        verification = compare(answers, expected, answers)
        differences: dict[int, list[str]] = defaultdict(list)
        for difference in verification.differences:
            differences[partition_for(difference.key.group_id, LOG_PARTITIONS)].append(
                f"{difference.key} {difference.field or ''}: the broker says {difference.broker}, "
                f"we say {difference.tables}"
            )
        for log_partition, raw in logs.items():
            for line in self._misjudged(loaders[log_partition], raw, log_partition, failures):
                differences[log_partition].append(line)
        return RoundResult(
            differences=differences,
            summary=f"{verification.summary}; {len(refused)} log partitions refused, "
            f"{len(unloaded)} with an unexpected unload, "
            f"{sum(map(self._meets_the_defect, failures.values()))} for a defect (KAFKA-19862)",
        )

    def compacted(self, logs: Mapping[int, bytes]) -> dict[int, bytes]:
        """What the broker's cleaner leaves of logs when it has gone over them twice.

        The second pass takes away the tombstones and markers of which the first said when.
        """
        for log_partition in range(LOG_PARTITIONS):
            segments = _segments(logs.get(log_partition, b""))
            self.broker.replace_log(log_partition, *segments)
        for _ in range(2):
            (self.broker.log_dir / _CLEANER_CHECKPOINT).unlink(missing_ok=True)
            self.broker.start()
            try:
                self._wait_until_quiet(_CLEANED)
            finally:
                self.broker.stop()
        return {log_partition: self.broker.read_log(log_partition) for log_partition in logs}

    def cleaned_up(self, logs: Mapping[int, bytes]) -> dict[int, bytes]:
        """The logs with the tombstones of what expired, where the broker loaded them."""
        for log_partition in range(LOG_PARTITIONS):
            self.broker.replace_log(log_partition, logs.get(log_partition, b""))
        self.broker.start(_CLEAN_UP)
        try:
            failures = self._wait_until_loaded()
            self._wait_until_quiet(_CLEANED_UP)
            log = self.broker.log_since_start()
        finally:
            self.broker.stop()
        # A group whose targets outlived its members cannot be deleted, and stops the clean-up of
        # its log partition.
        failed = {int(p) for p in _CLEAN_UP_FAILED.findall(log)} | failures.keys()
        return {p: self.broker.read_log(p) for p in logs if p not in failed}

    def _make_topics(self) -> tuple[Topic, ...]:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        for future in admin.create_topics([NewTopic(name, 2, 1) for name in TOPIC_NAMES]).values():
            future.result()

        def described() -> tuple[Topic, ...]:
            descriptions = admin.describe_topics(TopicCollection([*TOPIC_NAMES]))
            ids = {name: str(descriptions[name].result().topic_id) for name in TOPIC_NAMES}
            return tuple((uuid_from_text(ids[name]), name) for name in TOPIC_NAMES)

        # A broker may not know yet what its controller has made.
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(KafkaException),
            wait=tenacity.wait_fixed(_POLL_EVERY_S),
            stop=tenacity.stop_after_delay(_LONGEST_S),
            reraise=True,
        )(described)

    def _wait_until_loaded(self) -> dict[int, str]:
        """Wait until the broker is done with every log partition; why it failed to load some."""

        def missing() -> set[int]:
            if not self.broker.is_running:
                raise BrokerError(f"it ended while it loaded: {self.broker.log_end()}")
            return {*range(LOG_PARTITIONS)} - self._failures().keys() - self._loaded()

        _poll_while(missing, _LOAD_TIMEOUT_S)
        if left := missing():
            raise BrokerError(f"log partitions were not loaded: {sorted(left)}")
        return self._failures()

    def _failures(self) -> dict[int, str]:
        failures = _FAILED.finditer(self.broker.log_since_start())
        return {
            int(failure["new"] or failure["old"]): failure["reason"] or failure["cause"] or ""
            for failure in failures
        }

    def _loaded(self) -> set[int]:
        return {summary.log_partition for summary in self.broker.load_summaries()}

    def _wait_until_quiet(self, said: re.Pattern[str]) -> None:
        """Wait until the broker has said nothing more of the kind for a while, or for long."""
        counts = deque([-1], maxlen=round(_QUIET_S / _POLL_EVERY_S))

        def says_more() -> bool:
            counts.append(len(said.findall(self.broker.log_since_start())))
            return counts[0] != counts[-1]

        _poll_while(says_more, _LONGEST_S)

    def _meets_the_defect(self, failure: str) -> bool:
        is_affected = self.broker.version in _VERSIONS_WITH_A_DEFECT
        return is_affected and _DEFECT.search(failure) is not None

    def _misjudged(
        self,
        loader: ReferenceLoader,
        raw: bytes,
        log_partition: int,
        failures: Mapping[int, str],
    ) -> Iterator[str]:
        """Where the broker and the strict loader do not agree that a log can be loaded."""
        is_unloaded = UNEXPECTED_UNLOAD in failures.get(log_partition, "")
        is_refused = log_partition in failures and not is_unloaded
        reason = refusal(raw, self.rules)
        if self._meets_the_defect(failures.get(log_partition, "")):
            return
        if is_refused != (reason is not None):
            verb = "does not load" if is_refused else "loads"
            yield f"the broker {verb} log partition {log_partition}, we say {reason or 'it can'}"
        warns = any(UNEXPECTED_UNLOAD in (g.replay_warning or "") for g in loader.groups.values())
        if not is_refused and warns != is_unloaded:
            yield f"unexpected unload: the broker says {is_unloaded}, we say {warns}"


def _poll_while(goes_on: Callable[[], object], timeout_s: float) -> None:
    """Ask until the answer is false, or for long."""
    tenacity.Retrying(
        retry=tenacity.retry_if_result(bool),
        wait=tenacity.wait_fixed(_POLL_EVERY_S),
        stop=tenacity.stop_after_delay(timeout_s),
        retry_error_callback=lambda _state: None,
    )(goes_on)


def answers_of(loaders: Mapping[int, ReferenceLoader], topic_names: Mapping[str, str]) -> Answers:
    """What coordinators with these loaders' state would answer."""
    answers: dict[AnswerKey, Fields] = {}
    for loader in loaders.values():
        for group_id, group in loader.groups.items():
            answers[AnswerKey("group", group_id)] = group_fields(asdict(group))
            if group.group_type != CLASSIC or group.state == STABLE:
                for member in group.members:
                    answers[AnswerKey("member", group_id, member_id=member.member_id)] = (
                        member_fields(group.group_type, asdict(member), topic_names)
                    )
            for key, offset in loader.offset_fetch(group_id).items():
                epoch = offset.leader_epoch
                answers[AnswerKey("offset", *key)] = {
                    "committed_offset": offset.committed_offset,
                    "leader_epoch": NO_LEADER_EPOCH if epoch is None else epoch,
                    "metadata": offset.metadata,
                }
        for waiting in loader.pending.values():
            for key in waiting:
                if key.group_id in loader.groups:
                    answers[AnswerKey("pending", *key)] = IS_PENDING
    return answers


def _segments(raw: bytes) -> list[bytes]:
    """A log in segments of a few batches; the last one is never cleaned."""
    batches: list[bytes] = []
    position = 0
    while position < len(raw):
        size = 12 + int.from_bytes(raw[position + 8 : position + 12], "big")
        batches.append(raw[position : position + size])
        position += size
    return [
        b"".join(batches[first : first + _BATCHES_PER_SEGMENT])
        for first in range(0, len(batches), _BATCHES_PER_SEGMENT)
    ]
