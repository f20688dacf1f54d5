"""The start of a reload of another internal topic than `__consumer_offsets`.

The rows of the log partitions are deleted at once, and come back as the log is read; meanwhile
`topic_progress` says `loading`. Events stay: those of records that the log no longer has get the
outcome `lost`, and the reload appends only events that the table lacks.

After a crash, the next start finds the reason again, or restarts the reload from the log start.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.kafka.leaders import LogDescription
from streaming.reload.beginning import log_reasons, quarantine_lost
from streaming.reload.doubts import Doubt
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import QUARANTINE, STATE_TABLES, TOPIC_TABLES, TRANSACTION_EVENTS
from streaming.tables.topic_progress import Progress
from streaming.tables.writer import Writer


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
    of_topic, versions = progress.others[topic.topic], progress.table_versions
    log_reasons(topic.topic, doubts)
    lost = {
        p: doubt.kept_below
        for p, doubt in doubts.items()
        if doubt.kept_below < of_topic.rows[p].next_offset
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
    quarantine_lost(writer, of_topic, versions, doubts)
    for log_partition, doubt in doubts.items():
        if log_partition in topic.leaders:
            of_topic.rows[log_partition] = Progress(
                next_offset=doubt.kept_below,
                current_at=of_topic.rows[log_partition].current_at,
                reload_reason=doubt.reason,
            )
        else:
            del of_topic.rows[log_partition]
    of_topic.topic_id = topic.topic_id
