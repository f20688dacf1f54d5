"""The offsets that a plan asks for: those of a past state, and log ends and log starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from coordinator_state.insight.group_status import moment_text
from coordinator_state.replay.offsets import OffsetKey
from streaming.kafka.partition_offsets import TopicPartition
from streaming.plans.committed_offsets import Committed
from streaming.plans.sampled_logs import sampled_logs
from streaming.tables.reader import TableReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The offset that is asked for in a partition; None leaves the partition as it is.

    `topic_id` is that of the topic for which the offset holds, None if unknown.
    """

    offset: int | None = None
    note: str = ""
    committed_at: datetime | None = None
    topic_id: str | None = None


def place_of(key: OffsetKey) -> TopicPartition:
    """The partition of a committed offset."""
    return TopicPartition(key.topic, key.partition)


def want_committed(
    reader: TableReader,
    keys: Sequence[OffsetKey],
    then: Mapping[TopicPartition, Committed],
    moment: datetime,
    otherwise: str,
) -> dict[OffsetKey, Wanted]:
    """Want the offsets that were committed at a moment.

    Args:
        reader: the newest snapshot.
        keys: the partitions.
        then: the committed offsets, by partition.
        moment: the moment.
        otherwise: the reason to leave a partition without one as it is.
    """
    logs = sampled_logs(reader, map(place_of, keys), moment)
    wanted_by_key = {}
    for key in keys:
        committed, log = then.get(place_of(key)), logs.get(place_of(key))
        wanted_by_key[key] = (
            Wanted(note=otherwise)
            if committed is None
            else Wanted(
                offset=committed.offset,
                committed_at=committed.commit_timestamp,
                topic_id=committed.topic_id or (None if log is None else log.topic_id),
            )
        )
    return wanted_by_key


def want_log_ends(
    reader: TableReader, keys: Sequence[OffsetKey], moment: datetime
) -> dict[OffsetKey, Wanted]:
    """Want the log ends of the newest samples up to a moment."""
    logs = sampled_logs(reader, map(place_of, keys), moment)
    wanted_by_key = {}
    for key in keys:
        log = logs.get(place_of(key))
        wanted_by_key[key] = (
            Wanted(note=f"no sample of the log up to {moment_text(moment, reader.moment)}")
            if log is None
            else Wanted(
                offset=log.bounds.log_end_offset,
                note=f"log end at {moment_text(log.sampled_at, reader.moment)}",
                topic_id=log.topic_id,
            )
        )
    return wanted_by_key


def want_log_starts(reader: TableReader, keys: Sequence[OffsetKey]) -> dict[OffsetKey, Wanted]:
    """Want the log starts of the newest samples."""
    logs = sampled_logs(reader, map(place_of, keys), reader.moment)
    wanted_by_key = {}
    for key in keys:
        log = logs.get(place_of(key))
        wanted_by_key[key] = (
            Wanted(note="the log was not sampled yet")
            if log is None
            else Wanted(offset=log.bounds.log_start_offset)
        )
    return wanted_by_key
