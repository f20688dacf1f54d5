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
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.replay.groups import NO_RECORD_OFFSET
from streaming.kafka.leaders import LogDescription, of_topic
from streaming.reload.doubts import Doubt, read_up_to
from streaming.tables import delta
from streaming.tables.creation import set_properties
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    GROUP_EVENTS,
    GROUP_RECORDS,
    KEY_TABLES,
    LOAD_PROGRESS,
    LOST_REASON_PREFIX,
    OFFSET_COMMITS,
    PROPERTY_KAFKA_RELEASE,
    PROPERTY_SEMANTICS,
    PROPERTY_TOPIC_ID,
    QUARANTINE,
    STATE_LOADING,
    STATE_TABLES,
    TOPIC_TABLES,
    TRANSACTION_EVENTS,
)
from streaming.tables.topic_progress import Progress, TopicProgress
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)


def begin_reload(
    writer: Writer, progress: LoadProgress, doubts: Mapping[int, Doubt], topic: LogDescription
) -> None:
    """Record in the tables that the reload of log partitions begins.

    Rows of log partitions that the topic no longer has are deleted at once.

    Args:
        writer: the writer of the tables, which have no unfinished micro-batch.
        progress: the progress of the tables, with the loader's rules of the reload; it is moved
            back.
        doubts: the log partitions to reload, with the reasons.
        topic: the current description of the topic.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be written.
    """
    _log_reasons(progress.topic, doubts)
    lost = {
        p: doubt.kept_below
        for p, doubt in doubts.items()
        if doubt.kept_below < progress.rows[p].next_offset
    }
    versions = progress.table_versions
    if lost:
        for table in (OFFSET_COMMITS, GROUP_EVENTS, GROUP_RECORDS):
            versions[table.name] = writer.mark_lost(table, lost)
        versions[QUARANTINE.name] = writer.delete_from(QUARANTINE, lost)
    for log_partition, doubt in doubts.items():
        row = progress.rows[log_partition]
        row.epoch_entries = read_up_to(row).below(doubt.kept_below).entries_json
        row.state, row.next_offset = STATE_LOADING, doubt.kept_below
        row.reload_reason, row.reloaded_at = doubt.reason, None
    _quarantine_lost(writer, progress, versions, doubts)
    _drop(writer, progress, doubts.keys() - topic.leaders.keys())
    progress.topic_id = topic.topic_id
    progress.write(writer)
    properties = {
        PROPERTY_TOPIC_ID: topic.topic_id,
        PROPERTY_SEMANTICS: progress.semantics.value,
        PROPERTY_KAFKA_RELEASE: str(progress.release),
    }
    # Last, because the old properties are the reason that a restart must find again.
    set_properties(writer.epoch, LOAD_PROGRESS, properties)


def begin_topic_reload(
    writer: Writer, progress: LoadProgress, doubts: Mapping[int, Doubt], topic: LogDescription
) -> None:
    """Record in the tables that the reload of log partitions of a topic begins.

    Args:
        writer: the writer of the tables, which have no unfinished micro-batch.
        progress: the progress of the tables; that of the topic is moved back.
        doubts: the log partitions to reload, with the reasons.
        topic: the current description of the topic.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be written.
    """
    own, versions = progress.others[topic.topic], progress.table_versions
    _log_reasons(topic.topic, doubts)
    lost = {
        p: doubt.kept_below
        for p, doubt in doubts.items()
        if doubt.kept_below < own.rows[p].next_offset
    }
    if lost and TRANSACTION_EVENTS in TOPIC_TABLES[topic.topic]:
        versions[TRANSACTION_EVENTS.name] = writer.mark_lost(TRANSACTION_EVENTS, lost)
    if doubts:
        from_start = dict.fromkeys(doubts, 0)
        versions[QUARANTINE.name] = writer.delete_from(QUARANTINE, from_start, topic.topic)
        table = STATE_TABLES[topic.topic]
        versions[table.name] = writer.merge(
            table, table.schema.empty_table(), guard="record_offset", replaced=doubts.keys()
        )
    _quarantine_lost(writer, own, versions, doubts)
    for log_partition, doubt in doubts.items():
        if log_partition in topic.leaders:
            own.rows[log_partition] = Progress(
                next_offset=doubt.kept_below,
                current_at=own.rows[log_partition].current_at,
                reload_reason=doubt.reason,
            )
        else:
            del own.rows[log_partition]
    own.topic_id = topic.topic_id


def _drop(writer: Writer, progress: LoadProgress, log_partitions: Collection[int]) -> None:
    if not log_partitions:
        return
    for table in KEY_TABLES:
        nothing = table.schema.empty_table()
        progress.table_versions[table.name] = writer.merge(
            table, nothing, guard="record_offset", replaced=log_partitions
        )
    for log_partition in log_partitions:
        del progress.rows[log_partition]


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
    of_topic: TopicProgress,
    versions: dict[str, int],
    doubts: Mapping[int, Doubt],
) -> None:
    """Add rows about lost records of a topic; a restarted reload adds them once."""
    is_lost = pc.starts_with(pc.field("reason"), LOST_REASON_PREFIX)
    is_lost &= pc.field("log_topic") == of_topic.topic
    known = delta.read(writer.tables, QUARANTINE, ["log_partition", "reason"], where=is_lost)
    written = {(row["log_partition"], row["reason"]) for row in known.to_pylist()}
    rows = [
        {
            "log_topic": of_topic.topic,
            "log_partition": p,
            "record_offset": NO_RECORD_OFFSET,
            "reason": doubt.lost,
        }
        for p, doubt in doubts.items()
        if doubt.lost and (p, doubt.lost) not in written
    ]
    if rows:
        versions[QUARANTINE.name] = writer.append(QUARANTINE, pa.Table.from_pylist(rows))
