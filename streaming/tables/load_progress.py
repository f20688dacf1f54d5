"""The progress of the load: the rows of `load_progress`, as their one writer keeps them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from streaming.errors import ConfigurationError
from streaming.tables.load_state import is_begun, is_reloading
from streaming.tables.moments import MOMENT, next_moment
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    LOAD_PROGRESS,
    STATE_CURRENT,
    STATE_LOADING,
    STATE_WAITING,
    TABLES,
)
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """The progress of one log partition.

    `records_unaccounted` counts the records under no outcome, or under two, over all micro-batches.
    `has_caught_up` is of this run only: after a restart the log partition is `loading` until it
    has caught up again.
    `current_at` is when the log partition was last read to its end, or else when its load began, by
    the brokers' clock. A tombstone that Kafka's cleaner removed unread was written after it.
    """

    state: str = STATE_LOADING
    next_offset: int = 0
    high_watermark: int = 0
    leader_epoch: int | None = None
    records_read: int = 0
    records_applied: int = 0
    records_superseded: int = 0
    records_ignored: int = 0
    records_quarantined: int = 0
    records_pending: int = 0
    records_unaccounted: int = 0
    bytes_read: int = 0
    current_at: datetime | None = None
    reload_reason: str | None = None
    reloaded_at: datetime | None = None
    has_caught_up: bool = False

    @property
    def is_begun(self) -> bool:
        """Whether its load has begun; False if it has been leaderless since the first start."""
        return is_begun(self.next_offset, self.current_at)

    @property
    def is_reloading(self) -> bool:
        """Whether it is being reloaded; until the end its rows are those before the reload."""
        return is_reloading(self.reload_reason, self.reloaded_at)

    @property
    def records_accounted(self) -> int:
        """The sum over all outcomes; it must equal `records_read` after each micro-batch."""
        return (
            self.records_applied
            + self.records_superseded
            + self.records_ignored
            + self.records_quarantined
            + self.records_pending
        )


_MAX_CLOCK_DIFFERENCE = timedelta(days=1)
_NEVER = datetime(1970, 1, 1, tzinfo=timezone.utc)
_COLUMNS = tuple(one.name for one in fields(Progress) if one.name != "has_caught_up")


@dataclass(slots=True)
class LoadProgress:
    """The progress of all log partitions, and the versions of the tables of the snapshot."""

    cluster_id: str
    topic_id: str
    semantics: Semantics
    release: Release
    table_versions: dict[str, int]
    rows: dict[int, Progress] = field(default_factory=dict)
    query_id: str = ""
    batch_id: int = -1
    updated_at: datetime = _NEVER
    reported_offset_total: int = 0
    _clock_difference: timedelta = timedelta(0)
    """The brokers' clock minus ours, by the last records that were read right after their write."""

    @classmethod
    def nothing(
        cls,
        *,
        cluster_id: str,
        topic_id: str,
        semantics: Semantics,
        release: Release = NEWEST_RELEASE,
    ) -> LoadProgress:
        """The progress before the first micro-batch: every table is at version 0."""
        return cls(
            cluster_id=cluster_id,
            topic_id=topic_id,
            semantics=semantics,
            release=release,
            table_versions={table.name: 0 for table in TABLES if table is not LOAD_PROGRESS},
        )

    @classmethod
    def read(cls, reader: TableReader) -> LoadProgress:
        """The load progress of a snapshot."""
        found = cls.from_arrow(
            reader.read(LOAD_PROGRESS.name),
            cluster_id=reader.cluster_id,
            topic_id=reader.topic_id,
            semantics=Semantics(reader.semantics),
            release=reader.release,
        )
        found.updated_at = max(found.updated_at, reader.written_at)
        return found

    @classmethod
    def from_arrow(
        cls,
        rows: pa.Table,
        *,
        cluster_id: str,
        topic_id: str,
        semantics: Semantics,
        release: Release,
    ) -> LoadProgress:
        """The load progress from the rows of the table; without rows nothing is loaded yet."""
        progress = cls.nothing(
            cluster_id=cluster_id, topic_id=topic_id, semantics=semantics, release=release
        )
        for row in rows.to_pylist():
            found = {name: row[name] for name in _COLUMNS}
            # Null in rows of an earlier release.
            found["records_unaccounted"] = found["records_unaccounted"] or 0
            progress.rows[row["log_partition"]] = Progress(**found)
            progress.query_id = row["query_id"]
            progress.batch_id = row["batch_id"]
            progress.updated_at = max(progress.updated_at, row["updated_at"])
            progress.table_versions.update(dict(row["table_versions"]))
        progress.reported_offset_total = sum(row.next_offset for row in progress.rows.values())
        return progress

    def require_no_gap(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Refuse a micro-batch that begins after the next offset of a log partition.

        Raises:
            ConfigurationError: the micro-batch would skip record offsets.
        """
        for report in reports:
            log_partition, from_offset = report["log_partition"], report["from_offset"]
            row = self.rows.get(log_partition)
            if row is None or row.is_reloading or not row.is_begun:
                continue
            if from_offset > row.next_offset:
                raise ConfigurationError(
                    f"log partition {log_partition}: the tables continue at record offset "
                    f"{row.next_offset}, but the checkpoint at {from_offset}, so it belongs to "
                    "other tables: name a new folder with --checkpoint, and the query continues "
                    "from the tables"
                )

    def were_at_end(self, last_at_end: Mapping[int, datetime]) -> None:
        """Record when log partitions were last read to their end; a later known time stays."""
        for log_partition, at in last_at_end.items():
            row = self.rows.get(log_partition)
            if row is not None and row.current_at is not None and not row.is_reloading:
                row.current_at = max(row.current_at, at)

    def set_leaderless(self, log_partitions: Collection[int]) -> bool:
        """Set which log partitions are leaderless; return whether this changed."""
        before = {p for p, row in self.rows.items() if row.state == STATE_WAITING}
        for log_partition in before.difference(log_partitions):
            self.rows[log_partition].state = STATE_LOADING
            if not self.rows[log_partition].is_begun:
                del self.rows[log_partition]
        for log_partition in log_partitions:
            self.rows.setdefault(log_partition, Progress()).state = STATE_WAITING
        return before != set(log_partitions)

    def finish_reload(self, log_partitions: Iterable[int], reloaded_at: datetime) -> None:
        """Mark log partitions as reloaded; their counts start again from 0."""
        for log_partition in log_partitions:
            self.rows[log_partition] = Progress(
                reload_reason=self.rows[log_partition].reload_reason, reloaded_at=reloaded_at
            )

    def advance(
        self,
        reports: Iterable[Mapping[str, Any]],
        counts: RecordCounts,
        *,
        newest_timestamps: Mapping[int, datetime],
        read_at: datetime,
    ) -> int:
        """Advance by one micro-batch; return the number of records it read.

        Args:
            reports: the `progress` rows of the source.
            counts: the rows of the micro-batch that were not applied before, by outcome.
            newest_timestamps: the newest timestamp of the micro-batch's records, by log partition.
            read_at: when the micro-batch began; it was planned just before.
        """
        read_in_all = 0
        for report in reports:
            log_partition = report["log_partition"]
            row = self.rows.setdefault(log_partition, Progress())
            # The records of a range that was applied before are already counted.
            is_new = report["from_offset"] >= row.next_offset
            superseded = report["records_superseded"] if is_new else 0
            read = counts.rows.get(log_partition, 0) + superseded
            accounted_before = row.records_accounted
            row.records_read += read
            row.bytes_read += report["bytes_read"] if is_new else 0
            row.records_applied += counts.applied.get(log_partition, 0)
            row.records_superseded += counts.superseded.get(log_partition, 0) + superseded
            row.records_ignored += counts.ignored.get(log_partition, 0)
            row.records_quarantined += counts.quarantined.get(log_partition, 0)
            row.records_pending = counts.pending.get(log_partition, 0)
            row.next_offset = max(row.next_offset, report["record_offset"])
            row.high_watermark = max(report["high_watermark"], row.next_offset)
            row.leader_epoch = report["log_leader_epoch"]
            is_at_end = row.next_offset >= row.high_watermark
            if row.has_caught_up and log_partition in newest_timestamps:
                self._compare_clocks(newest_timestamps[log_partition], read_at)
            if is_at_end or row.current_at is None:
                row.current_at = read_at + self._clock_difference
            row.has_caught_up = row.has_caught_up or is_at_end
            row.state = STATE_CURRENT if row.has_caught_up else STATE_LOADING
            read_in_all += read
            accounted = row.records_accounted - accounted_before
            if accounted != read:
                # This is a bug of this program, not damage of the log, so the load continues.
                row.records_unaccounted += abs(read - accounted)
                logger.error(
                    "log partition %(log_partition)s: %(records_read)s records read but "
                    "%(records_accounted)s accounted for, at record offsets %(from_offset)s to "
                    "%(to_offset)s",
                    {
                        "log_partition": log_partition,
                        "records_read": read,
                        "records_accounted": accounted,
                        "from_offset": report["from_offset"],
                        "to_offset": report["record_offset"] - 1,
                    },
                )
        return read_in_all

    def _compare_clocks(self, written_at: datetime, read_at: datetime) -> None:
        """Compare the brokers' clock with ours, by a record that was read right after its write."""
        difference = written_at - read_at
        # Clients may set any timestamp.
        if abs(difference) < _MAX_CLOCK_DIFFERENCE:
            self._clock_difference = difference

    def write(self, writer: Writer, *, now: datetime | None = None) -> None:
        """Write the rows, which commits a new snapshot.

        `now` is the current time by default. It is the moment of the snapshot, unless the clock was
        set back: moments always grow.

        Raises:
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: the table cannot be written.
        """
        self.updated_at = next_moment(self.updated_at, now or datetime.now(timezone.utc))
        rows = self._to_arrow(writer.epoch.number)
        writer.overwrite(LOAD_PROGRESS, rows, info={MOMENT: self.updated_at.isoformat()})

    def _to_arrow(self, writer_epoch: int) -> pa.Table:
        shared: dict[str, Any] = {
            "cluster_id": self.cluster_id,
            "topic_id": self.topic_id,
            "semantics": self.semantics.value,
            "kafka_release": (
                str(self.release) if self.semantics is Semantics.COORDINATOR else None
            ),
            "writer_epoch": writer_epoch,
            "query_id": self.query_id,
            "batch_id": self.batch_id,
            "table_versions": sorted(self.table_versions.items()),
            "updated_at": self.updated_at,
        }
        return pa.Table.from_pylist(
            [
                {
                    "log_partition": log_partition,
                    **{name: getattr(row, name) for name in _COLUMNS},
                    **shared,
                }
                for log_partition, row in sorted(self.rows.items())
            ],
            schema=LOAD_PROGRESS.schema,
        )
