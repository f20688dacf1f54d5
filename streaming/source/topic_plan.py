"""The driver's planning of one internal topic: how far it is read, and how much is left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from streaming.errors import ConfigurationError, LogChanged, LogTruncated, NotAuthorised
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient
from streaming.kafka.leaders import RETRY_TIMEOUT_MS, LogDescription
from streaming.kafka.seen_log import OffsetAndEpoch
from streaming.source.log_range import LogRange
from streaming.source.options import FollowedTopic, SourceOptions

_MULTI_LEADER_POLL_MS: Final = 250
_RETRY_OTHERS_MS: Final = 1_000

logger = logging.getLogger(__name__)

Position = Mapping[str, Any]
"""The part of an offset that is of one topic: `topic_id` and `p`."""


class TopicPlan:
    """Plans the reading of one topic.

    While a wait for records is in flight, another thread uses the client; until it ends, the topic
    has no new records. Another topic than the one of offsets must not hold that one up: while its
    leaders do not answer, it has no new records, either.

    Args:
        topic: the topic, the log partitions of the query, and where they start.
        options: the options of the source.
    """

    def __init__(self, topic: FollowedTopic, options: SourceOptions) -> None:
        self.topic = topic
        self._is_away = False
        self._options = options
        self._client: LogClient | None = None
        self._description: LogDescription | None = None
        self._waiting: Future[bool] | None = None
        self.log_ends: dict[int, OffsetAndEpoch] = {}
        self.is_frozen = False
        """Whether `log_ends` stay, because the query ends there."""

    @property
    def client(self) -> LogClient:
        """The client of the topic; not for use while a wait is in flight."""
        if self._client is None:
            options = self._options
            retry_timeout_ms = options.retry_timeout_ms or RETRY_TIMEOUT_MS
            if self.topic.is_other:
                # The next planning is the retry.
                retry_timeout_ms = min(retry_timeout_ms, _RETRY_OTHERS_MS)
            self._client = LogClient(
                options.bootstrap_servers,
                kafka_client_config(options.kafka),
                self.topic.name,
                retry_timeout_ms=retry_timeout_ms,
                # The option comes from a run, which has reached the cluster.
                has_worked=self.topic.is_other or options.retry_timeout_ms is not None,
            )
        return self._client

    @property
    def is_waiting(self) -> bool:
        """Whether a wait for records is in flight."""
        return self._waiting is not None and not self._waiting.done()

    @property
    def description(self) -> LogDescription:
        """The topic's ids and leaders; of another topic those of the last answer."""
        if self._description is None or not (self.topic.is_other or self.is_waiting):
            self._description = self.client.describe()
        return self._description

    def initial_offsets(self) -> dict[int, int]:
        """The log start of every log partition, or its entry in `start_offsets`."""
        starts = self.topic.start_offsets
        self.client.expect(starts)
        wanted = self.log_partitions
        earliest = self.client.earliest_offsets(wanted)
        log_ends = self.ends()
        next_offsets = {}
        for log_partition in wanted:
            log_start, log_end = earliest[log_partition], log_ends[log_partition].offset
            next_offset = starts.get(log_partition, OffsetAndEpoch(log_start)).offset
            if not log_start <= next_offset <= log_end:
                raise self._truncated(log_partition, next_offset, log_start, log_end)
            next_offsets[log_partition] = next_offset
        return next_offsets

    def refresh_log_ends(self) -> dict[int, OffsetAndEpoch]:
        """Ask for the current high watermarks."""
        self.log_ends = self.client.log_ends(self.log_partitions)
        return self.log_ends

    def ends(self) -> dict[int, OffsetAndEpoch]:
        """The log ends up to which the query may read now."""
        return self.log_ends if self.is_frozen else self.refresh_log_ends()

    def left(self, position: Position) -> dict[int, int]:
        """The number of unread offsets of each log partition, up to its log end."""
        next_offsets = self.next_offsets(position)
        if self.is_waiting:
            return dict.fromkeys(next_offsets, 0)
        try:
            log_ends = self._ends_after(position)
        except TimeoutError as error:
            if not self.topic.is_other:
                raise
            self._note_away(error)
            return dict.fromkeys(next_offsets, 0)
        except NotAuthorised as error:
            if not self.topic.is_other:
                raise
            raise LogChanged(str(error)) from error
        self._is_away = False
        for log_partition, next_offset in next_offsets.items():
            if log_ends[log_partition].offset < next_offset:
                raise self._truncated(
                    log_partition,
                    next_offset,
                    self.client.earliest_offsets([log_partition])[log_partition],
                    log_ends[log_partition].offset,
                )
        return {p: log_ends[p].offset - next_offset for p, next_offset in next_offsets.items()}

    def _ends_after(self, position: Position) -> Mapping[int, OffsetAndEpoch]:
        """The log ends from leaders that have the log up to a position."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.result()
        self.client.expect(_seen(position))
        log_ends = self.ends()
        self._description = self.client.describe()
        return log_ends

    def _note_away(self, error: TimeoutError) -> None:
        """Log one line for each outage."""
        if not self._is_away:
            self._is_away = True
            logger.warning(
                "cannot read %(topic)s: %(error)s; reading the other topics and retrying",
                {"topic": self.topic.name, "error": error},
            )

    def wait(self, position: Position) -> Future[bool]:
        """Wait for new records for up to `long_poll_ms`; the result is whether a leader has some.

        A wait that is in flight goes on. One that has ended without records is followed by another.
        """
        waiting = self._waiting
        if waiting is None or (
            waiting.done() and waiting.exception() is None and not waiting.result()
        ):
            waiting = self._waiting = self._in_background(self.next_offsets(position))
        return waiting

    def next_offsets(self, position: Position) -> dict[int, int]:
        """Read a position; refuse one of another topic of this name, or other log partitions."""
        description = self.description
        description.require_same_log(
            cluster_id=description.cluster_id, topic_id=position["topic_id"]
        )
        next_offsets = {int(p): next_offset for p, (next_offset, *_) in position["p"].items()}
        if sorted(next_offsets) != self.log_partitions:
            raise LogChanged(
                f"the checkpoint has {len(next_offsets)} log partitions, but not the "
                f"{len(self.log_partitions)} of this query: name a new folder with --checkpoint"
            )
        return next_offsets

    def position(self, next_offsets: Mapping[int, int]) -> dict[str, Any]:
        """The position with these next offsets, and the leader epochs of their records."""
        ends = {p: self.log_ends[p]._replace(offset=at) for p, at in next_offsets.items()}
        return self._position(self.client.with_entries(ends))

    @property
    def end_position(self) -> dict[str, Any]:
        """The position of the last known log ends; nobody is asked."""
        return self._position(self.log_ends)

    def _position(self, ends: Mapping[int, OffsetAndEpoch]) -> dict[str, Any]:
        return {
            "topic_id": self.description.topic_id,
            "p": {str(log_partition): end.values for log_partition, end in sorted(ends.items())},
        }

    def ranges(self, start: Position, end: Position) -> list[LogRange]:
        """The range of each log partition between two positions."""
        from_offsets, to_offsets = self.next_offsets(start), self.next_offsets(end)
        if not self.log_ends:
            self.refresh_log_ends()
        ranges = []
        for log_partition, to_offset in to_offsets.items():
            bound = self.topic.start_offsets.get(log_partition, OffsetAndEpoch(0)).offset
            ranges.append(
                LogRange(
                    topic=self.topic.name,
                    log_partition=log_partition,
                    from_offset=min(max(from_offsets[log_partition], bound), to_offset),
                    high_watermark=max(self.log_ends[log_partition].offset, to_offset),
                    end=OffsetAndEpoch.of(end["p"][str(log_partition)]),
                )
            )
        return ranges

    @property
    def log_partitions(self) -> list[int]:
        """The log partitions of the query, in order."""
        leaders = self.description.leaders
        wanted: Sequence[int] = self.topic.log_partitions or sorted(leaders)
        missing = [p for p in wanted if p not in leaders]
        if missing:
            raise ConfigurationError(
                f"topic {self.topic.name} has {len(leaders)} partitions, but no log partition "
                f"{missing[0]}: name log partitions from 0 to {len(leaders) - 1}"
            )
        return list(wanted)

    def close(self) -> None:
        """Close the connections, unless a wait is in flight: the process ends soon."""
        if self._client is not None and not self.is_waiting:
            self._client.close()
            self._client = None

    def _in_background(self, next_offsets: Mapping[int, int]) -> Future[bool]:
        future: Future[bool] = Future()

        def run() -> None:
            try:
                future.set_result(self._wait_for_records(next_offsets))
            except Exception as error:  # noqa: BLE001 - `left` raises it
                future.set_exception(error)

        # A daemon: the process may end during the wait.
        threading.Thread(target=run, name=f"wait {self.topic.name}", daemon=True).start()
        return future

    def _wait_for_records(self, next_offsets: Mapping[int, int]) -> bool:
        """Wait up to `long_poll_ms` for new records; return whether a leader has some.

        A leader holds a fetch until it has records. With several leaders each fetch is short, so
        that records of one leader do not have to wait for the others.
        """
        client = self.client
        leaders = client.describe().leaders
        is_single = len({leaders[p][0] for p in next_offsets}) == 1
        deadline = time.monotonic() + self._options.long_poll_ms / 1000
        while (left_ms := int((deadline - time.monotonic()) * 1000)) > 0:
            answers = client.fetch(
                next_offsets,
                max_bytes=1,
                max_partition_bytes=1,
                max_wait_ms=left_ms if is_single else min(left_ms, _MULTI_LEADER_POLL_MS),
            )
            if any(answer.high_watermark > next_offsets[p] for p, answer in answers.items()):
                return True
        return False

    def _truncated(
        self, log_partition: int, next_offset: int, log_start: int, log_end: int
    ) -> LogTruncated:
        return LogTruncated(
            topic=self.topic.name,
            log_partition=log_partition,
            record_offset=next_offset,
            log_start=log_start,
            log_end=log_end,
        )


def _seen(position: Position) -> dict[int, OffsetAndEpoch]:
    return {int(p): OffsetAndEpoch.of(at) for p, at in position["p"].items()}
