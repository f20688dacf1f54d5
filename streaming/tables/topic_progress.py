"""The progress of the load of an internal topic: one row for each log partition."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from statistics import median_low
from typing import Any

from coordinator_state.apply.counts import RecordCounts
from streaming.errors import ConfigurationError
from streaming.tables.load_state import is_begun, is_reloading
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING, STATE_WAITING

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
    epoch_entries: str | None = None
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
        """Whether it is being reloaded.

        Until the end, rows of `__consumer_offsets` are those before the reload; rows of other
        topics come back as the log is read.
        """
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
_CLOCK_DIFFERENCES = 5
_MOST_APART = timedelta(seconds=60)
NEVER = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(slots=True, kw_only=True)
class TopicProgress:
    """The progress of all log partitions of a topic.

    `topic_id` is empty until the topic exists. `updated_at` is when the rows were last written.
    `clock_skew_ms` is how far the brokers' clock is ahead of ours; None until it is known.
    """

    topic: str
    topic_id: str
    rows: dict[int, Progress] = field(default_factory=dict)
    updated_at: datetime = NEVER
    clock_skew_ms: int | None = None
    _differences_ms: deque[int] = field(default_factory=lambda: deque(maxlen=_CLOCK_DIFFERENCES))
    """The brokers' clock minus ours, by records that were read right after their write."""
    _read_at: datetime = NEVER

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Add the progress that a row of `load_progress` or `topic_progress` has."""
        names = Progress.__dataclass_fields__.keys() & row.keys()
        self.rows[row["log_partition"]] = Progress(**{name: row[name] for name in names})
        self.updated_at = max(self.updated_at, row["updated_at"])

    def stored_rows(self) -> list[dict[str, Any]]:
        """The rows for the table; each table has a part of these columns."""
        return [
            {
                "log_topic": self.topic,
                "topic_id": self.topic_id,
                "log_partition": log_partition,
                "updated_at": self.updated_at,
                **{name: getattr(row, name) for name in Progress.__dataclass_fields__},
            }
            for log_partition, row in sorted(self.rows.items())
        ]

    @property
    def applied_below(self) -> dict[int, int]:
        """The next offset of each log partition that is not being reloaded.

        The tables have the records below it.
        """
        return {p: row.next_offset for p, row in self.rows.items() if not row.is_reloading}

    @property
    def history_below(self) -> dict[int, int]:
        """The next offset of each log partition: the tables of history have the records below it.

        A reload reads them again.
        """
        return {p: row.next_offset for p, row in self.rows.items()}

    def places(self) -> dict[int, tuple[str, int, int, int | None]]:
        """The state, offsets and leader epoch of each log partition."""
        return {
            p: (row.state, row.next_offset, row.high_watermark, row.leader_epoch)
            for p, row in self.rows.items()
        }

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
        reports = list(reports)
        self._compare_clocks(reports, newest_timestamps, read_at)
        read_in_all = 0
        for report in reports:
            log_partition = report["log_partition"]
            row = self.rows.setdefault(log_partition, Progress())
            # The records of a range that was applied before are already counted.
            is_new = row.is_reloading or report["from_offset"] >= row.next_offset
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
            # A reload keeps the next offset, and starts from the log start.
            position = report["record_offset"] if row.is_reloading else row.next_offset
            row.high_watermark = max(report["high_watermark"], position)
            row.leader_epoch = report["log_leader_epoch"]
            if report["record_offset"] >= row.next_offset:
                row.epoch_entries = report["log_epoch_entries"]
            is_at_end = position >= row.high_watermark
            if is_at_end and row.is_reloading:
                row.reloaded_at = read_at
            if is_at_end or row.current_at is None:
                row.current_at = read_at + timedelta(milliseconds=self.clock_skew_ms or 0)
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

    def _compare_clocks(
        self,
        reports: Iterable[Mapping[str, Any]],
        newest_timestamps: Mapping[int, datetime],
        read_at: datetime,
    ) -> None:
        """Compare the brokers' clock with ours, by the newest record of a micro-batch.

        The record was read right after its write if the micro-batch before was a short time ago,
        and had read its log partition to the end.
        """
        is_short = timedelta() <= read_at - self._read_at < _MOST_APART
        self._read_at = read_at
        differences = [
            newest_timestamps[report["log_partition"]] - read_at
            for report in reports
            if report["record_offset"] >= report["high_watermark"]
            and report["log_partition"] in newest_timestamps
            and (row := self.rows.get(report["log_partition"])) is not None
            and row.has_caught_up
        ]
        # Clients may set any timestamp.
        differences = [each for each in differences if abs(each) < _MAX_CLOCK_DIFFERENCE]
        if is_short and differences:
            self._differences_ms.append(max(differences) // timedelta(milliseconds=1))
            self.clock_skew_ms = median_low(self._differences_ms)
