"""The leaders of one topic's partitions: metadata, requests to leaders, and retries.

Metadata is fetched on first use and after every failure, never by a timer.

Transient failures are retried with exponential back-off: moved leaders, restarting brokers, lost
connections, timeouts, and after the first contact also refused logins. The first contact has a
shorter timeout and ends with a `ConfigurationError`: retries do not fix a wrong address or setting.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import tenacity
from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from coordinator_state.wire.primitives import ZERO_UUID, uuid_text
from streaming.errors import ConfigurationError, LogChanged, NotAuthorised, TopicMissing
from streaming.kafka.connections import BrokerConnections, TransientFailure
from streaming.kafka.outage import LOGGED_AFTER_S, Outage
from streaming.kafka.seen_log import NO_LEADER_EPOCH, OffsetAndEpoch, SeenLog

ELECTION_S: Final = 30.0
"""Longer than an election of a leader takes."""

T = TypeVar("T")

_CREATED: Final = {
    "__consumer_offsets": "; a cluster creates __consumer_offsets when its first consumer group "
    "appears",
    "__transaction_state": "; a cluster creates __transaction_state for its first transaction",
    "__share_group_state": "; a cluster creates __share_group_state for its first share group",
}
"""When a broker creates an internal topic."""
_LONGEST_BACKOFF_S: Final = 10.0


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


class TopicLeaders:
    """Sends requests to the leaders of a topic's partitions, on an IO thread of kafka-python.

    `with_retries` and `ask_every` block the caller. Coroutines run on the IO thread, within an
    attempt of `with_retries`. The first attempt connects.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any],
        topic: str,
        *,
        first_contact_timeout_ms: int,
        retry_timeout_ms: int,
        stop: threading.Event,
    ) -> None:
        self.topic = topic
        self.topic_uuid: uuid.UUID = ZERO_UUID
        self._connections = BrokerConnections(
            bootstrap_servers,
            kafka_config,
            # A caller with this timeout has already reached the cluster.
            has_worked=first_contact_timeout_ms >= retry_timeout_ms,
        )
        self._first_contact_timeout_ms = first_contact_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self._stop = stop
        self._description: LogDescription | None = None
        self._is_stale = True
        self._seen_log = SeenLog()

    @property
    def request_timeout_ms(self) -> int:
        """The timeout for an answer, in milliseconds."""
        return self._connections.request_timeout_ms

    @property
    def short_answer_timeout_ms(self) -> int:
        """The timeout for an answer of a few bytes, in milliseconds."""
        return self._connections.short_answer_timeout_ms

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

    def leader_epochs(self, log_partitions: Iterable[int]) -> dict[int, int]:
        """Return the leader epochs for a request; leaders of other epochs refuse it (KIP-320)."""
        return {log_partition: self.leaders[log_partition][1] for log_partition in log_partitions}

    def expire_metadata(self) -> None:
        """Mark the metadata as stale, so the next attempt fetches it first."""
        self._is_stale = True

    def expect(self, seen: Mapping[int, OffsetAndEpoch]) -> None:
        """Use only leaders whose log contains the seen record offsets (KIP-320).

        Every attempt checks this first. Metadata with an older leader epoch than the seen one is
        stale and not used. Calls raise `LogTruncated` if a later leader's log diverged below a seen
        record offset.
        """
        self._seen_log.seen = seen

    def close(self) -> None:
        """Close the connections and end the IO thread."""
        self._connections.close()

    def with_retries(self, operation: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt` on the IO thread, and retry it while it raises `TransientFailure`.

        Raises:
            ConfigurationError: the cluster was not reached within the first contact timeout.
            TimeoutError: after the first contact, the retry timeout passed or `stop` was set.
        """
        is_patient = (
            self._connections.has_contact
            or self._first_contact_timeout_ms >= self._retry_timeout_ms
        )
        timeout_ms = self._retry_timeout_ms if is_patient else self._first_contact_timeout_ms

        async def attempt_with_metadata() -> T:
            try:
                if self._is_stale:
                    await self._refresh_metadata()
                await self._seen_log.require(self)
                return await attempt()
            except TransientFailure:
                self.expire_metadata()
                raise

        cluster = f"Kafka at {self._connections.bootstrap_servers}"
        # Without a first contact the address may be wrong, and a person is waiting.
        outage = Outage(cluster, operation, logged_after_s=LOGGED_AFTER_S if is_patient else 0)

        try:
            answer = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(TransientFailure),
                wait=tenacity.wait_exponential(
                    multiplier=0.1, max=_LONGEST_BACKOFF_S if is_patient else 2
                )
                + tenacity.wait_random(0, 0.1),
                stop=tenacity.stop_any(
                    tenacity.stop_before_delay(timeout_ms / 1000),
                    tenacity.stop_when_event_set(self._stop),
                ),
                sleep=tenacity.sleep_using_event(self._stop),
                before_sleep=lambda state: outage.failed(
                    state.outcome.exception() if state.outcome else None, state.upcoming_sleep
                ),
                reraise=True,
            )(self._connections.run, attempt_with_metadata)
        except TransientFailure as error:
            if is_patient:
                raise TimeoutError(
                    f"{cluster}: cannot {operation}, retried for {timeout_ms / 1000:.0f} s: {error}"
                ) from error
            raise ConfigurationError(
                f"cannot reach {cluster}: {error}; {outage.attempts + 1} attempts in "
                f"{outage.seconds:.0f} s; check --bootstrap-servers, --kafka security.protocol and "
                "the login"
            ) from error
        outage.ended()
        return answer

    def ask_every(
        self,
        operation: str,
        log_partitions: Iterable[int],
        request_for: Callable[[list[int]], Any],
        log_partition_of: Callable[[Any], int],
    ) -> dict[int, Any]:
        """Return the answer of each log partition; retry only those that have not answered."""
        wanted = list(log_partitions)
        answer_by_partition: dict[int, Any] = {}

        async def attempt() -> None:
            missing = [
                log_partition
                for log_partition in wanted
                if log_partition not in answer_by_partition
            ]
            answers, failure = await self.ask(missing, request_for)
            for data in (
                data for answer in answers for topic in answer.topics for data in topic.partitions
            ):
                try:
                    self.check(data.error_code, f"log partition {log_partition_of(data)}")
                except TransientFailure as error:
                    failure = error
                else:
                    answer_by_partition[log_partition_of(data)] = data
            if failure is not None:
                raise failure

        self.with_retries(operation, attempt)
        return answer_by_partition

    async def ask(
        self,
        log_partitions: Iterable[int],
        request_for: Callable[[list[int]], Any],
        timeout_ms: int | None = None,
    ) -> tuple[list[Any], TransientFailure | None]:
        """Send one request to each leader, all at once; return the answers and one failure.

        Without `timeout_ms` the timeout is that of an answer of a few bytes.
        """
        timeout_ms = timeout_ms or self.short_answer_timeout_ms
        leaders = self.leaders
        failure: TransientFailure | None = None
        by_leader: dict[int, list[int]] = {}
        for log_partition in log_partitions:
            if log_partition not in leaders:
                raise ConfigurationError(f"topic {self.topic} has no partition {log_partition}")
            node_id, _ = leaders[log_partition]
            if node_id < 0:
                place = f"log partition {log_partition}{of_topic(self.topic)}"
                failure = TransientFailure(f"{place} has no leader")
            else:
                by_leader.setdefault(node_id, []).append(log_partition)
        sent = [
            self._connections.begin(self._connections.send, node_id, request_for(group), timeout_ms)
            for node_id, group in by_leader.items()
        ]
        answers = []
        for future in sent:
            try:
                answers.append(await future)
            except TransientFailure as error:
                failure = error
        self._connections.has_contact |= bool(answers)
        return answers, failure

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
        where = f"topic {self.topic} at {self._connections.bootstrap_servers}"
        if issubclass(kind, kafka_errors.AuthorizationError):
            raise NotAuthorised(
                f"not authorised to read {where} ({kind.__name__}): this client's principal needs "
                f"the ACLs Read and Describe on topic {self.topic}"
            )
        if kind is kafka_errors.InvalidTopicError:
            raise ConfigurationError(f"{self.topic!r} is not a valid topic name")
        raise TransientFailure(f"{subject}: {kind.__name__}")

    async def _refresh_metadata(self) -> None:
        """Fetch the brokers and the topic's leaders from any broker that answers."""
        answer = await self._connections.ask_any(
            lambda: MetadataRequest(
                topics=[MetadataRequest.MetadataRequestTopic(name=self.topic)],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
                min_version=4,
            )
        )
        (topic,) = answer.topics
        is_unknown = topic.error_code == kafka_errors.UnknownTopicOrPartitionError.errno
        if is_unknown and self._description is None:
            raise TopicMissing(
                f"there is no topic {self.topic} at {self._connections.bootstrap_servers}"
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
        self._description, self.topic_uuid, self._is_stale = description, topic_uuid, False
