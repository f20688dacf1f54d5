"""Offset samples of the logs that groups read, written to `log_offsets`.

At each interval a thread asks the leaders of all partitions of every topic with a committed offset,
an assigned member or a share group, and of the log partitions that hold the groups' progress. With
`of_all_topics` it also asks those of the topics that no group reads. Samples do not depend on
earlier ones, so they need no query with a checkpoint. The next interval retries a failure.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import PRESENT
from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from streaming.errors import ConfigurationError, WriterFenced, first_line
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.last_writes import newest_sample
from streaming.lag.owners import owners
from streaming.lag.sample_runs import MAX_SAMPLE_AGE, Sample, SampleRuns
from streaming.lag.share_offsets import share_progress
from streaming.lag.unwritten_samples import UnwrittenSamples, rows_of
from streaming.run.external_sampling import ExternalSampling
from streaming.run.log_ends import POSITIONS, LogEnds, committed_positions
from streaming.run.missed_sampling import MissedSampling
from streaming.run.monitoring.run_metrics import RunMetrics
from streaming.tables.clock import utc_now
from streaming.tables.delta import rows_by_day
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_LAG,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    LOG_OFFSETS,
    SHARE_PARTITIONS,
    Table,
)
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)

_RETRY_TIMEOUT_MS: Final = 2_000
_LIST_EVERY_S: Final = 60.0
"""Time between two lists of all topics."""
_MOST_ROWS: Final = 5_000_000
"""In more samples no earlier one of a log is looked for."""
_MOST_UNREAD: Final = 10_000
"""Members without a committed offset count at the end of a log with at most so many records."""
_EPOCH: Final = datetime.fromtimestamp(0, timezone.utc)


@dataclass(slots=True)
class LogOffsetsSampling:
    """Takes offset samples for one tables folder; call `close` at the end."""

    writer: Writer
    bootstrap_servers: str
    kafka_config: Mapping[str, Any]
    metrics: RunMetrics = field(default_factory=RunMetrics)
    runs: SampleRuns = field(default_factory=SampleRuns)
    external: ExternalSampling | None = None
    of_all_topics: bool = False
    _client: LogOffsetsClient = field(init=False)
    _ends: LogEnds = field(init=False)
    _missed: MissedSampling = field(init=False)
    _read: ReadPartitions = field(default_factory=lambda: ReadPartitions())
    _unwritten: UnwrittenSamples[Sample] = field(
        default_factory=lambda: UnwrittenSamples(LOG_OFFSETS, rows_of)
    )
    _listed: frozenset[TopicPartition] = frozenset()
    _list_at_s: float = 0.0
    _has_begun: bool = False
    _continues: bool = False
    _is_failing: bool = False
    _dropped: int = 0

    def __post_init__(self) -> None:
        self._client = LogOffsetsClient(
            self.bootstrap_servers, self.kafka_config, retry_timeout_ms=_RETRY_TIMEOUT_MS
        )
        self._ends = LogEnds(self._client)
        self._missed = MissedSampling(self._client, self._were_sampled)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def sample(self) -> None:
        """Take a sample and append its rows to `log_offsets`, without repeated identical samples.

        A failure is logged once, and the next sample is the retry. Unwritten samples are kept in
        memory, up to a limit. A failure does not affect the other tables.

        Raises:
            WriterFenced: a newer writer has taken over.
        """
        began = time.monotonic()
        try:
            self._sample()
        except WriterFenced:
            raise
        except Exception as error:
            if not self._is_failing:
                logger.warning(
                    "cannot sample log offsets: %(error)s; retrying", {"error": first_line(error)}
                )
                logger.debug("traceback of the warning above", exc_info=True)
            self._is_failing = True
        else:
            if self._is_failing:
                logger.warning(
                    "sampling log offsets works again; %(dropped)s samples were dropped",
                    {"dropped": self._dropped},
                )
            self._is_failing, self._dropped = False, 0
        self.metrics.sampled(not self._is_failing, time.monotonic() - began)

    def _sample(self) -> None:
        sampled_at = utc_now()
        reader = TableReader(self.writer.tables)
        places = self._read.of(reader) | self._all_partitions()
        if self.external is not None:
            places |= self.external.places
        if not self._has_begun:
            self._continue_earlier_run()
            self._has_begun = True
        samples = self._client.sample(places, whole_topics=True)
        samples = self._ends.with_markers(
            sampled_at, samples, lambda places: self._read.positions(reader, places)
        )
        unreadable = len(self._ends.unreadable)
        self.metrics.seen_logs((sample.state for sample in samples), unreadable)
        by_place = {_place(sample): sample for sample in samples}
        missed = self._missed.before(sampled_at, by_place, reader.clock_skew)
        # In one write, so a later run never takes these for the samples of a time without a gap.
        self._write(missed + self.runs.keep(sampled_at, samples))

    def _write(self, samples: list[Sample]) -> None:
        if dropped := self._unwritten.add(samples):
            if not self._dropped:
                logger.warning("too many unwritten samples of log offsets: dropping the oldest")
            self._dropped += dropped
            self.metrics.samples_dropped.inc(dropped)
        self._unwritten.write(self.writer)

    def _all_partitions(self) -> frozenset[TopicPartition]:
        """Return the partitions of all topics, if they are wanted; listed once a minute."""
        if self.of_all_topics and time.monotonic() >= self._list_at_s:
            try:
                self._listed = self._client.partitions()
            except (ConfigurationError, TimeoutError) as error:
                logger.info("cannot list the topics: %(error)s", {"error": first_line(error)})
            self._list_at_s = time.monotonic() + _LIST_EVERY_S
        return self._listed

    def _continue_earlier_run(self) -> None:
        """Take over the last samples of an earlier run, and the ends that it has read.

        Their records may be deleted since.
        """
        reader = TableReader(self.writer.tables)
        newest = newest_sample(reader, reader.moment)
        if newest is None:
            return
        since = newest - MAX_SAMPLE_AGE
        during = [("day", ">=", since.date()), ("sampled_at", ">=", since)]
        columns = [each.name for each in fields(LogOffsets)]
        rows = reader.read(LOG_OFFSETS.name, [*columns, "sampled_at"], during).sort_by("sampled_at")
        samples = [LogOffsets(**row) for row in rows.select(columns).to_pylist()]
        logs = {_place(sample): sample for sample in samples}
        self._ends.continue_from(logs)
        # A log without a sample in the last round had not changed since its own.
        self._missed.continue_from(newest, logs)
        self._continues = True

    def _were_sampled(self, places: AbstractSet[TopicPartition]) -> AbstractSet[TopicPartition]:
        """The logs of which an earlier run has taken samples; all if they are too many to look."""
        if not self._continues:
            return frozenset()
        rows_of_days = rows_by_day(LOG_OFFSETS.path(self.writer.tables))
        if sum(rows_of_days.values()) > _MOST_ROWS:
            return places
        present = [("topic", "in", sorted({at.topic for at in places})), ("state", "=", PRESENT)]
        rows = TableReader(self.writer.tables).read(
            LOG_OFFSETS.name, ["topic", "partition"], present
        )
        return places & _places_of(rows.group_by(["topic", "partition"]).aggregate([]))


class ReadPartitions:
    """The topic partitions that groups read, and the log partitions with the groups' progress.

    A table is read again when it has a new version.
    """

    def __init__(self) -> None:
        self._offsets = POSITIONS.empty_table()
        self._known: dict[Table, tuple[int, frozenset[TopicPartition]]] = {}

    def of(self, reader: TableReader) -> frozenset[TopicPartition]:
        """Return the partitions as of a snapshot."""
        places: frozenset[TopicPartition] = frozenset()
        for table, read in (
            (GROUP_OFFSETS, self._committed),
            (SHARE_PARTITIONS, _shared),
            # New records in its partitions show that a member has never committed.
            (GROUP_MEMBERS, lambda reader: _places_of(owners(reader))),
        ):
            version = reader.table_versions.get(table.name, -1)
            if table not in self._known or self._known[table][0] != version:
                self._known[table] = version, read(reader)
            places |= self._known[table][1]
        return places

    def positions(self, reader: TableReader, places: AbstractSet[TopicPartition]) -> pa.Table:
        """Return the positions (`POSITIONS`) of groups with committed offsets in all places.

        Members without any have those where they began to read some places. `of` was called before.
        """
        assigned, committed = (self._known[table][1] for table in (GROUP_MEMBERS, GROUP_OFFSETS))
        if not places & (assigned - committed):
            return self._offsets
        unread: list[tuple[str, str, Any]] = [
            *(("uncommitted_since", ">", _EPOCH), ("lag", ">", 0), ("lag", "<=", _MOST_UNREAD)),
        ]
        columns = ["topic", "partition", "log_end_offset", "lag", "uncommitted_since"]
        rows = reader.read(GROUP_LAG.name, columns, unread)
        began = pc.subtract(rows["log_end_offset"], rows["lag"])
        columns = [rows["topic"], rows["partition"], began, rows["uncommitted_since"]]
        return pa.concat_tables([self._offsets, pa.table(columns, schema=POSITIONS)])

    def _committed(self, reader: TableReader) -> frozenset[TopicPartition]:
        self._offsets = committed_positions(reader)
        keys = self._offsets.group_by(["topic", "partition"]).aggregate([])
        # Also the log partitions, for the lag of the tables themselves. Before the first
        # micro-batch `load_progress` has no rows.
        loaded = reader.load_states or range(reader.log_partitions)
        return _places_of(keys).union(TopicPartition(OFFSETS_TOPIC, p) for p in loaded)


def _shared(reader: TableReader) -> frozenset[TopicPartition]:
    rows = reader.read(SHARE_PARTITIONS.name, ["topic", "partition"])
    log_partitions = share_progress(reader)["log_partition"].to_pylist()
    return _places_of(rows.filter(pc.is_valid(rows["topic"]))).union(
        TopicPartition(SHARE_STATE_TOPIC, p) for p in log_partitions
    )


def _places_of(rows: pa.Table) -> frozenset[TopicPartition]:
    columns = (rows[name].to_pylist() for name in ("topic", "partition"))
    return frozenset(map(TopicPartition, *columns))


def _place(sample: LogOffsets) -> TopicPartition:
    return TopicPartition(sample.topic, sample.partition)
