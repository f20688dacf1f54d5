"""What the log says of the rows that were loaded from it: whether they can be gone on with.

They cannot where the log does not go on where the tables end: the topic was created again, the log
was truncated, or records were deleted before they were read. And not where Kafka's cleaner may have
removed tombstones before they were read, which it does `delete.retention.ms` after it first saw
them: keys that were deleted would stay for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from streaming.kafka.fetch import LogClient, LogDescription
from streaming.tables.load_progress import LoadProgress, Progress
from streaming.tables.schemas import LOST_REASON_PREFIX

REQUESTED = "requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """The log as it is now.

    Only log partitions with a leader are in it. `newest_at` is the newest timestamp of a log
    partition's records, for brokers that tell it (3.0 and later). `epoch_ends` is where the leader
    epoch ended under which a log partition was read last, for those whose leader tells (KIP-320).
    """

    description: LogDescription
    log_starts: Mapping[int, int]
    high_watermarks: Mapping[int, int]
    epoch_ends: Mapping[int, int]
    newest_at: Mapping[int, datetime] = field(default_factory=dict)

    @classmethod
    def ask(
        cls, client: LogClient, progress: LoadProgress, log_partitions: Collection[int]
    ) -> LogEnds:
        """Ask the leaders of these log partitions.

        Raises:
            ConfigurationError: see `LogClient`.
            TimeoutError: they do not answer.
        """
        description = client.describe()
        epochs = {
            p: row.leader_epoch
            for p, row in progress.rows.items()
            if row.leader_epoch is not None and row.leader_epoch >= 0 and p in log_partitions
        }
        is_same = description.topic_id == progress.topic_id
        return cls(
            description=description,
            log_starts=client.earliest_offsets(log_partitions),
            high_watermarks=client.high_watermarks(log_partitions),
            epoch_ends=client.epoch_end_offsets(epochs) if is_same and epochs else {},
            newest_at=client.newest_timestamps(log_partitions),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a log partition must be loaded again.

    `kept_below` is the record offset up to which its rows of history are still those of the log.
    `gone` says which records nobody can read any more, and is empty where there are none.
    """

    reason: str
    kept_below: int
    gone: str = ""


def find_doubts(
    progress: LoadProgress, log: LogEnds, *, delete_retention_ms: int, now: datetime
) -> dict[int, Doubt]:
    """The log partitions of the tables that must be loaded again; those without leader come later.

    How long a log partition was not read follows from the brokers' clock, and from ours where that
    gives longer: an idle log has no new timestamps.

    Args:
        progress: how far the tables are.
        log: the log now.
        delete_retention_ms: the topic's `delete.retention.ms`.
        now: the current time.
    """
    return {
        log_partition: doubt
        for log_partition, row in sorted(progress.rows.items())
        if log_partition in log.high_watermarks or progress.topic_id != log.description.topic_id
        for doubt in _doubts(log_partition, row, progress, log, delete_retention_ms, now)
    }


def _doubts(
    log_partition: int,
    row: Progress,
    progress: LoadProgress,
    log: LogEnds,
    delete_retention_ms: int,
    now: datetime,
) -> Iterator[Doubt]:
    """At most one; a load that was begun and not finished is begun anew."""
    if not row.is_begun:
        return
    topic = log.description
    log_start = log.log_starts.get(log_partition, 0)
    log_end = log.high_watermarks.get(log_partition, 0)
    truncated_to = min(log.epoch_ends.get(log_partition, log_end), log_end)
    if topic.topic_id != progress.topic_id:
        reason = (
            f"topic {topic.topic} was deleted and created again (its id was {progress.topic_id} "
            f"and is {topic.topic_id})"
        )
        yield Doubt(reason=reason, kept_below=0, gone=_gone(0, row.next_offset, reason))
    elif truncated_to < row.next_offset:
        reason = f"the log was truncated to {truncated_to}"
        gone = _gone(truncated_to, row.next_offset, reason)
        yield Doubt(reason=reason, kept_below=truncated_to, gone=gone)
    elif row.is_reloading:
        reason = row.reload_reason or ""
        yield Doubt(reason=reason, kept_below=row.next_offset, gone=_unread(row, log_start))
    elif row.next_offset < log_start:
        reason = f"the log starts at {log_start}, behind record offset {row.next_offset}"
        yield Doubt(reason=reason, kept_below=row.next_offset, gone=_unread(row, log_start))
    elif row.next_offset < log_end:
        # Tables of an earlier release only say when they were written last.
        latest = max(now, log.newest_at.get(log_partition, now))
        away = latest - (row.current_at or progress.updated_at)
        if away > timedelta(milliseconds=delete_retention_ms):
            reason = (
                f"it was read to its end {_hours(away)} ago; delete.retention.ms is "
                f"{_hours(timedelta(milliseconds=delete_retention_ms))}, so tombstones may be gone"
            )
            yield Doubt(reason=reason, kept_below=row.next_offset)


def _unread(row: Progress, log_start: int) -> str:
    if row.next_offset >= log_start:
        return ""
    lost = _range(row.next_offset, log_start)
    return f"{LOST_REASON_PREFIX}{lost} were deleted before they were read"


def _gone(first: int, end: int, reason: str) -> str:
    if first >= end:
        return ""
    return (
        f"{LOST_REASON_PREFIX}{_range(first, end)} were read, then {reason}; their rows of history "
        "have the outcome lost"
    )


def _range(first: int, end: int) -> str:
    return f"record offsets {first} to {end - 1}"


def _hours(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 3600:.1f} h"
