"""Simulated logs produced into the `__consumer_offsets` of a running cluster.

A broker accepts records for this topic from a client with the client id `__admin_client`, which
Kafka's own tools use. Coordinators keep their state in memory and expect no other writer. Readers
of the topic see the records at once, but a coordinator sees them only at its next load.

A coordinator of Kafka 4 reloads when its next record does not get the expected offset. It answers
that request with NOT_COORDINATOR, although the record is in the log. A retry succeeds, unless more
records were produced in the meantime. A coordinator of Kafka 3 does not notice.

Therefore this module is only for test clusters. It refuses transactions, because only a coordinator
can write their markers.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorRuntime.java (`flushCurrentBatch`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka.client import KafkaClient
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.connections import TransientFailure

_CLIENT_ID: Final = "__admin_client"
_TIMEOUT_MS: Final = 30_000
_NO_BASE_OFFSET: Final = bytes(8)
_NOT_APPENDED: Final = (
    kafka_errors.NotLeaderForPartitionError,
    kafka_errors.LeaderNotAvailableError,
)
"""A leader that moved refuses a batch as a whole, so it can be sent again."""


class OffsetsTopic(KafkaClient):
    """Appends batches unchanged, except for offsets and leader epochs, which the broker sets."""

    def __init__(self, bootstrap_servers: str, kafka: Mapping[str, str] | None = None) -> None:
        super().__init__(
            bootstrap_servers, {**kafka_client_config(kafka or {}), "client_id": _CLIENT_ID}
        )
        self._leaders: dict[int, int] = {}

    def append(self, written: Iterable[tuple[int, bytes]]) -> int:
        """Append record batches to log partitions; return the number of records.

        Raises:
            ConfigurationError: the cluster refuses the records or lacks the log partition, or the
                records are transactional.
        """
        records = 0
        for log_partition, log in written:
            view = memoryview(log)
            for batch in read_record_batches(view):
                raw, view = bytes(view[: batch.size_bytes]), view[batch.size_bytes :]
                if not isinstance(batch, RecordBatch):
                    raise ConfigurationError(f"invalid record batch: {batch.reason}")
                if batch.is_transactional:
                    raise ConfigurationError(
                        "cannot produce a transaction to this topic: use --transactional 0"
                    )
                records += len(batch.records)
                # The broker sets the base offset, which the checksum does not cover.
                self._produce(log_partition, _NO_BASE_OFFSET + raw[len(_NO_BASE_OFFSET) :])
        return records

    def _produce(self, log_partition: int, raw: bytes) -> None:
        """Send one batch, because a request can hold only one batch per partition."""
        Topic = ProduceRequest.TopicProduceData
        records = Topic.PartitionProduceData(index=log_partition, records=raw)
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[Topic(name=OFFSETS_TOPIC, partition_data=[records])],
            min_version=9,
            max_version=11,
        )
        self.with_retries("produce", lambda: self._produce_to_leader(log_partition, request))

    async def _produce_to_leader(self, log_partition: int, request: ProduceRequest) -> None:
        """Send a batch to the leader."""
        leader = self._leader(log_partition)
        try:
            answer = await self.connections.send(leader, request, _TIMEOUT_MS)
        except TransientFailure as error:
            # The batch may have been appended, so a retry could duplicate it.
            raise ConfigurationError(f"the cluster is unreachable: {error}") from error
        refusal = kafka_errors.for_code(answer.responses[0].partition_responses[0].error_code)
        if issubclass(refusal, _NOT_APPENDED):
            raise TransientFailure(
                f"broker {leader} is not the leader of {OFFSETS_TOPIC}-{log_partition}"
            )
        if refusal is not kafka_errors.NoError:
            raise ConfigurationError(
                f"the cluster refused records for {OFFSETS_TOPIC}-{log_partition}: "
                f"{refusal.__name__}"
            )

    def log_partitions(self) -> int:
        """The number of partitions of the topic.

        Raises:
            ConfigurationError: the topic does not exist, or no broker answers.
        """

        async def attempt() -> int:
            return len(self._leaders)

        return self.with_retries("describe the topic", attempt)

    def _leader(self, log_partition: int) -> int:
        if log_partition not in self._leaders:
            raise ConfigurationError(
                f"the cluster's {OFFSETS_TOPIC} has {len(self._leaders)} partitions: there is no "
                f"log partition {log_partition}"
            )
        return self._leaders[log_partition]

    async def _refresh_metadata(self) -> None:
        """Fetch the leaders. Creates the topic if `auto.create.topics.enable` is on."""
        Topic = MetadataRequest.MetadataRequestTopic
        described = await self.connections.ask_any(
            lambda: MetadataRequest(
                topics=[Topic(name=OFFSETS_TOPIC)], min_version=1, max_version=9
            )
        )
        (topic,) = described.topics
        leaders = {p.partition_index: p.leader_id for p in topic.partitions}
        if not leaders:
            raise TransientFailure(
                f"the topic {OFFSETS_TOPIC} does not exist: commit an offset of any group first"
            )
        if min(leaders.values()) < 0:
            raise TransientFailure(f"a partition of {OFFSETS_TOPIC} has no leader")
        self._leaders = leaders
