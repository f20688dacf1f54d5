"""The streaming data source `coordinator_log`: the log of `__consumer_offsets` as rows.

Spark's own Kafka source cannot read this topic: it leaves internal topics out, and hides producer
ids and control records. This one plans on the driver, in one long-lived process per query, and
reads in worker processes; the rows are those of `coordinator_state.log.log_rows`.

A micro-batch ends at high watermarks, as far as admission control lets it, and holds every log
partition of the query: one without news costs no fetch but has its `progress` row too. Offsets are

    {"v": 1, "cluster_id": .., "topic_id": .., "p": {"0": [next_offset, leader_epoch], ...}}

with the epoch of the leader whose high watermark was not below the offset. When a later leader says
that the epoch ended below the offset, the log was truncated (KIP-320).
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
from streaming.source.log_sample import offsets_that_fit
from streaming.source.micro_batch import LogDensity, group_ranges, share_out
from streaming.source.options import SourceOptions

_MULTI_LEADER_POLL_MS: Final = 100
_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class CoordinatorLogDataSource(DataSource):
    """Spark's handle on the source; `spark.dataSource.register` makes it known by its name."""

    @classmethod
    def name(cls) -> str:
        """The name for `readStream.format`."""
        return "coordinator_log"

    def schema(self) -> StructType:
        """`LOG_ROW_SCHEMA` in Spark's types, or that of packed rows."""
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

    Pickled, it is its options: connections belong to the process that made them.
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
        """The log start of every log partition, or where `start_offsets` says to go on."""
        client, starts = self._connected(), self._options.start_offsets
        client.expect(starts)
        wanted = self._log_partitions(client.describe())
        earliest, log_ends = client.earliest_offsets(wanted), self._ends()
        positions = {}
        for log_partition in wanted:
            log_start, log_end = earliest[log_partition], log_ends[log_partition].offset
            position = starts.get(log_partition, OffsetAndEpoch(log_start)).offset
            if not log_start <= position <= log_end:
                raise self._truncated(log_partition, position, log_start, log_end)
            positions[log_partition] = position
        return self._offset(positions)

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most `max_records_per_trigger` offsets; `max_bytes_per_trigger` is on top of it."""
        return ReadMaxRows(self._options.max_records_per_trigger or MOST_RECORDS_PER_TRIGGER)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends; `start` itself when there is nothing new for a while."""
        self._connected().expect(_seen(start))
        positions = self._positions(start)
        left = self._left(positions)
        is_live = not self._is_available_now
        if not any(left.values()) and is_live and self._wait_for_records(positions):
            left = self._left(positions)
        if not any(left.values()):
            return start
        shares = share_out(left, self._budget(limit, positions, left))
        return self._offset({p: position + shares[p] for p, position in positions.items()})

    def prepareForTriggerAvailableNow(self) -> None:
        """Have the query end at the present high watermarks."""
        self._refresh_log_ends()
        self._is_available_now = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The high watermarks last seen, for the query's progress."""
        if not self._log_ends:
            return None
        log_partitions = self._log_partitions(self._connected().describe())
        known = [p for p in log_partitions if p in self._log_ends]
        return self._offset({p: self._log_ends[p].offset for p in known})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Group the ranges into at most `tasks` tasks, alike in offsets to read."""
        from_offsets, to_offsets = self._positions(start), self._positions(end)
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
        # A later leader must have all that the planner saw, lest two logs be mixed.
        client.expect(
            {r.log_partition: OffsetAndEpoch(r.to_offset, r.leader_epoch) for r in unread}
        )
        known = client.describe().leaders if unread else {}
        if any(log_range.log_partition not in known for log_range in unread):
            # The topic got more partitions since this process asked last.
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
        """Return how far the query may read now."""
        return self._log_ends if self._is_available_now else self._refresh_log_ends()

    def _log_partitions(self, description: LogDescription) -> list[int]:
        wanted = self._options.log_partitions or sorted(description.leaders)
        missing = [p for p in wanted if p not in description.leaders]
        if missing:
            raise ConfigurationError(
                f"topic {description.topic} has {len(description.leaders)} partitions, "
                f"log partition {missing[0]} is none of them"
            )
        return list(wanted)

    def _positions(self, offset: Mapping[str, Any]) -> dict[int, int]:
        """Read an offset; refuse one of another format, cluster, topic or set of partitions."""
        if offset.get("v") != OFFSET_FORMAT_VERSION:
            raise ConfigurationError(
                f"the checkpoint's offsets have format version {offset.get('v')}, this program "
                f"reads {OFFSET_FORMAT_VERSION}: name a new folder with --checkpoint"
            )
        description = self._connected().describe()
        description.require_same_log(cluster_id=offset["cluster_id"], topic_id=offset["topic_id"])
        positions = {int(p): position for p, (position, _) in offset["p"].items()}
        if sorted(positions) != self._log_partitions(description):
            raise LogChanged(
                f"the checkpoint has {len(positions)} log partitions, this query "
                f"{len(self._log_partitions(description))} or other ones: use a new checkpoint"
            )
        return positions

    def _left(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Return how many offsets each log partition has up to where the query may read."""
        log_ends = self._ends()
        for log_partition, position in positions.items():
            if log_ends[log_partition].offset < position:
                raise self._truncated(
                    log_partition,
                    position,
                    self._connected().earliest_offsets([log_partition])[log_partition],
                    log_ends[log_partition].offset,
                )
        return {p: log_ends[p].offset - position for p, position in positions.items()}

    def _truncated(
        self, log_partition: int, position: int, log_start: int, log_end: int
    ) -> LogTruncated:
        return LogTruncated(
            topic=self._options.topic,
            log_partition=log_partition,
            record_offset=position,
            log_start=log_start,
            log_end=log_end,
        )

    def _offset(self, positions: Mapping[int, int]) -> dict[str, Any]:
        """Positions at or below the log ends, which are proof of them."""
        description = self._connected().describe()
        return {
            "v": OFFSET_FORMAT_VERSION,
            "cluster_id": description.cluster_id,
            "topic_id": description.topic_id,
            "p": {
                str(log_partition): [position, self._log_ends[log_partition].leader_epoch]
                for log_partition, position in sorted(positions.items())
            },
        }

    def _wait_for_records(self, positions: Mapping[int, int]) -> bool:
        """Wait up to `long_poll_ms` for a leader that has something new; return whether one has.

        A single leader holds a fetch back until it has records. Several do that each for itself, so
        the waits are short there: the first to have records must not wait for the others.
        """
        client = self._connected()
        leaders = client.describe().leaders
        is_single = len({leaders[p][0] for p in positions}) == 1
        deadline = time.monotonic() + self._options.long_poll_ms / 1000
        while (left_ms := int((deadline - time.monotonic()) * 1000)) > 0:
            answers = client.fetch(
                positions,
                max_bytes=1,
                max_partition_bytes=1,
                max_wait_ms=left_ms if is_single else min(left_ms, _MULTI_LEADER_POLL_MS),
            )
            if any(answer.high_watermark > positions[p] for p, answer in answers.items()):
                return True
        return False

    def _budget(
        self, limit: ReadLimit, positions: Mapping[int, int], left: Mapping[int, int]
    ) -> int | None:
        """How many offsets a micro-batch may span; None for all there are."""
        if isinstance(limit, ReadAllAvailable):
            return None
        options = self._options
        offsets = options.max_records_per_trigger or MOST_RECORDS_PER_TRIGGER
        if isinstance(limit, ReadMaxRows):
            offsets = limit.max_rows
        client = self._connected()
        if options.max_records_per_trigger is None:
            fitting = offsets_that_fit(
                client, positions, left, is_compacted=options.history != "all"
            )
            offsets = min(offsets, fitting)
        if options.max_bytes_per_trigger is not None:
            by_bytes = options.max_bytes_per_trigger / self._density.bytes_per_offset(
                client, positions, {p: end.offset for p, end in self._log_ends.items()}
            )
            offsets = min(offsets, max(1, int(by_bytes)))
        return offsets


def _seen(offset: Mapping[str, Any]) -> dict[int, OffsetAndEpoch]:
    return {int(p): OffsetAndEpoch(*at) for p, at in offset["p"].items()}


def _log_like_run() -> None:
    """Give warnings the form that `run` gives them: Spark's Python processes configure no log."""
    logging.basicConfig(format=_LOG_FORMAT)
