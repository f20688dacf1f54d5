"""Raw record batches of one topic, and the offsets around them, from the leaders.

Fetches are READ_UNCOMMITTED: brokers deliver all transactional records and markers up to the high
watermark. Record sets keep the bytes that the broker sent. From version 13 on Fetch names the topic
by id (KIP-516), so a recreated topic is detected. Every request has the leader epoch (KIP-320).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import FetchRequest

from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError, LogChanged, LogTruncated
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.connections import RECEIVE_MESSAGE_MAX_BYTES, TransientFailure
from streaming.kafka.leader_epochs import LeaderEpochs
from streaming.kafka.leaders import LogDescription, TopicLeaders
from streaming.kafka.log_requests import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    list_offsets_request,
)
from streaming.kafka.seen_log import NO_LEADER_EPOCH, OffsetAndEpoch, agreed_ends, log_offset

logger = logging.getLogger(__name__)

__all__ = [
    "FetchedRecords",
    "LogClient",
    "LogDescription",
    "OffsetAndEpoch",
    "shared_log_client",
]

FIRST_CONTACT_TIMEOUT_MS: Final = 15_000
RETRY_TIMEOUT_MS: Final = 600_000
TRIES_ONCE_MS: Final = 1
"""For callers with their own retries: the first failure raises, and nothing is logged."""
DEFAULT_MAX_BYTES: Final = 16 << 20
DEFAULT_MAX_PARTITION_BYTES: Final = 8 << 20

_SHORT_ANSWER_BYTES: Final = 64 << 10
LARGEST_MAX_BYTES: Final = RECEIVE_MESSAGE_MAX_BYTES // 2
_READ_UNCOMMITTED: Final = 0
_NO_SESSION: Final = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedRecords:
    """The record set of one log partition: whole batches, except that the last may be cut off.

    `is_unreadable`: the broker found a damaged batch when it looked up the fetch offset.
    """

    records: bytes
    high_watermark: int
    log_start_offset: int
    is_unreadable: bool = False


class LogClient:
    """Reads one topic's log from its leaders, and follows leader changes.

    Calls block and retry transient failures (a moved leader, a restarting broker). Only one thread
    at a time may call. Until the first leader has answered, the shorter `first_contact_timeout_ms`
    applies. A caller that knows that the cluster exists passes `retry_timeout_ms` for both.

    Args:
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        topic: the topic to read.
        first_contact_timeout_ms: how long calls retry until a leader has answered once.
        retry_timeout_ms: how long calls retry after that.
        stop: an event that ends the retries.

    All methods raise:
        ConfigurationError: no broker at the address, no such topic, no authorisation, a wrong
            security setting, or another cluster or topic than before.
        LogTruncated: a leader lacks an expected record offset, see `expect`.
        TimeoutError: no leader gave a usable answer for `retry_timeout_ms`.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any] | None = None,
        topic: str = OFFSETS_TOPIC,
        *,
        first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        stop: threading.Event | None = None,
    ) -> None:
        self.topic = topic
        self._leaders = TopicLeaders(
            bootstrap_servers,
            kafka_config or {},
            topic,
            first_contact_timeout_ms=first_contact_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
            stop=stop or threading.Event(),
        )
        self._epochs = LeaderEpochs()

    def describe(self) -> LogDescription:
        """Return the topic's ids and leaders from the cached metadata."""

        async def attempt() -> LogDescription:
            return self._leaders.description

        return self._leaders.with_retries("describe the topic", attempt)

    def refresh(self) -> LogDescription:
        """Fetch the metadata again, and return the topic's ids and leaders.

        Raises:
            LogChanged: the topic was deleted and created again.
        """
        self._leaders.expire_metadata()
        return self.describe()

    def expect(self, seen: Mapping[int, OffsetAndEpoch]) -> None:
        """Read these log partitions only from leaders that have the log up to `seen` (KIP-320).

        A leader of a later epoch is first asked where the seen epoch ended. If it ended below the
        seen record offset, every call raises `LogTruncated`.
        """
        self._leaders.expect(seen)

    def agreed_ends(self, seen: Mapping[int, OffsetAndEpoch]) -> dict[int, int]:
        """Return the end of the common part of each log and the records read from it (KIP-320).

        In an intact log this is the seen offset. The result omits a log partition if its leader
        does not know it.
        """

        async def attempt() -> dict[int, int | None]:
            agreed, failure = await agreed_ends(self._leaders, seen)
            if failure is not None:
                raise failure
            return agreed

        ends = self._leaders.with_retries("look up leader epochs", attempt)
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
                self._leaders.with_retries(
                    "look up leader epochs", lambda: self._epochs.look_up(self._leaders, asked)
                )
        except LogChanged:
            raise
        except (ConfigurationError, TimeoutError) as error:
            logger.debug("cannot look up leader epochs: %(error)s", {"error": error})
        return {p: end._replace(entries=self._epochs.below(p, end)) for p, end in ends.items()}

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
        leaders = self._leaders

        async def attempt() -> dict[int, FetchedRecords]:
            fetched: dict[int, FetchedRecords] = {}
            answers, failure = await leaders.ask(
                fetch_offsets,
                lambda group: self._fetch_request(
                    {log_partition: fetch_offsets[log_partition] for log_partition in group},
                    max_bytes=max_bytes,
                    max_partition_bytes=max_partition_bytes,
                    max_wait_ms=max_wait_ms,
                ),
                timeout_ms=max_wait_ms
                + (
                    leaders.short_answer_timeout_ms
                    if max_bytes <= _SHORT_ANSWER_BYTES
                    else leaders.request_timeout_ms
                ),
            )
            for answer in answers:
                leaders.check(answer.error_code, "fetch")
                for data in (data for topic in answer.responses for data in topic.partitions):
                    log_partition = data.partition_index
                    try:
                        if data.error_code == kafka_errors.OffsetOutOfRangeError.errno:
                            await self._raise_truncated(log_partition, fetch_offsets[log_partition])
                        if data.error_code != kafka_errors.CorruptRecordError.errno:
                            leaders.check(data.error_code, f"log partition {log_partition}")
                    except TransientFailure as error:
                        failure = error
                    else:
                        fetched[log_partition] = _fetched_records(data)
            if failure is not None:
                leaders.expire_metadata()
                if not fetched:
                    raise failure
            return fetched

        return leaders.with_retries("fetch", attempt)

    def log_sizes(self) -> dict[int, int]:
        """Return the size in bytes of each log partition on its leader (DescribeLogDirs).

        The result omits leaderless log partitions. It is empty without the ACL Describe on the
        cluster.
        """

        def request_for(log_partitions: list[int]) -> DescribeLogDirsRequest:
            topic = DescribeLogDirsRequest.DescribableLogDirTopic(
                topic=self.topic, partitions=log_partitions
            )
            return DescribeLogDirsRequest(topics=[topic])

        async def attempt() -> dict[int, int]:
            led = self._leaders.description.with_leader
            answers, failure = await self._leaders.ask(led, request_for)
            if failure is not None:
                raise failure
            return {
                data.partition_index: data.partition_size
                for answer in answers
                for log_dir in answer.results
                for topic in log_dir.topics
                for data in topic.partitions
                if topic.name == self.topic and not data.is_future_key
            }

        return self._leaders.with_retries("describe the log directories", attempt)

    def close(self) -> None:
        """Close the connections and end the IO thread."""
        self._leaders.close()

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
        return self._leaders.ask_every(
            operation,
            self.describe().leaders if log_partitions is None else log_partitions,
            lambda group: list_offsets_request(
                self.topic, self._leaders.leader_epochs(group), timestamp
            ),
            lambda data: data.partition_index,
        )

    async def _raise_truncated(self, log_partition: int, fetch_offset: int) -> None:
        """Raise `LogTruncated`, or `TransientFailure` if the offset is in the log."""
        log_start = await log_offset(self._leaders, log_partition, EARLIEST)
        log_end = await log_offset(self._leaders, log_partition, LATEST)
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

    def _fetch_request(
        self,
        fetch_offsets: Mapping[int, int],
        *,
        max_bytes: int,
        max_partition_bytes: int,
        max_wait_ms: int,
    ) -> FetchRequest:
        Topic = FetchRequest.FetchTopic
        leader_epochs = self._leaders.leader_epochs(fetch_offsets)
        partitions = [
            Topic.FetchPartition(
                partition=log_partition,
                current_leader_epoch=leader_epochs[log_partition],
                fetch_offset=fetch_offset,
                last_fetched_epoch=NO_LEADER_EPOCH,
                log_start_offset=-1,
                partition_max_bytes=min(max_partition_bytes, LARGEST_MAX_BYTES),
            )
            for log_partition, fetch_offset in fetch_offsets.items()
        ]
        topic = Topic(topic=self.topic, topic_id=self._leaders.topic_uuid, partitions=partitions)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=min(max_bytes, LARGEST_MAX_BYTES),
            isolation_level=_READ_UNCOMMITTED,
            topics=[topic],
            rack_id="",
            # The first version with record batches of magic 2 in its responses.
            min_version=4,
            **_NO_SESSION,
        )


def _offsets(positions: Mapping[int, OffsetAndEpoch]) -> dict[int, int]:
    return {log_partition: at.offset for log_partition, at in positions.items()}


def _fetched_records(data: Any) -> FetchedRecords:
    return FetchedRecords(
        records=data.records or b"",
        high_watermark=data.high_watermark,
        log_start_offset=-1 if data.log_start_offset is None else data.log_start_offset,
        is_unreadable=data.error_code == kafka_errors.CorruptRecordError.errno,
    )


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
            first_contact_timeout_ms=retry_timeout_ms,
            retry_timeout_ms=retry_timeout_ms,
        )
    return _shared_clients[key]
