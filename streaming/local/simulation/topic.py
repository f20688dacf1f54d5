"""Simulated logs produced into the `__consumer_offsets` of a running cluster.

A broker takes records for this topic from a client that calls itself `__admin_client` (tools of
its own do so). Its coordinators hold what they know in memory and expect nobody else to write: what
is produced counts for whoever reads the topic, and for them with their next load. Those of Kafka 4
load anew when the next record they write has not the offset they expect: the request is answered
with NOT_COORDINATOR, though its record is in the log, and completes when it is tried again, unless
more was produced meanwhile. Those of Kafka 3 do not notice. So it is for clusters that are there
for tests, and transactions, whose markers only a coordinator can write, are refused.

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
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.connections import TransientFailure
from streaming.kafka.patient_requests import PatientRequests

_CLIENT_ID: Final = "__admin_client"
_TIMEOUT_MS: Final = 30_000
_NO_BASE_OFFSET: Final = bytes(8)


class OffsetsTopic(PatientRequests):
    """Appends batches as they are; offsets and leader epochs are the broker's."""

    def __init__(self, bootstrap_servers: str, kafka: Mapping[str, str] | None = None) -> None:
        super().__init__(
            bootstrap_servers, {**kafka_client_config(kafka or {}), "client_id": _CLIENT_ID}
        )
        self._leaders: dict[int, int] = {}

    def append(self, written: Iterable[tuple[int, bytes]]) -> int:
        """Append record batches to log partitions; returns how many records.

        Raises:
            ConfigurationError: the cluster does not take them, lacks the log partition, or they are
                of a transaction.
        """
        records = 0
        for log_partition, log in written:
            view = memoryview(log)
            for batch in read_record_batches(view):
                raw, view = bytes(view[: batch.size_bytes]), view[batch.size_bytes :]
                if not isinstance(batch, RecordBatch):
                    raise ConfigurationError(f"a batch that is none: {batch.reason}")
                if batch.is_transactional:
                    raise ConfigurationError(
                        "a transaction cannot be produced into this topic: --transactional 0"
                    )
                records += len(batch.records)
                # The broker gives it its place; no checksum covers it.
                self._produce(log_partition, _NO_BASE_OFFSET + raw[len(_NO_BASE_OFFSET) :])
        return records

    def _produce(self, log_partition: int, raw: bytes) -> None:
        """Send a batch: a request takes only one of a partition."""
        Topic = ProduceRequest.TopicProduceData
        records = Topic.PartitionProduceData(index=log_partition, records=raw)
        leader = self._leader(log_partition)
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[Topic(name=OFFSETS_TOPIC, partition_data=[records])],
            min_version=9,
            max_version=11,
        )
        try:
            answer = self._connections.run(
                lambda: self._connections.send(leader, request, _TIMEOUT_MS)
            )
        except TransientFailure as error:
            # Whether it was appended is not known: it is not sent again.
            raise ConfigurationError(f"the cluster does not answer: {error}") from error
        error_code = answer.responses[0].partition_responses[0].error_code
        if error_code:
            error_name = kafka_errors.for_code(error_code).__name__
            raise ConfigurationError(
                f"the cluster does not take records for {OFFSETS_TOPIC}-{log_partition}: "
                f"{error_name}"
            )

    def log_partitions(self) -> int:
        """How many partitions the topic has.

        Raises:
            ConfigurationError: there is no such topic, or no broker answers.
        """
        return len(self._partition_leaders())

    def _leader(self, log_partition: int) -> int:
        leaders = self._partition_leaders()
        if log_partition not in leaders:
            raise ConfigurationError(
                f"the cluster's {OFFSETS_TOPIC} has {len(leaders)} partitions, none of number"
                f" {log_partition}"
            )
        return leaders[log_partition]

    def _partition_leaders(self) -> dict[int, int]:
        if not self._leaders:
            self._leaders = self.patiently(self._ask_leaders)
        return self._leaders

    async def _ask_leaders(self) -> dict[int, int]:
        """The request has a broker create the topic, unless `auto.create.topics.enable` is off."""
        Topic = MetadataRequest.MetadataRequestTopic
        described = await self._connections.ask_any(
            lambda: MetadataRequest(
                topics=[Topic(name=OFFSETS_TOPIC)], min_version=1, max_version=9
            )
        )
        (topic,) = described.topics
        leaders = {p.partition_index: p.leader_id for p in topic.partitions}
        if not leaders:
            raise TransientFailure(f"there is no {OFFSETS_TOPIC}: let a group commit first")
        if min(leaders.values()) < 0:
            raise TransientFailure(f"a partition of {OFFSETS_TOPIC} has no leader")
        return leaders
