"""Raw record batches of one topic, and the offsets around them, from the leaders.

Fetches are READ_UNCOMMITTED: brokers deliver all transactional records and markers up to the high
watermark. Record sets keep the bytes that the broker sent. From version 13 on Fetch names the topic
by id (KIP-516), so a recreated topic is detected. Every request has the leader epoch (KIP-320).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError, LogChanged, LogTruncated
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.connections import RECEIVE_MESSAGE_MAX_BYTES, TransientFailure
from streaming.kafka.leaders import RETRY_TIMEOUT_MS, TopicClient
from streaming.kafka.log_requests import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    FetchFrom,
    fetch_request,
    list_offsets_request,
)
from streaming.kafka.seen_log import OffsetAndEpoch, log_offset, partitions_of

logger = logging.getLogger(__name__)

DEFAULT_MAX_BYTES: Final = 16 << 20
DEFAULT_MAX_PARTITION_BYTES: Final = 8 << 20

_SHORT_ANSWER_BYTES: Final = 64 << 10
LARGEST_MAX_BYTES: Final = RECEIVE_MESSAGE_MAX_BYTES // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """The record set of one log partition: whole batches, except that the last may be cut off.

    `is_unreadable`: the broker found a damaged batch when it looked up the fetch offset.
    """

    records: bytes
    high_watermark: int
    is_unreadable: bool = False


class LogClient(TopicClient):
    """Reads one topic's log from its leaders, and follows leader changes."""

    def earliest_offsets(self, log_partitions: Collection[int] | None = None) -> dict[int, int]:
        """Return the log start of log partitions; None means all."""
        log_starts = self._list_offsets("list the log start offsets", EARLIEST, log_partitions)
        return _offsets(log_starts)

    def high_watermarks(self, log_partitions: Collection[int] | None = None) -> dict[int, int]:
        """Return the high watermark of log partitions, the end of the readable records."""
        return _offsets(self.log_ends(log_partitions))

    def newest_timestamps(self, from_offsets: Mapping[int, int]) -> dict[int, datetime]:
        """Return the newest timestamp of each log, if its record is at or after a record offset.

        The result omits logs whose newest timestamp is of an earlier record. It is empty for
        brokers before 3.0, which do not support the request (KIP-734).
        """
        try:
            answers = self._ask_offsets("list the newest timestamps", MAX_TIMESTAMP, from_offsets)
        except LogChanged:
            raise
        except ConfigurationError as error:
            logger.debug("cannot list the newest timestamps: %(error)s", {"error": error})
            return {}
        return {
            p: datetime.fromtimestamp(min(data.timestamp, MAX_TIMESTAMP_MS) / 1000, timezone.utc)
            for p, data in answers.items()
            if data.timestamp >= 0 and data.offset >= from_offsets[p]
        }

    def log_ends(self, log_partitions: Collection[int] | None = None) -> dict[int, OffsetAndEpoch]:
        """Return the high watermarks, each with the leader epoch of the answer."""
        return self._list_offsets("list the high watermarks", LATEST, log_partitions)

    def fetch(
        self,
        fetch_offsets: Mapping[int, int],
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_partition_bytes: int = DEFAULT_MAX_PARTITION_BYTES,
        max_wait_ms: int = 500,
    ) -> dict[int, FetchedRecords]:
        """Fetch from several log partitions, with one request per leader to all leaders at once.

        A leader fills the log partitions in the order of `fetch_offsets`, up to `max_bytes`. The
        first one with records gets a whole batch even if that is larger. A leader without new
        records waits up to `max_wait_ms`. The result omits log partitions whose leader did not
        answer, and all of a leader that throttles this client (KIP-219).

        Raises:
            LogTruncated: a fetch offset is not in the log.
        """
        connections = self.connections
        answer_ms = (
            connections.short_answer_timeout_ms
            if max_bytes <= _SHORT_ANSWER_BYTES
            else connections.request_timeout_ms
        )

        def request_for(log_partitions: list[int]) -> FetchRequest:
            most_bytes = min(max_partition_bytes, LARGEST_MAX_BYTES)
            places = {
                at: FetchFrom(fetch_offsets[at.partition], most_bytes, leader_epoch)
                for at, leader_epoch in self.leader_epochs(log_partitions).items()
            }
            return fetch_request(
                places,
                {self.topic: self.topic_uuid},
                max_bytes=min(max_bytes, LARGEST_MAX_BYTES),
                max_wait_ms=max_wait_ms,
            )

        async def attempt() -> dict[int, FetchedRecords]:
            fetched: dict[int, FetchedRecords] = {}
            answers, failure = await self.ask(fetch_offsets, request_for, max_wait_ms + answer_ms)
            for answer in answers:
                self.check(answer.error_code, "fetch")
                for data in (data for topic in answer.responses for data in topic.partitions):
                    log_partition = data.partition_index
                    try:
                        records = await self._fetched(data, fetch_offsets[log_partition])
                    except TransientFailure as error:
                        failure = error
                    else:
                        fetched[log_partition] = records
            if failure is not None:
                self.expire_metadata()
                if not fetched:
                    raise failure
            return fetched

        return self.with_retries("fetch", attempt)

    def _list_offsets(
        self, operation: str, timestamp: int, log_partitions: Collection[int] | None
    ) -> dict[int, OffsetAndEpoch]:
        answers = self._ask_offsets(operation, timestamp, log_partitions)
        return {
            log_partition: OffsetAndEpoch(data.offset, data.leader_epoch)
            for log_partition, data in sorted(answers.items())
        }

    def _ask_offsets(
        self, operation: str, timestamp: int, log_partitions: Collection[int] | None
    ) -> dict[int, Any]:
        """Return the answer of each log partition; retry only those that have not answered."""
        wanted = self.describe().leaders if log_partitions is None else log_partitions
        answer_by_partition: dict[int, Any] = {}

        async def attempt() -> None:
            missing = [p for p in wanted if p not in answer_by_partition]
            answers, failure = await self.ask(
                missing, lambda group: list_offsets_request(self.leader_epochs(group), timestamp)
            )
            for data in partitions_of(answers):
                try:
                    self.check(data.error_code, f"log partition {data.partition_index}")
                except TransientFailure as error:
                    failure = error
                else:
                    answer_by_partition[data.partition_index] = data
            if failure is not None:
                raise failure

        self.with_retries(operation, attempt)
        return answer_by_partition

    async def _fetched(self, data: Any, fetch_offset: int) -> FetchedRecords:
        log_partition = data.partition_index
        if data.error_code == kafka_errors.OffsetOutOfRangeError.errno:
            await self._raise_truncated(log_partition, fetch_offset)
        is_unreadable = data.error_code == kafka_errors.CorruptRecordError.errno
        if not is_unreadable:
            self.check(data.error_code, f"log partition {log_partition}")
        return FetchedRecords(
            records=data.records or b"",
            high_watermark=data.high_watermark,
            is_unreadable=is_unreadable,
        )

    async def _raise_truncated(self, log_partition: int, fetch_offset: int) -> None:
        """Raise `LogTruncated`, or `TransientFailure` if the offset is in the log."""
        log_start = await log_offset(self, log_partition, EARLIEST)
        log_end = await log_offset(self, log_partition, LATEST)
        if log_start <= fetch_offset <= log_end:
            raise TransientFailure(
                f"log partition {log_partition}: fetch offset {fetch_offset} was out of range"
            )
        raise LogTruncated(
            topic=self.topic,
            log_partition=log_partition,
            record_offset=fetch_offset,
            log_start=log_start,
            log_end=log_end,
        )


def _offsets(positions: Mapping[int, OffsetAndEpoch]) -> dict[int, int]:
    return {log_partition: at.offset for log_partition, at in positions.items()}


_shared_clients: dict[tuple[Any, ...], LogClient] = {}


def shared_log_client(
    bootstrap_servers: str,
    kafka_options: Mapping[str, str],
    topic: str = OFFSETS_TOPIC,
    topic_id: str = "",
    retry_timeout_ms: int = RETRY_TIMEOUT_MS,
) -> LogClient:
    """Return this process's client for these settings; it uses the full timeout from the start.

    A Spark worker process serves many tasks, which share the connections of this client. The driver
    reached the cluster when it planned the task. So a worker that starts while a broker restarts
    retries for the full timeout.

    Args:
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_options: settings by name, as `kafka_client_config` takes them.
        topic: the topic to read.
        topic_id: the topic's id when the task was planned. A client reads only the topic id that it
            saw first, so another id gets another client.
        retry_timeout_ms: how long calls retry.
    """
    settings = tuple(sorted(kafka_options.items()))
    key = (os.getpid(), bootstrap_servers, topic, topic_id, retry_timeout_ms, settings)
    if key not in _shared_clients:
        _shared_clients[key] = LogClient(
            bootstrap_servers,
            kafka_client_config(kafka_options),
            topic,
            retry_timeout_ms=retry_timeout_ms,
            has_worked=True,
        )
    return _shared_clients[key]
