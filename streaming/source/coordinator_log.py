"""The streaming data source `coordinator_log`: the logs of internal topics as rows.

Spark's own Kafka source cannot read these topics: it skips internal topics, and hides producer ids
and markers. This source plans on the driver, in one long-lived process per query, and reads in
worker processes. Its rows are described in `coordinator_state.log.log_rows`.

The topic `__consumer_offsets` (option `topic`) is always read, others on request. A micro-batch
ends at the high watermarks, or earlier if admission control limits it. It has every log partition
of the query: one without new records costs no fetch, but has a `progress` row, too. Offsets are

    {"v": 3, "cluster_id": .., "topic_id": ..,
     "p": {"0": [next_offset, leader_epoch, [[leader_epoch, start_offset], ..]], ...},
     "others": {"__transaction_state": {"topic_id": .., "p": {..}}, ..}}

with the epoch of a leader whose high watermark was at or above the offset, and the last epochs of
the records below it. A later leader must know these epochs, and their ends (KIP-320).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coordinator_state.log.log_rows import LOG_ROW_SCHEMA, PACKED_ROW_SCHEMA, pack
from streaming.errors import ConfigurationError, LogChanged, NotAuthorised
from streaming.kafka.fetch import shared_log_client
from streaming.kafka.leaders import RETRY_TIMEOUT_MS
from streaming.source import MOST_RECORDS_PER_TRIGGER, OFFSET_FORMAT_VERSION
from streaming.source.kernel_cache import ensure_kernel_cache
from streaming.source.log_range import LogRange, read_ranges
from streaming.source.log_sample import MOST_STAYING_BYTES, offsets_of_records, offsets_that_fit
from streaming.source.micro_batch import LogDensity, group_ranges, share_out
from streaming.source.options import FollowedTopic, SourceOptions
from streaming.source.topic_plan import Position, TopicPlan

_MOST_OF_OTHERS: Final = 20_000
"""Records of other topics are applied one by one: this many take about a second."""
_RETRY_OTHERS_MS: Final = 20_000
"""After this time the query restarts without the topics that do not answer."""
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class CoordinatorLogDataSource(DataSource):
    """The data source for Spark; `spark.dataSource.register` registers it by its name."""

    @classmethod
    def name(cls) -> str:
        """The name for `readStream.format`."""
        return "coordinator_log"

    def schema(self) -> StructType:
        """`LOG_ROW_SCHEMA` or the schema of packed rows, in Spark's types."""
        from pyspark.sql.pandas.types import from_arrow_schema

        is_packed = SourceOptions.read(self.options).packed
        return from_arrow_schema(PACKED_ROW_SCHEMA if is_packed else LOG_ROW_SCHEMA)

    def streamReader(self, schema: StructType) -> CoordinatorLogStreamReader:  # noqa: ARG002
        """The reader of one query."""
        return CoordinatorLogStreamReader(SourceOptions.read(self.options))


@dataclass(frozen=True)
class LogRangeGroup(InputPartition):
    """The ranges that one task reads; `topic_ids` has the id of each topic by its name.

    `read_at_ms` is the time of the planning, so a task that is tried again returns the same rows.
    """

    cluster_id: str
    topic_ids: Mapping[str, str]
    ranges: tuple[LogRange, ...]
    read_at_ms: int


class CoordinatorLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and reads their ranges in workers.

    It is pickled as its options: connections belong to the process that opened them.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._is_available_now = False
        self._density = LogDensity()
        self._plans = [TopicPlan(topic, options) for topic in options.topics]
        self._offsets = self._plans[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    def initialOffset(self) -> dict[str, Any]:
        """The log start of every log partition, or its entry in `start_offsets`."""
        _log_like_run()
        return self._offset([plan.position(plan.initial_offsets()) for plan in self._plans])

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `max_records_per_trigger` offsets; `max_bytes_per_trigger` limits it further."""
        return ReadMaxRows(self._options.max_records_per_trigger or MOST_RECORDS_PER_TRIGGER)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start` if no new records arrive for `long_poll_ms`."""
        _log_like_run()
        positions = self._positions(start)
        left = self._left(positions)
        if not any(map(_any, left)) and not self._is_available_now and self._wait(positions):
            left = self._left(positions)
        if not any(map(_any, left)):
            return start
        return self._offset(
            [
                self._planned(plan, position, of_topic, limit) if _any(of_topic) else position
                for plan, position, of_topic in zip(self._plans, positions, left, strict=True)
            ]
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query at the current high watermarks."""
        for plan in self._plans:
            plan.refresh_log_ends()
            plan.is_frozen = True
        self._is_available_now = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The last known high watermarks, for the progress of the query."""
        if not all(plan.log_ends for plan in self._plans):
            return None
        return self._offset([plan.end_position for plan in self._plans])

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Group the ranges into at most `tasks` tasks, evenly by offsets to read."""
        starts, ends = self._positions(start), self._positions(end)
        plans = list(zip(self._plans, starts, ends, strict=True))
        ranges = [log_range for plan, *between in plans for log_range in plan.ranges(*between)]
        leaders = {
            (plan.topic.name, p): node
            for plan in self._plans
            for p, (node, _) in plan.description.leaders.items()
        }
        read_at_ms = time.time_ns() // 1_000_000
        return [
            LogRangeGroup(
                cluster_id=end["cluster_id"],
                topic_ids={plan.topic.name: to["topic_id"] for plan, _, to in plans},
                ranges=tuple(group),
                read_at_ms=read_at_ms,
            )
            for group in group_ranges(ranges, leaders, self._options.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges, in a worker process."""
        if not isinstance(partition, LogRangeGroup):
            raise TypeError(f"not a partition of this source: {partition!r}")
        _log_like_run()
        ensure_kernel_cache()
        rows = chain.from_iterable(
            self._read_topic(partition, topic) for topic in self._options.topics
        )
        return map(pack, rows) if self._options.packed else rows

    def stop(self) -> None:
        """Close the driver's connections."""
        for plan in self._plans:
            plan.close()

    def _read_topic(self, group: LogRangeGroup, topic: FollowedTopic) -> Iterator[pa.RecordBatch]:
        """Read the ranges of one topic; a group may have none."""
        ranges = [log_range for log_range in group.ranges if log_range.topic == topic.name]
        if not ranges:
            return
        options, topic_id = self._options, group.topic_ids[topic.name]
        retry_timeout_ms = options.retry_timeout_ms or RETRY_TIMEOUT_MS
        if topic.is_other:
            retry_timeout_ms = min(retry_timeout_ms, _RETRY_OTHERS_MS)
        client = shared_log_client(
            options.bootstrap_servers, options.kafka, topic.name, topic_id, retry_timeout_ms
        )
        unread = [log_range for log_range in ranges if not log_range.is_empty]
        # A later leader must have all records that the planning saw; otherwise the micro-batch
        # could mix two logs.
        client.expect({log_range.log_partition: log_range.end for log_range in unread})
        try:
            known = client.describe().leaders if unread else {}
            if any(log_range.log_partition not in known for log_range in unread):
                # The topic got more partitions since the last metadata request of this process.
                client.refresh()
            if unread:
                client.describe().require_same_log(cluster_id=group.cluster_id, topic_id=topic_id)
            yield from read_ranges(
                client,
                ranges,
                sampling=options.sampling(group.read_at_ms),
                retry_timeout_ms=retry_timeout_ms,
            )
        except NotAuthorised as error:
            if not topic.is_other:
                raise
            # The query starts again without it.
            raise LogChanged(str(error)) from error

    def _positions(self, offset: Mapping[str, Any]) -> list[Position]:
        """The positions of the topics; refuse another format version, cluster or other topics."""
        if offset.get("v") != OFFSET_FORMAT_VERSION:
            raise ConfigurationError(
                f"the checkpoint has offsets of format version {offset.get('v')}, but this release "
                f"reads {OFFSET_FORMAT_VERSION}: name a new folder with --checkpoint"
            )
        description = self._offsets.description
        description.require_same_log(cluster_id=offset["cluster_id"], topic_id=offset["topic_id"])
        _, *others = (plan.topic.name for plan in self._plans)
        if set(offset["others"]) != set(others):
            topics = ", ".join([self._options.topic, *offset["others"]])
            raise LogChanged(
                f"the checkpoint has the topics {topics}, but this query reads others: name a new "
                "folder with --checkpoint"
            )
        return [offset, *(offset["others"][topic] for topic in others)]

    def _offset(self, positions: Sequence[Position]) -> dict[str, Any]:
        """The source offset for a position in each topic."""
        of_offsets, *others = positions
        return {
            "v": OFFSET_FORMAT_VERSION,
            "cluster_id": self._offsets.description.cluster_id,
            "topic_id": of_offsets["topic_id"],
            "p": of_offsets["p"],
            "others": {
                plan.topic.name: position
                for plan, position in zip(self._plans[1:], others, strict=True)
            },
        }

    def _left(self, positions: Sequence[Position]) -> list[dict[int, int]]:
        """The number of unread offsets of each topic and log partition."""
        return [plan.left(position) for plan, position in zip(self._plans, positions, strict=True)]

    def _wait(self, positions: Sequence[Position]) -> bool:
        """Wait up to `long_poll_ms` until a topic has new records; return whether one has."""
        deadline = time.monotonic() + self._options.long_poll_ms / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            # A topic whose wait has ended without records is waited for again.
            waits = [
                plan.wait(position) for plan, position in zip(self._plans, positions, strict=True)
            ]
            done, _ = wait(waits, left_s, FIRST_COMPLETED)
            if any(future.exception() is not None or future.result() for future in done):
                return True
        return False

    def _planned(
        self, plan: TopicPlan, position: Position, left: Mapping[int, int], limit: ReadLimit
    ) -> Position:
        """The end of the next micro-batch in a topic that has unread records."""
        next_offsets = plan.next_offsets(position)
        shares: Mapping[int, int]
        if plan is self._offsets:
            shares = share_out(left, self._budget(limit, next_offsets, left))
        else:
            shares = self._shares_of_other(plan, next_offsets, left, limit)
        return plan.position({p: at + shares[p] for p, at in next_offsets.items()})

    def _shares_of_other(
        self,
        plan: TopicPlan,
        next_offsets: Mapping[int, int],
        left: Mapping[int, int],
        limit: ReadLimit,
    ) -> Mapping[int, int]:
        """The offsets of another topic that a micro-batch spans, by log partition."""
        most = min(self._options.max_records_per_trigger or _MOST_OF_OTHERS, _MOST_OF_OTHERS)
        if isinstance(limit, ReadAllAvailable) or sum(left.values()) <= most:
            return left
        try:
            return offsets_of_records(plan.client, next_offsets, left, most)
        except TimeoutError:
            # Its leaders were here a moment ago; the next planning tells.
            return dict.fromkeys(left, 0)

    def _budget(
        self, limit: ReadLimit, next_offsets: Mapping[int, int], left: Mapping[int, int]
    ) -> int | None:
        """The most offsets that a micro-batch may span; None means no limit."""
        if isinstance(limit, ReadAllAvailable):
            return None
        options = self._options
        offsets = options.max_records_per_trigger or MOST_RECORDS_PER_TRIGGER
        if isinstance(limit, ReadMaxRows):
            offsets = limit.max_rows
        client = self._offsets.client
        if options.max_records_per_trigger is None:
            fitting = offsets_that_fit(
                client,
                next_offsets,
                left,
                sampling=options.sampling(time.time_ns() // 1_000_000),
                most_bytes=options.planning_tasks * MOST_STAYING_BYTES,
            )
            offsets = min(offsets, fitting)
        if options.max_bytes_per_trigger is not None:
            by_bytes = options.max_bytes_per_trigger / self._density.bytes_per_offset(
                client, next_offsets, left
            )
            offsets = min(offsets, max(1, int(by_bytes)))
        return offsets


def _any(left: Mapping[int, int]) -> bool:
    return any(left.values())


def _log_like_run() -> None:
    """Format log lines as `run` does: Spark's Python processes do not configure logging."""
    logging.basicConfig(format=_LOG_FORMAT)
