"""The leaders of one topic's partitions, and requests to them."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors as kafka_errors

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.wire.primitives import ZERO_UUID, uuid_text
from streaming.errors import ConfigurationError, LogChanged, NotAuthorised, TopicMissing
from streaming.kafka.client import FIRST_CONTACT_TIMEOUT_MS, KafkaClient
from streaming.kafka.connections import TransientFailure
from streaming.kafka.leader_epochs import LeaderEpochs
from streaming.kafka.log_requests import metadata_request
from streaming.kafka.partition_offsets import TopicPartition
from streaming.kafka.seen_log import OffsetAndEpoch, SeenLog, agreed_ends

logger = logging.getLogger(__name__)

RETRY_TIMEOUT_MS: Final = 600_000
"""Of a run, which outlasts the restart of a broker."""

ELECTION_S: Final = 30.0
"""Longer than an election of a leader takes."""

_CREATED: Final = {
    "__consumer_offsets": "; a cluster creates __consumer_offsets when its first consumer group "
    "appears",
    "__transaction_state": "; a cluster creates __transaction_state for its first transaction",
    "__share_group_state": "; a cluster creates __share_group_state for its first share group",
}
"""When a broker creates an internal topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """The topic's metadata: `leaders` is log partition -> (node id, leader epoch).

    `topic_id` is the id in Kafka's text form; all zeros from a broker before 2.8. A leaderless log
    partition has node id -1.
    """

    topic: str
    cluster_id: str
    topic_id: str
    leaders: Mapping[int, tuple[int, int]]

    @property
    def with_leader(self) -> frozenset[int]:
        """The log partitions that have a leader."""
        return frozenset(p for p, (node_id, _) in self.leaders.items() if node_id >= 0)

    def require_same_log(self, *, cluster_id: str, topic_id: str) -> None:
        """Refuse offsets of another cluster, or of an earlier topic of the same name.

        Raises:
            ConfigurationError: the offsets belong to another cluster.
            LogChanged: the topic was deleted and created again.
        """
        if cluster_id != self.cluster_id:
            raise ConfigurationError(
                f"the offsets belong to cluster {cluster_id}, but this is cluster "
                f"{self.cluster_id}: use another --tables folder and another --checkpoint"
            )
        if topic_id != self.topic_id:
            raise LogChanged(
                f"topic {self.topic} was deleted and created again (its id was {topic_id}, now it "
                f"is {self.topic_id}): its log partitions must be reloaded"
            )


def of_topic(topic: str) -> str:
    """The topic in a text about log partitions; they are of `__consumer_offsets` otherwise."""
    return "" if topic == OFFSETS_TOPIC else f" of {topic}"


class TopicClient(KafkaClient):
    """Sends requests to the leaders of a topic's partitions.

    Calls also raise:
        LogTruncated: a leader lacks an expected record offset, see `expect`.
        LogChanged: the topic was deleted and created again.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any] | None = None,
        topic: str = OFFSETS_TOPIC,
        *,
        first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        has_worked: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        super().__init__(
            bootstrap_servers,
            kafka_config,
            first_contact_timeout_ms=first_contact_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
            has_worked=has_worked,
            stop=stop,
        )
        self.topic = topic
        self.topic_uuid: uuid.UUID = ZERO_UUID
        self._description: LogDescription | None = None
        self._seen_log = SeenLog()
        self._epochs = LeaderEpochs()

    def describe(self) -> LogDescription:
        """Return the topic's ids and leaders from the cached metadata."""

        async def attempt() -> LogDescription:
            return self.description

        return self.with_retries("describe the topic", attempt)

    def refresh(self) -> LogDescription:
        """Fetch the metadata again, and return the topic's ids and leaders.

        Raises:
            LogChanged: the topic was deleted and created again.
        """
        self.expire_metadata()
        return self.describe()

    @property
    def description(self) -> LogDescription:
        """The topic as of the last metadata; available within and after the first attempt."""
        if self._description is None:
            raise TransientFailure(f"no metadata of topic {self.topic} yet")
        return self._description

    @property
    def leaders(self) -> Mapping[int, tuple[int, int]]:
        """Log partition -> (node id, leader epoch), as of the last metadata."""
        return self.description.leaders

    def leader_epochs(self, log_partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """Return the leader epochs for a request; leaders of other epochs refuse it (KIP-320)."""
        return {TopicPartition(self.topic, p): self.leaders[p][1] for p in log_partitions}

    def expect(self, seen: Mapping[int, OffsetAndEpoch]) -> None:
        """Use only leaders whose log contains the seen record offsets (KIP-320).

        Every attempt checks this first. Metadata with an older leader epoch than the seen one is
        stale and not used. Calls raise `LogTruncated` if a later leader's log diverged below a seen
        record offset.
        """
        self._seen_log.seen = seen

    def agreed_ends(self, seen: Mapping[int, OffsetAndEpoch]) -> dict[int, int]:
        """Return the end of the common part of each log and the records read from it (KIP-320).

        In an intact log this is the seen offset. The result omits a log partition if its leader
        does not know it.
        """

        async def attempt() -> dict[int, int | None]:
            agreed, failure = await agreed_ends(self, seen)
            if failure is not None:
                raise failure
            return agreed

        ends = self.with_retries("look up leader epochs", attempt)
        return {p: end for p, end in ends.items() if end is not None}

    def with_entries(self, ends: Mapping[int, OffsetAndEpoch]) -> dict[int, OffsetAndEpoch]:
        """Add the last leader epochs of the records below each offset.

        They remain unknown if the leader is not of the given epoch any more, or cannot say.
        """
        asked = {
            p: end
            for p, end in ends.items()
            if end.leader_epoch != NO_LEADER_EPOCH and not self._epochs.has(p, end)
        }
        try:
            if asked:
                self.with_retries(
                    "look up leader epochs", lambda: self._epochs.look_up(self, asked)
                )
        except LogChanged:
            raise
        except (ConfigurationError, TimeoutError) as error:
            logger.debug("cannot look up leader epochs: %(error)s", {"error": error})
        return {p: end._replace(entries=self._epochs.below(p, end)) for p, end in ends.items()}

    async def ask(
        self,
        log_partitions: Iterable[int],
        request_for: Callable[[list[int]], Any],
        timeout_ms: int | None = None,
    ) -> tuple[list[Any], TransientFailure | None]:
        """Send one request to each leader, all at once; return the answers and one failure.

        Without `timeout_ms` the timeout is that of an answer of a few bytes.
        """
        leaders = self.leaders
        leaderless: TransientFailure | None = None
        by_leader: dict[int, list[int]] = {}
        for log_partition in log_partitions:
            if log_partition not in leaders:
                raise ConfigurationError(f"topic {self.topic} has no partition {log_partition}")
            node_id, _ = leaders[log_partition]
            if node_id < 0:
                place = f"log partition {log_partition}{of_topic(self.topic)}"
                leaderless = TransientFailure(f"{place} has no leader")
            else:
                by_leader.setdefault(node_id, []).append(log_partition)
        requests = [(node_id, request_for(group)) for node_id, group in by_leader.items()]
        answers, failure = await self.send_all(requests, timeout_ms)
        return [answer for answer in answers if answer is not None], failure or leaderless

    def check(self, error_code: int | None, subject: str) -> None:
        """Raise for the error code of a response; None and 0 mean success.

        Raises:
            NotAuthorised: an ACL is missing.
            ConfigurationError: an invalid topic name.
            TransientFailure: any other error.
        """
        if not error_code:
            return
        kind = kafka_errors.for_code(error_code)
        where = f"topic {self.topic} at {self.connections.bootstrap_servers}"
        if issubclass(kind, kafka_errors.AuthorizationError):
            raise NotAuthorised(
                f"not authorised to read {where} ({kind.__name__}): this client's principal needs "
                f"the ACLs Read and Describe on topic {self.topic}"
            )
        if kind is kafka_errors.InvalidTopicError:
            raise ConfigurationError(f"{self.topic!r} is not a valid topic name")
        raise TransientFailure(f"{subject}: {kind.__name__}")

    async def _prepare(self) -> None:
        await super()._prepare()
        await self._seen_log.require(self)

    async def _refresh_metadata(self) -> None:
        """Fetch the brokers and the topic's leaders from any broker that answers."""
        answer = await self.connections.ask_any(lambda: metadata_request([self.topic]))
        (topic,) = answer.topics
        is_unknown = topic.error_code == kafka_errors.UnknownTopicOrPartitionError.errno
        if is_unknown and self._description is None:
            raise TopicMissing(
                f"there is no topic {self.topic} at {self.connections.bootstrap_servers}"
                f"{_CREATED.get(self.topic, '')}",
                cluster_id=answer.cluster_id or "",
            )
        self.check(topic.error_code, f"topic {self.topic}")
        topic_uuid = topic.topic_id or ZERO_UUID
        description = LogDescription(
            topic=self.topic,
            cluster_id=answer.cluster_id or "",
            topic_id=uuid_text(topic_uuid),
            leaders={
                partition.partition_index: (
                    partition.leader_id,
                    # Brokers before 2.4 may answer with stale epochs (KAFKA-9212).
                    partition.leader_epoch if answer.API_VERSION >= 9 else NO_LEADER_EPOCH,
                )
                for partition in sorted(topic.partitions, key=lambda p: p.partition_index)
            },
        )
        if self._description is not None:
            description.require_same_log(
                cluster_id=self._description.cluster_id, topic_id=self._description.topic_id
            )
        self._description, self.topic_uuid = description, topic_uuid
