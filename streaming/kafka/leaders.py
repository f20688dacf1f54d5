"""The leaders of one topic's partitions: finding them, asking them, waiting for them.

Metadata is fetched when it is needed and after every failure, never by a timer.

Transient failures are retried with a growing back-off: moved leaders, restarting brokers, lost
connections, timeouts, and after the first contact refused logins too. Only the first contact is
impatient, since a wrong address or a wrong setting does not get better by waiting; those are
`ConfigurationError`s.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import tenacity
from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest

from coordinator_state.wire.primitives import ZERO_UUID, uuid_text
from streaming.errors import ConfigurationError, LogChanged, TopicMissing
from streaming.kafka.connections import BrokerConnections, TryAgain
from streaming.kafka.seen_log import NO_LEADER_EPOCH, OffsetAndEpoch, SeenLog

logger = logging.getLogger(__name__)

ELECTION_S: Final = 30.0
"""An election takes less."""

T = TypeVar("T")

# What is over by then, as the move of a leader mostly is, is not worth a line in the log.
_SOON_S: Final = 1.0
_LONGEST_WAIT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """The topic as the cluster describes it: `leaders` is log partition -> (node id, epoch).

    `topic_id` is Kafka's text of the id; all zeros from a broker before 2.8. A log partition
    without a leader has node id -1.
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
        """Refuse to go on with offsets of another cluster, or of another topic of that name.

        Raises:
            ConfigurationError: it is another cluster.
            LogChanged: it is another topic.
        """
        if cluster_id != self.cluster_id:
            raise ConfigurationError(
                f"the offsets are of cluster {cluster_id}, but this is cluster {self.cluster_id}: "
                "use other tables and another checkpoint for it"
            )
        if topic_id != self.topic_id:
            raise LogChanged(
                f"topic {self.topic} was deleted and created again (its id was {topic_id} and is "
                f"{self.topic_id}): its log partitions must be reloaded"
            )


class TopicLeaders:
    """Sends requests to the leaders of a topic's partitions, on an IO thread of kafka-python.

    `patiently` and `ask_every` block the caller; coroutines run on the IO thread, within an attempt
    of `patiently`. Nothing is connected before the first attempt.
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
            # The cluster was there before.
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
        """How long an answer may take."""
        return self._connections.request_timeout_ms

    @property
    def short_answer_timeout_ms(self) -> int:
        """How long an answer of a few bytes may take."""
        return self._connections.short_answer_timeout_ms

    @property
    def description(self) -> LogDescription:
        """What the last metadata said; there is some within an attempt and after the first one."""
        if self._description is None:
            raise TryAgain(f"topic {self.topic} is not described yet")
        return self._description

    @property
    def leaders(self) -> Mapping[int, tuple[int, int]]:
        """Log partition -> (node id, leader epoch), of the same."""
        return self.description.leaders

    def leader_epochs(self, log_partitions: Iterable[int]) -> dict[int, int]:
        """The epochs to send with a request, so that other leaders refuse it (KIP-320)."""
        return {log_partition: self.leaders[log_partition][1] for log_partition in log_partitions}

    def doubt_metadata(self) -> None:
        """Have the next attempt begin with fresh metadata."""
        self._is_stale = True

    def expect(self, seen: Mapping[int, OffsetAndEpoch]) -> None:
        """Talk only to leaders that have what was seen of their log partitions (KIP-320).

        Every attempt makes sure of it first. Metadata that is older than what was seen is not
        used; a later leader whose log parted from it earlier makes calls raise `LogTruncated`.
        """
        self._seen_log.seen = seen

    def close(self) -> None:
        """Close the connections and end the IO thread."""
        self._connections.close()

    def patiently(self, operation: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt` on the IO thread until it does not raise `TryAgain`, or patience ends.

        Raises:
            ConfigurationError: the first contact does not come about.
            TimeoutError: later, nothing usable came for as long as calls are to try.
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
            except TryAgain:
                self.doubt_metadata()
                raise

        began_at, has_warned = time.monotonic(), False

        def warn(state: tenacity.RetryCallState) -> None:
            nonlocal has_warned
            has_warned |= not is_patient
            has_warned |= time.monotonic() - began_at + state.upcoming_sleep > _SOON_S
            logger.log(
                logging.WARNING if has_warned else logging.DEBUG,
                "Kafka at %(bootstrap_servers)s: cannot %(operation)s: %(error)s; trying again in "
                "%(pause_s).1f s",
                {
                    "bootstrap_servers": self._connections.bootstrap_servers,
                    "operation": operation,
                    "error": state.outcome.exception() if state.outcome else None,
                    "pause_s": state.upcoming_sleep,
                },
            )

        try:
            answer = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(TryAgain),
                wait=tenacity.wait_exponential(
                    multiplier=0.1, max=_LONGEST_WAIT_S if is_patient else 2
                )
                + tenacity.wait_random(0, 0.1),
                stop=tenacity.stop_any(
                    tenacity.stop_before_delay(timeout_ms / 1000),
                    tenacity.stop_when_event_set(self._stop),
                ),
                sleep=tenacity.sleep_using_event(self._stop),
                before_sleep=warn,
                reraise=True,
            )(self._connections.run, attempt_with_metadata)
        except TryAgain as error:
            if is_patient:
                raise TimeoutError(
                    f"Kafka at {self._connections.bootstrap_servers}: cannot {operation} for "
                    f"{timeout_ms / 1000:.0f} s: {error}"
                ) from error
            raise ConfigurationError(
                f"cannot reach Kafka at {self._connections.bootstrap_servers}: {error}; "
                "check --bootstrap-servers, --kafka security.protocol and the login"
            ) from error
        if has_warned:
            logger.warning(
                "Kafka at %(bootstrap_servers)s: answers again after %(away_s).0f s",
                {
                    "bootstrap_servers": self._connections.bootstrap_servers,
                    "away_s": time.monotonic() - began_at,
                },
            )
        return answer

    def ask_every(
        self,
        operation: str,
        log_partitions: Iterable[int],
        request_for: Callable[[list[int]], Any],
        log_partition_of: Callable[[Any], int],
    ) -> dict[int, Any]:
        """Ask until each log partition has answered without an error; answers are kept."""
        wanted = list(log_partitions)
        found: dict[int, Any] = {}

        async def attempt() -> None:
            missing = [log_partition for log_partition in wanted if log_partition not in found]
            answers, failure = await self.ask(missing, request_for)
            for data in (
                data for answer in answers for topic in answer.topics for data in topic.partitions
            ):
                try:
                    self.check(data.error_code, f"log partition {log_partition_of(data)}")
                except TryAgain as error:
                    failure = error
                else:
                    found[log_partition_of(data)] = data
            if failure is not None:
                raise failure

        self.patiently(operation, attempt)
        return found

    async def ask(
        self,
        log_partitions: Iterable[int],
        request_for: Callable[[list[int]], Any],
        timeout_ms: int | None = None,
    ) -> tuple[list[Any], TryAgain | None]:
        """Send one request to each leader, all at once; return the answers and one failure.

        Without `timeout_ms` the answers are a few bytes.
        """
        timeout_ms = timeout_ms or self.short_answer_timeout_ms
        leaders = self.leaders
        failure: TryAgain | None = None
        by_leader: dict[int, list[int]] = {}
        for log_partition in log_partitions:
            if log_partition not in leaders:
                raise ConfigurationError(f"topic {self.topic} has no partition {log_partition}")
            node_id, _ = leaders[log_partition]
            if node_id < 0:
                failure = TryAgain(f"log partition {log_partition} has no leader")
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
            except TryAgain as error:
                failure = error
        self._connections.has_contact |= bool(answers)
        return answers, failure

    def check(self, error_code: int | None, what: str) -> None:
        """Raise for the error code of a response; None and 0 are none.

        Raises:
            ConfigurationError: it will not pass by itself.
            TryAgain: any other.
        """
        if not error_code:
            return
        kind = kafka_errors.for_code(error_code)
        where = f"topic {self.topic} at {self._connections.bootstrap_servers}"
        if issubclass(kind, kafka_errors.AuthorizationError):
            raise ConfigurationError(
                f"not authorised to read {where} ({kind.__name__}): this client's principal needs "
                f"the ACLs Read and Describe on topic {self.topic}"
            )
        if kind is kafka_errors.InvalidTopicError:
            raise ConfigurationError(f"{self.topic!r} is not a topic name")
        raise TryAgain(f"{what}: {kind.__name__}")

    async def _refresh_metadata(self) -> None:
        """Learn the brokers and the topic's leaders, from any broker that answers."""
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
                f"there is no topic {self.topic} at {self._connections.bootstrap_servers}; a "
                "cluster creates __consumer_offsets when its first consumer group appears",
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
                    # Brokers before 2.4 may tell stale epochs (KAFKA-9212).
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
