"""The streaming data source `coordinator_log`: the log of `__consumer_offsets` as rows.

Spark's own Kafka source cannot read this topic: it skips internal topics, and hides producer ids
and markers. This source plans on the driver, in one long-lived process per query, and reads in
worker processes. Its rows are described in `coordinator_state.log.log_rows`.

A micro-batch ends at the high watermarks, or earlier if admission control limits it. It has every
log partition of the query: one without new records costs no fetch, but has a `progress` row, too.
Offsets are

    {"v": 1, "cluster_id": .., "topic_id": .., "p": {"0": [next_offset, leader_epoch], ...}}

with the epoch of a leader whose high watermark was at or above the offset. If a later leader
answers that the epoch ended below the offset, the log was truncated (KIP-320).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from streaming.errors import ConfigurationError, LogChanged, LogTruncated
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import (
    FIRST_CONTACT_TIMEOUT_MS,
    RETRY_TIMEOUT_MS,
    LogClient,
    LogDescription,
    OffsetAndEpoch,
    shared_log_client,
)
from streaming.source import MOST_RECORDS_PER_TRIGGER, OFFSET_FORMAT_VERSION
from streaming.source.kernel_cache import ensure_kernel_cache
from streaming.source.log_range import LogRange, read_ranges
from streaming.source.log_sample import MOST_STAYING_BYTES, offsets_that_fit
from streaming.source.micro_batch import LogDensity, group_ranges, share_out
from streaming.source.options import SourceOptions

_MULTI_LEADER_POLL_MS: Final = 250
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
    """The ranges that one task reads."""

    cluster_id: str
    topic_id: str
    ranges: tuple[LogRange, ...]


class CoordinatorLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and reads their ranges in workers.

    It is pickled as its options: connections belong to the process that opened them.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: LogClient | None = None
        self._is_available_now = False
        self._log_ends: dict[int, OffsetAndEpoch] = {}
        self._density = LogDensity()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    def initialOffset(self) -> dict[str, Any]:
        """The log start of every log partition, or its entry in `start_offsets`."""
        client, starts = self._connected(), self._options.start_offsets
        client.expect(starts)
        wanted = self._log_partitions(client.describe())
        earliest, log_ends = client.earliest_offsets(wanted), self._ends()
        next_offsets = {}
        for log_partition in wanted:
            log_start, log_end = earliest[log_partition], log_ends[log_partition].offset
            next_offset = starts.get(log_partition, OffsetAndEpoch(log_start)).offset
            if not log_start <= next_offset <= log_end:
                raise self._truncated(log_partition, next_offset, log_start, log_end)
            next_offsets[log_partition] = next_offset
        return self._offset(next_offsets)

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `max_records_per_trigger` offsets; `max_bytes_per_trigger` limits it further."""
        return ReadMaxRows(self._options.max_records_per_trigger or MOST_RECORDS_PER_TRIGGER)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next micro-batch; `start` if no new records arrive for `long_poll_ms`."""
        self._connected().expect(_seen(start))
        next_offsets = self._next_offsets(start)
        left = self._left(next_offsets)
        is_live = not self._is_available_now
        if not any(left.values()) and is_live and self._wait_for_records(next_offsets):
            left = self._left(next_offsets)
        if not any(left.values()):
            return start
        shares = share_out(left, self._budget(limit, next_offsets, left))
        return self._offset({p: next_offset + shares[p] for p, next_offset in next_offsets.items()})

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query at the current high watermarks."""
        self._refresh_log_ends()
        self._is_available_now = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The last known high watermarks, for the progress of the query."""
        if not self._log_ends:
            return None
        log_partitions = self._log_partitions(self._connected().describe())
        known = [p for p in log_partitions if p in self._log_ends]
        return self._offset({p: self._log_ends[p].offset for p in known})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Group the ranges into at most `tasks` tasks, evenly by offsets to read."""
        from_offsets, to_offsets = self._next_offsets(start), self._next_offsets(end)
        if not self._log_ends:
            self._refresh_log_ends()
        ranges = []
        for log_partition, to_offset in to_offsets.items():
            bound = self._options.start_offsets.get(log_partition, OffsetAndEpoch(0)).offset
            ranges.append(
                LogRange(
                    log_partition=log_partition,
                    from_offset=min(max(from_offsets[log_partition], bound), to_offset),
                    to_offset=to_offset,
                    high_watermark=max(self._log_ends[log_partition].offset, to_offset),
                    leader_epoch=end["p"][str(log_partition)][1],
                )
            )
        leaders = {p: node for p, (node, _) in self._connected().describe().leaders.items()}
        return [
            LogRangeGroup(
                cluster_id=end["cluster_id"], topic_id=end["topic_id"], ranges=tuple(group)
            )
            for group in group_ranges(ranges, leaders, self._options.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges, in a worker process."""
        if not isinstance(partition, LogRangeGroup):
            raise TypeError(f"not a partition of this source: {partition!r}")
        _log_like_run()
        ensure_kernel_cache()
        options = self._options
        retry_timeout_ms = options.retry_timeout_ms or RETRY_TIMEOUT_MS
        client = shared_log_client(
            options.bootstrap_servers,
            options.kafka,
            options.topic,
            partition.topic_id,
            retry_timeout_ms,
        )
        unread = [log_range for log_range in partition.ranges if not log_range.is_empty]
        # A later leader must have all records that the planning saw; otherwise the micro-batch
        # could mix two logs.
        client.expect(
            {r.log_partition: OffsetAndEpoch(r.to_offset, r.leader_epoch) for r in unread}
        )
        known = client.describe().leaders if unread else {}
        if any(log_range.log_partition not in known for log_range in unread):
            # The topic got more partitions since the last metadata request of this process.
            client.refresh()
        if unread:
            client.describe().require_same_log(
                cluster_id=partition.cluster_id, topic_id=partition.topic_id
            )
        rows = read_ranges(
            client,
            partition.ranges,
            compact=options.history != "all",
            retry_timeout_ms=retry_timeout_ms,
        )
        return map(pack, rows) if options.packed else rows

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> LogClient:
        if self._client is None:
            _log_like_run()
            options = self._options
            self._client = LogClient(
                options.bootstrap_servers,
                kafka_client_config(options.kafka),
                options.topic,
                first_contact_timeout_ms=options.retry_timeout_ms or FIRST_CONTACT_TIMEOUT_MS,
                retry_timeout_ms=options.retry_timeout_ms or RETRY_TIMEOUT_MS,
            )
        return self._client

    def _refresh_log_ends(self) -> dict[int, OffsetAndEpoch]:
        client = self._connected()
        self._log_ends = client.log_ends(self._log_partitions(client.describe()))
        return self._log_ends

    def _ends(self) -> dict[int, OffsetAndEpoch]:
        """Return the log ends up to which the query may read now."""
        return self._log_ends if self._is_available_now else self._refresh_log_ends()

    def _log_partitions(self, description: LogDescription) -> list[int]:
        wanted = self._options.log_partitions or sorted(description.leaders)
        missing = [p for p in wanted if p not in description.leaders]
        if missing:
            raise ConfigurationError(
                f"topic {description.topic} has {len(description.leaders)} partitions, but no log "
                f"partition {missing[0]}: name log partitions from 0 to "
                f"{len(description.leaders) - 1}"
            )
        return list(wanted)

    def _next_offsets(self, offset: Mapping[str, Any]) -> dict[int, int]:
        """Read an offset; refuse another format version, cluster, topic or other log partitions."""
        if offset.get("v") != OFFSET_FORMAT_VERSION:
            raise ConfigurationError(
                f"the checkpoint has offsets of format version {offset.get('v')}, but this release "
                f"reads {OFFSET_FORMAT_VERSION}: name a new folder with --checkpoint"
            )
        description = self._connected().describe()
        description.require_same_log(cluster_id=offset["cluster_id"], topic_id=offset["topic_id"])
        next_offsets = {int(p): next_offset for p, (next_offset, _) in offset["p"].items()}
        if sorted(next_offsets) != self._log_partitions(description):
            raise LogChanged(
                f"the checkpoint has {len(next_offsets)} log partitions, but this query reads "
                f"{len(self._log_partitions(description))} or others: name a new folder with "
                "--checkpoint"
            )
        return next_offsets

    def _left(self, next_offsets: Mapping[int, int]) -> dict[int, int]:
        """Return the number of unread offsets of each log partition, up to its log end."""
        log_ends = self._ends()
        for log_partition, next_offset in next_offsets.items():
            if log_ends[log_partition].offset < next_offset:
                raise self._truncated(
                    log_partition,
                    next_offset,
                    self._connected().earliest_offsets([log_partition])[log_partition],
                    log_ends[log_partition].offset,
                )
        return {p: log_ends[p].offset - next_offset for p, next_offset in next_offsets.items()}

    def _truncated(
        self, log_partition: int, next_offset: int, log_start: int, log_end: int
    ) -> LogTruncated:
        return LogTruncated(
            topic=self._options.topic,
            log_partition=log_partition,
            record_offset=next_offset,
            log_start=log_start,
            log_end=log_end,
        )

    def _offset(self, next_offsets: Mapping[int, int]) -> dict[str, Any]:
        """The source offset for these next offsets, with the leader epochs of the log ends."""
        description = self._connected().describe()
        return {
            "v": OFFSET_FORMAT_VERSION,
            "cluster_id": description.cluster_id,
            "topic_id": description.topic_id,
            "p": {
                str(log_partition): [next_offset, self._log_ends[log_partition].leader_epoch]
                for log_partition, next_offset in sorted(next_offsets.items())
            },
        }

    def _wait_for_records(self, next_offsets: Mapping[int, int]) -> bool:
        """Wait up to `long_poll_ms` for new records; return whether a leader has some.

        A leader holds a fetch until it has records. With several leaders each fetch is short, so
        that records of one leader do not have to wait for the others.
        """
        client = self._connected()
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
        client = self._connected()
        if options.max_records_per_trigger is None:
            fitting = offsets_that_fit(
                client,
                next_offsets,
                left,
                is_compacted=options.history != "all",
                most_bytes=options.planning_tasks * MOST_STAYING_BYTES,
            )
            offsets = min(offsets, fitting)
        if options.max_bytes_per_trigger is not None:
            by_bytes = options.max_bytes_per_trigger / self._density.bytes_per_offset(
                client, next_offsets, {p: end.offset for p, end in self._log_ends.items()}
            )
            offsets = min(offsets, max(1, int(by_bytes)))
        return offsets


def _seen(offset: Mapping[str, Any]) -> dict[int, OffsetAndEpoch]:
    return {int(p): OffsetAndEpoch(*at) for p, at in offset["p"].items()}


def _log_like_run() -> None:
    """Format log lines as `run` does: Spark's Python processes do not configure logging."""
    logging.basicConfig(format=_LOG_FORMAT)
