"""The start of a reload: it is recorded in the tables before the log is read.

History rows of records that the log no longer has get the outcome `lost`. A row of `quarantine`
says which records are lost. `load_progress` moves each log partition back to the record offset up
to which its history is still right, in state `loading`.

After a crash before that last write, the next start rolls the other tables back and finds the
reason again. After a later crash, the reload restarts from the log start.

Of another internal topic, the rows of the log partitions are deleted at once, and come back as the
log is read; meanwhile `topic_progress` says `loading`. The reload appends only events that the
table lacks.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.replay.groups import NO_RECORD_OFFSET
from streaming.kafka.leaders import LogDescription, of_topic
from streaming.reload.doubts import Doubt, read_up_to
from streaming.tables import delta
from streaming.tables.creation import set_properties
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    HISTORY_TABLES,
    KEY_TABLES,
    LOAD_PROGRESS,
    LOST_REASON_PREFIX,
    PROPERTY_KAFKA_RELEASE,
    PROPERTY_SEMANTICS,
    PROPERTY_TOPIC_ID,
    QUARANTINE,
    STATE_LOADING,
    STATE_TABLES,
)
from streaming.tables.topic_progress import Progress, TopicProgress
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)


def begin_reload(
    writer: Writer,
    progress: LoadProgress,
    topic_progress: TopicProgress,
    doubts: Mapping[int, Doubt],
    log: LogDescription,
) -> None:
    """Record in the tables that the reload of log partitions of a topic begins.

    Of `__consumer_offsets` this commits a snapshot. The rows of other topics are deleted at once,
    and of `__consumer_offsets` those of log partitions that the topic no longer has.

    Args:
        writer: the writer of the tables, which have no unfinished micro-batch.
        progress: the progress of the tables, with the loader's rules of the reload.
        topic_progress: the progress of the topic, which is `progress` itself or one of `others`; it
            is moved back.
        doubts: the log partitions to reload, with the reasons.
        log: the current description of the topic.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be written.
    """
    is_of_offsets, versions = topic_progress is progress, progress.table_versions
    _log_reasons(topic_progress.topic, doubts)
    lost = {
        p: doubt.kept_below
        for p, doubt in doubts.items()
        if doubt.kept_below < topic_progress.rows[p].next_offset
    }
    if lost:
        for table in HISTORY_TABLES[topic_progress.topic]:
            versions[table.name] = writer.mark_lost(table, lost)
    # A reload of `__consumer_offsets` replaces the other rows of the quarantine at its end.
    if read_again := lost if is_of_offsets else dict.fromkeys(doubts, 0):
        versions[QUARANTINE.name] = writer.delete_from(QUARANTINE, read_again, topic_progress.topic)
    _quarantine_lost(writer, topic_progress, versions, doubts)
    if deleted := doubts.keys() - (log.leaders.keys() if is_of_offsets else set()):
        for table in KEY_TABLES if is_of_offsets else (STATE_TABLES[topic_progress.topic],):
            nothing = table.schema.empty_table()
            versions[table.name] = writer.merge(
                table, nothing, guard="record_offset", replaced=deleted
            )
    for log_partition, doubt in doubts.items():
        row = topic_progress.rows.pop(log_partition)
        if log_partition in log.leaders:
            topic_progress.rows[log_partition] = _moved_back(row, doubt, keeps_rows=is_of_offsets)
    topic_progress.topic_id = log.topic_id
    if is_of_offsets:
        progress.write(writer)
        properties = {
            PROPERTY_TOPIC_ID: log.topic_id,
            PROPERTY_SEMANTICS: progress.semantics.value,
            PROPERTY_KAFKA_RELEASE: str(progress.release),
        }
        # Last, because the old properties are the reason that a restart must find again.
        set_properties(writer.epoch, LOAD_PROGRESS, properties)


def _moved_back(row: Progress, doubt: Doubt, *, keeps_rows: bool) -> Progress:
    """The progress at the beginning of a reload; without rows, the counts start again from 0."""
    if not keeps_rows:
        return Progress(
            next_offset=doubt.kept_below, current_at=row.current_at, reload_reason=doubt.reason
        )
    return replace(
        row,
        state=STATE_LOADING,
        next_offset=doubt.kept_below,
        epoch_entries=read_up_to(row).below(doubt.kept_below).entries_json,
        reload_reason=doubt.reason,
        reloaded_at=None,
    )


def _log_reasons(topic: str, doubts: Mapping[int, Doubt]) -> None:
    """Log one line for each reason."""
    by_reason: dict[str, list[int]] = defaultdict(list)
    for log_partition, doubt in doubts.items():
        by_reason[doubt.reason].append(log_partition)
    for reason, log_partitions in by_reason.items():
        logger.warning(
            "reloading log partitions %(log_partitions)s%(of_topic)s from the log start: "
            "%(reason)s",
            {"log_partitions": log_partitions, "of_topic": of_topic(topic), "reason": reason},
        )


def _quarantine_lost(
    writer: Writer,
    topic_progress: TopicProgress,
    versions: dict[str, int],
    doubts: Mapping[int, Doubt],
) -> None:
    """Add rows about lost records of a topic; a restarted reload adds them once."""
    is_lost = pc.starts_with(pc.field("reason"), LOST_REASON_PREFIX)
    is_lost &= pc.field("log_topic") == topic_progress.topic
    known = delta.read(writer.tables, QUARANTINE, ["log_partition", "reason"], where=is_lost)
    written = {(row["log_partition"], row["reason"]) for row in known.to_pylist()}
    rows = [
        {
            "log_topic": topic_progress.topic,
            "log_partition": p,
            "record_offset": NO_RECORD_OFFSET,
            "reason": doubt.lost,
        }
        for p, doubt in doubts.items()
        if doubt.lost and (p, doubt.lost) not in written
    ]
    if rows:
        versions[QUARANTINE.name] = writer.append(QUARANTINE, pa.Table.from_pylist(rows))
