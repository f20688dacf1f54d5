"""The reasons for a reload: cases in which the rows of a log partition cannot be extended.

A log partition is reloaded if the log does not continue where its rows end: the topic was
recreated, the log was truncated, or records were deleted before they were read. It is also reloaded
if Kafka's cleaner may have removed tombstones before they were read, because rows of deleted keys
would then stay for ever. The cleaner removes a tombstone `delete.retention.ms` after it first saw
it.

After an upgrade of the cluster that changes the loader's rules, all log partitions are reloaded, as
upgraded brokers do. After an upgrade of this program, a log partition is reloaded if the quarantine
has records of it that this release can decode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow.compute as pc

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.records.serde import decode_key, decode_value
from streaming.kafka.fetch import LogClient
from streaming.kafka.leaders import LogDescription
from streaming.kafka.loader_rules import LoaderRules
from streaming.kafka.seen_log import OffsetAndEpoch
from streaming.tables import delta
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import LOST_REASON_PREFIX, QUARANTINE
from streaming.tables.topic_progress import Progress, TopicProgress

REQUESTED = "requested"
DECODABLE = "the quarantine has records that this release can decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """The current log starts and ends of the log partitions that have a leader.

    `newest_at` has the newest record timestamp of each log partition if that record is not read
    yet, from brokers that return it (3.0 and later). `agreed_ends` has the record offset up to
    which each log agrees with the rows, from leaders that know it (KIP-320).
    """

    description: LogDescription
    log_starts: Mapping[int, int]
    high_watermarks: Mapping[int, int]
    agreed_ends: Mapping[int, int]
    newest_at: Mapping[int, datetime] = field(default_factory=dict)

    @classmethod
    def ask(
        cls, client: LogClient, progress: TopicProgress, log_partitions: Collection[int]
    ) -> LogEnds:
        """Ask the leaders of these log partitions.

        Raises:
            ConfigurationError: see `LogClient`.
            TimeoutError: the leaders do not answer.
        """
        description = client.describe()
        seen = {p: read_up_to(row) for p, row in progress.rows.items() if p in log_partitions}
        seen = {p: at for p, at in seen.items() if at.leader_epoch != NO_LEADER_EPOCH}
        is_same = description.topic_id == progress.topic_id
        return cls(
            description=description,
            log_starts=client.earliest_offsets(log_partitions),
            high_watermarks=client.high_watermarks(log_partitions),
            agreed_ends=client.agreed_ends(seen) if is_same and seen else {},
            # A record that was read may have a time of the future.
            newest_at=client.newest_timestamps(
                {
                    p: progress.rows[p].next_offset if p in progress.rows else 0
                    for p in log_partitions
                }
            ),
        )


def read_up_to(row: Progress) -> OffsetAndEpoch:
    """The place up to which the rows of a log partition were read, with its leader epochs."""
    epoch = NO_LEADER_EPOCH if row.leader_epoch is None else row.leader_epoch
    return OffsetAndEpoch.of([row.next_offset, epoch, json.loads(row.epoch_entries or "[]")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """The reason to reload a log partition.

    Rows of history below the record offset `kept_below` still match the log. `lost` says which
    records are lost, and is empty if none are.
    """

    reason: str
    kept_below: int
    lost: str = ""


def rules_changed(progress: LoadProgress, rules: LoaderRules) -> bool:
    """Whether the cluster now loads the log by other rules, after an upgrade of its brokers."""
    return rules.differ_from(_rules_of(progress))


def _rules_of(progress: LoadProgress) -> LoaderRules:
    return LoaderRules(semantics=progress.semantics, release=progress.release)


def find_doubts(
    progress: TopicProgress,
    log: LogEnds,
    *,
    upgrade: str = "",
    delete_retention_ms: int | None,
    now: datetime,
) -> dict[int, Doubt]:
    """The log partitions that must be reloaded.

    Leaderless ones are checked once they have a leader, unless the reason concerns the whole topic.

    The time since a log partition was last read to its end is measured by the brokers' clock, or by
    ours if that gives a longer time: an idle log has no new timestamps.

    Args:
        progress: the progress of the tables.
        log: the current log.
        upgrade: why an upgrade requires a reload of all log partitions, see `upgrade_reason`.
        delete_retention_ms: the topic's `delete.retention.ms`; None if it is not compacted. The
            coordinators of such a topic delete records that later ones make redundant, so unread
            records are not lost.
        now: the current time.
    """
    return {
        log_partition: doubt
        for log_partition, row in sorted(progress.rows.items())
        if log_partition in log.high_watermarks
        or progress.topic_id != log.description.topic_id
        or upgrade
        for doubt in _doubts(log_partition, row, progress, log, upgrade, delete_retention_ms, now)
    }


def _doubts(
    log_partition: int,
    row: Progress,
    progress: TopicProgress,
    log: LogEnds,
    upgrade: str,
    delete_retention_ms: int | None,
    now: datetime,
) -> Iterator[Doubt]:
    """At most one reason; an unfinished reload restarts."""
    if not row.is_begun:
        return
    topic = log.description
    log_start = log.log_starts.get(log_partition, 0)
    log_end = log.high_watermarks.get(log_partition, 0)
    lost_unread = "" if delete_retention_ms is None else _lost_unread(row, log_start)
    truncated_to = min(log.agreed_ends.get(log_partition, log_end), log_end)
    if topic.topic_id != progress.topic_id:
        reason = (
            f"topic {topic.topic} was deleted and created again (its id was {progress.topic_id} "
            f"and is {topic.topic_id})"
        )
        yield Doubt(reason=reason, kept_below=0, lost=_lost_after_read(0, row.next_offset, reason))
    elif log_partition not in log.high_watermarks:
        # Its leader will say whether its log was truncated; the new rules concern it anyway.
        yield Doubt(reason=upgrade, kept_below=row.next_offset)
    elif truncated_to < row.next_offset:
        reason = f"the log was truncated to {truncated_to}"
        lost = _lost_after_read(truncated_to, row.next_offset, reason)
        yield Doubt(reason=reason, kept_below=truncated_to, lost=lost)
    elif row.is_reloading:
        reason = row.reload_reason or ""
        yield Doubt(reason=reason, kept_below=row.next_offset, lost=lost_unread)
    elif row.next_offset < log_start:
        reason = f"the log starts at {log_start}, after the next offset {row.next_offset}"
        yield Doubt(reason=reason, kept_below=row.next_offset, lost=lost_unread)
    elif upgrade:
        yield Doubt(reason=upgrade, kept_below=row.next_offset)
    elif delete_retention_ms is not None and row.next_offset < log_end:
        # Tables of an earlier release only have the time of their last write.
        latest = max(now, log.newest_at.get(log_partition, now))
        not_read_for = latest - (row.current_at or progress.updated_at)
        if not_read_for > timedelta(milliseconds=delete_retention_ms):
            retention = timedelta(milliseconds=delete_retention_ms)
            reason = (
                f"the log was last read to its end {_hours(not_read_for)} ago, which is longer "
                f"than delete.retention.ms ({_hours(retention)}), so tombstones may be lost"
            )
            yield Doubt(reason=reason, kept_below=row.next_offset)


def upgrade_reason(progress: LoadProgress, rules: LoaderRules) -> str:
    """Why an upgrade of the cluster requires a reload; empty if it does not."""
    if not rules_changed(progress, rules):
        return ""
    return (
        f"the cluster was upgraded: its brokers load the log by the rules {rules}, and the tables "
        f"were loaded by the rules {_rules_of(progress)}"
    )


def decodable_log_partitions(tables: str, log_starts: Mapping[int, int]) -> set[int]:
    """The log partitions with quarantined records that this release can decode.

    Records below the log start do not count: a reload does not read them.

    Raises:
        TablesUnavailable: the quarantine cannot be read.
    """
    columns = ["log_partition", "record_offset", "raw_key", "raw_value"]
    is_record = (pc.field("log_topic") == OFFSETS_TOPIC) & pc.field("raw_key").is_valid()
    decodable: set[int] = set()
    for batch in delta.read(tables, QUARANTINE, columns, where=is_record).to_batches():
        for log_partition, record_offset, raw_key, raw_value in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            is_read = record_offset >= log_starts.get(log_partition, math.inf)
            if is_read and log_partition not in decodable and _is_decodable(raw_key, raw_value):
                decodable.add(log_partition)
    return decodable


def _is_decodable(raw_key: bytes, raw_value: bytes | None) -> bool:
    try:
        key = decode_key(raw_key)
        if raw_value is not None:
            decode_value(key.record_type, raw_value)
    except (DecodeError, UnknownRecordType):
        return False
    return True


def _lost_unread(row: Progress, log_start: int) -> str:
    if row.next_offset >= log_start:
        return ""
    lost = _range(row.next_offset, log_start)
    return f"{LOST_REASON_PREFIX}{lost} were deleted before they were read"


def _lost_after_read(first: int, end: int, reason: str) -> str:
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
