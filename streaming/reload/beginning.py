"""The begin of a load: the tables say that it is under way before anything is read.

Rows of history that are not of this log any more get the outcome `lost`, a row of `quarantine` says
which records are gone, and `load_progress` takes the log partitions back to where their history is
true, in state `loading`. A crash before that last write leaves the doubt to the next start; after
it the load begins anew, however far it was.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timezone

import pyarrow as pa

from coordinator_state.groups import NO_RECORD_OFFSET
from streaming.apply.unfinished import take_back
from streaming.kafka.fetch import LogDescription
from streaming.reload.doubts import Doubt
from streaming.tables import delta
from streaming.tables.creation import set_properties
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    GROUP_EVENTS,
    KEY_TABLES,
    LOAD_PROGRESS,
    OFFSET_COMMITS,
    PROPERTY_TOPIC_ID,
    QUARANTINE,
    STATE_LOADING,
)

logger = logging.getLogger(__name__)


def begin_reload(
    tables: str, progress: LoadProgress, doubts: Mapping[int, Doubt], topic: LogDescription
) -> None:
    """Write it down that log partitions are loaded again.

    Those that the topic does not have any more lose their rows at once.

    Args:
        tables: the tables folder.
        progress: how far they are; it is moved back.
        doubts: the log partitions, and why.
        topic: as it is now.

    Raises:
        TablesUnavailable: they cannot be written.
    """
    for reason, log_partitions in _by_reason(doubts).items():
        logger.warning(
            "loaded again from the log start on: log partitions %(log_partitions)s, %(reason)s",
            {"log_partitions": log_partitions, "reason": reason},
        )
    take_back(tables, progress)
    _restore(tables, progress)
    lost = {
        p: doubt.kept_below
        for p, doubt in doubts.items()
        if doubt.kept_below < progress.rows[p].next_offset
    }
    versions = progress.table_versions
    if lost:
        for table in (OFFSET_COMMITS, GROUP_EVENTS):
            versions[table.name] = delta.mark_lost(tables, table, lost)
        versions[QUARANTINE.name] = delta.delete_from(tables, QUARANTINE, lost)
    for log_partition, doubt in doubts.items():
        _say_what_is_gone(tables, progress, log_partition, doubt, topic.topic_id)
        row = progress.rows[log_partition]
        row.state, row.next_offset = STATE_LOADING, doubt.kept_below
        row.reload_reason, row.reloaded_at = doubt.reason, None
    _drop(tables, progress, doubts.keys() - topic.leaders.keys())
    progress.updated_at = datetime.now(timezone.utc)
    is_other_topic = progress.topic_id != topic.topic_id
    progress.topic_id = topic.topic_id
    delta.overwrite(tables, LOAD_PROGRESS, progress.to_arrow())
    if is_other_topic:
        # Last: the doubt is in it.
        set_properties(tables, LOAD_PROGRESS, {PROPERTY_TOPIC_ID: topic.topic_id})


def _restore(tables: str, progress: LoadProgress) -> None:
    """What a micro-batch wrote that was not finished; it may be half of a replacement."""
    for table in KEY_TABLES:
        pinned = progress.table_versions[table.name]
        if delta.current_version(tables, table) > pinned:
            progress.table_versions[table.name] = delta.restore(tables, table, pinned)


def _drop(tables: str, progress: LoadProgress, log_partitions: Collection[int]) -> None:
    if not log_partitions:
        return
    for table in KEY_TABLES:
        nothing = table.schema.empty_table()
        progress.table_versions[table.name] = delta.merge(
            tables, table, nothing, guard="record_offset", replaced=log_partitions
        )
    for log_partition in log_partitions:
        del progress.rows[log_partition]


def _by_reason(doubts: Mapping[int, Doubt]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for log_partition, doubt in doubts.items():
        found[doubt.reason].append(log_partition)
    return found


def _say_what_is_gone(
    tables: str, progress: LoadProgress, log_partition: int, doubt: Doubt, topic_id: str
) -> None:
    if not doubt.gone:
        return
    row = {"log_partition": log_partition, "record_offset": NO_RECORD_OFFSET, "reason": doubt.gone}
    # A crash before `load_progress` is written leads here again.
    epoch = progress.rows[log_partition].leader_epoch
    application = f"coordinator-state/gone/{topic_id}/{log_partition}/{epoch}/{doubt.gone}"
    progress.table_versions[QUARANTINE.name] = delta.append(
        tables, QUARANTINE, pa.Table.from_pylist([row]), transaction=(application, 0)
    )
