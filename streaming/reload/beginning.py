"""The start of a reload: the tables say that it is under way before anything is read.

History rows that are no longer of this log get the outcome `lost`. A row of `quarantine` says which
records are lost. `load_progress` moves the log partitions back to the record offset up to which
their history is right, in state `loading`.

After a crash before that last write, the next start rolls the other tables back and finds the doubt
again. After it, the reload starts from the beginning, however far it was.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.replay.groups import NO_RECORD_OFFSET
from streaming.kafka.fetch import LogDescription
from streaming.reload.doubts import Doubt
from streaming.tables import delta
from streaming.tables.creation import set_properties
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    GROUP_EVENTS,
    KEY_TABLES,
    LOAD_PROGRESS,
    LOST_REASON_PREFIX,
    OFFSET_COMMITS,
    PROPERTY_TOPIC_ID,
    QUARANTINE,
    STATE_LOADING,
)
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)


def begin_reload(
    writer: Writer, progress: LoadProgress, doubts: Mapping[int, Doubt], topic: LogDescription
) -> None:
    """Record in the tables that log partitions are reloaded.

    Log partitions that the topic no longer has lose their rows at once.

    Args:
        writer: the writer of the tables, which have no unfinished micro-batch.
        progress: how far they are; it is moved back.
        doubts: the log partitions, and why.
        topic: as it is now.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be written.
    """
    for reason, log_partitions in _by_reason(doubts).items():
        logger.warning(
            "loaded again from the log start on: log partitions %(log_partitions)s, %(reason)s",
            {"log_partitions": log_partitions, "reason": reason},
        )
    lost = {
        p: doubt.kept_below
        for p, doubt in doubts.items()
        if doubt.kept_below < progress.rows[p].next_offset
    }
    versions = progress.table_versions
    if lost:
        for table in (OFFSET_COMMITS, GROUP_EVENTS):
            versions[table.name] = writer.mark_lost(table, lost)
        versions[QUARANTINE.name] = writer.delete_from(QUARANTINE, lost)
    for log_partition, doubt in doubts.items():
        row = progress.rows[log_partition]
        row.state, row.next_offset = STATE_LOADING, doubt.kept_below
        row.reload_reason, row.reloaded_at = doubt.reason, None
    _quarantine_gone(writer, progress, doubts)
    _drop(writer, progress, doubts.keys() - topic.leaders.keys())
    progress.updated_at = datetime.now(timezone.utc)
    is_other_topic = progress.topic_id != topic.topic_id
    progress.topic_id = topic.topic_id
    progress.write(writer)
    if is_other_topic:
        # Last, because the old topic id is the doubt.
        set_properties(writer.epoch, LOAD_PROGRESS, {PROPERTY_TOPIC_ID: topic.topic_id})


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


def _by_reason(doubts: Mapping[int, Doubt]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for log_partition, doubt in doubts.items():
        found[doubt.reason].append(log_partition)
    return found


def _quarantine_gone(writer: Writer, progress: LoadProgress, doubts: Mapping[int, Doubt]) -> None:
    """Say which records are gone; a reload that starts again says it once."""
    is_lost = pc.starts_with(pc.field("reason"), LOST_REASON_PREFIX)
    known = delta.read(writer.tables, QUARANTINE, ["log_partition", "reason"], where=is_lost)
    said = {(row["log_partition"], row["reason"]) for row in known.to_pylist()}
    rows = [
        {"log_partition": p, "record_offset": NO_RECORD_OFFSET, "reason": doubt.gone}
        for p, doubt in doubts.items()
        if doubt.gone and (p, doubt.gone) not in said
    ]
    if rows:
        version = writer.append(QUARANTINE, pa.Table.from_pylist(rows))
        progress.table_versions[QUARANTINE.name] = version
