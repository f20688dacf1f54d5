"""The function for `foreachBatch`: it applies one micro-batch of log rows to the tables.

`coordinator_state.apply` computes the changes of all tables from the rows. They are written table
by table: `group_offsets`, `coordinator_records`, `groups`, `group_members`, `offset_commits`,
`group_events`, `quarantine`, `pending_offsets`, and last `load_progress`. A table without changes
is not written.

The rows of a log partition in a reload are held in memory until its log is read to the end
(`reloading`). They then replace those of the tables, in the same single commit per table.

After a crash between any two writes, `load_progress` still names the snapshot before the
micro-batch. The next start rolls the tables back to it (`streaming.tables.unfinished`) and applies
the records again, possibly in other micro-batches. Rows below the next offset of their log
partition are skipped, and every MERGE has a guard offset.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from coordinator_state.apply.collected import Collected, collect
from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.log_partitions import Applied, apply_collected
from coordinator_state.apply.state import ApplyContext
from coordinator_state.log.log_rows import unpack
from coordinator_state.replay.group_replay import AskTopicNames
from coordinator_state.replay.offsets import Semantics
from streaming.engine.progress import OnProgress, ProgressEvent
from streaming.engine.reloading import ReadyRows, Reloading
from streaming.engine.table_writes import TableWrites
from streaming.engine.tables_state import TablesState
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    DEFAULT_OFFSETS_RETENTION_MS,
    LOAD_PROGRESS,
)
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""Spark sets it on the thread that runs a query's micro-batches."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class MicroBatchApply:
    """Applies micro-batches, one after the other, to one tables folder.

    `progress` is that of the newest snapshot; no table has rows after it. `topic_names` returns
    known topic names by topic id. `offsets_retention_ms` is the brokers'
    `offsets.retention.minutes`; events use it to tell that an offset expired. `fault` is called
    with the name of each table right after its write; tests crash there.
    """

    writer: Writer
    semantics: Semantics
    history_mode: str
    progress: LoadProgress
    on_progress: OnProgress | None = None
    topic_names: AskTopicNames = lambda _topic_ids: {}
    offsets_retention_ms: int = DEFAULT_OFFSETS_RETENTION_MS
    fault: Callable[[str], None] = lambda _table: None
    _state: TablesState | None = None
    _topic_names: dict[str, str] = field(default_factory=dict)
    _unnamed_topics: set[str] = field(default_factory=set)
    _reloading: Reloading = field(init=False)

    def __post_init__(self) -> None:
        self._reloading = Reloading(compacts=self.history_mode != "all")

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch of a query; its rows are packed."""
        started = time.monotonic()
        rows = unpack(batch.toArrow())
        self.apply(rows, batch_id, _query_id(batch.sparkSession), started=started)

    def apply(
        self, rows: pa.Table, batch_id: int, query_id: str, *, started: float | None = None
    ) -> None:
        """Apply the rows (`LOG_ROW_SCHEMA`) of a micro-batch that began at `started`."""
        started = time.monotonic() if started is None else started
        read_at = datetime.now(timezone.utc)
        is_first = self._state is None
        state = self._begin(query_id) if self._state is None else self._state
        ready = self._reloading.ready_rows(rows, self.progress)
        state.forget(ready.replaced)
        with _garbage_collection_paused():
            applied = self._applied(ready, state)
        writes = TableWrites(self.writer, self.progress, ready.replaced, self.fault)
        is_pending_changed = is_first or not applied.pending_offsets.equals(state.pending)
        writes.write(applied, ready.from_offsets, is_pending_changed=is_pending_changed)
        state.update(applied)
        self.progress.finish_reload(ready.replaced, read_at)
        read = self.progress.advance(
            ready.reports,
            applied.counts,
            newest_timestamps=applied.newest_timestamps,
            read_at=read_at,
        )
        self.progress.batch_id = batch_id
        self.progress.write(self.writer)
        self.fault(LOAD_PROGRESS.name)
        self._report(batch_id, applied.counts, read, writes.rows, started)

    def _begin(self, query_id: str) -> TablesState:
        """Read the state of the snapshot where the query continues."""
        self.progress.query_id = query_id
        self._state = TablesState.read(
            self.writer.tables,
            self.progress.table_versions,
            self.semantics,
            keeps_committed=self._with_history,
        )
        self._unnamed_topics = self._state.unnamed_topics()
        return self._state

    def _applied(self, ready: ReadyRows, state: TablesState) -> Applied:
        """The changes that a micro-batch makes to the tables."""
        collected = collect(ready.rows)
        before = state.before(collected, ready.replaced)
        applied = apply_collected(
            collected,
            before,
            ApplyContext(
                semantics=self.semantics,
                with_history=self._with_history,
                offsets_retention_ms=self.offsets_retention_ms,
                topic_names=self._names(collected),
            ),
        )
        for warning in applied.warnings:
            logger.info(
                "log partition %(log_partition)s: a broker would not load record offset "
                "%(record_offset)s: %(reason)s",
                {
                    "log_partition": warning.log_partition,
                    "record_offset": warning.record_offset,
                    "reason": warning.reason,
                },
            )
        return applied

    def _names(self, collected: Collected) -> Mapping[str, str]:
        """The known names of all topics that records name by topic id."""
        wanted = (collected.topic_ids | self._unnamed_topics) - self._topic_names.keys()
        self._topic_names.update(self.topic_names(wanted) if wanted else {})
        self._unnamed_topics = wanted - self._topic_names.keys()
        return self._topic_names

    @property
    def _with_history(self) -> bool:
        return self.history_mode != "off"

    def _report(
        self,
        batch_id: int,
        counts: RecordCounts,
        read: int,
        merged: dict[str, int],
        started: float,
    ) -> None:
        duration_ms = round((time.monotonic() - started) * 1000)
        rows = self.progress.rows
        quarantined = sum(counts.quarantined.values())
        logger.info(
            "micro-batch %(batch_id)s: %(records_read)s records read, %(rows_merged)s rows merged, "
            "%(quarantined)s quarantined, %(duration_ms)s ms",
            {
                "batch_id": batch_id,
                "records_read": read,
                "rows_merged": sum(merged.values()),
                "quarantined": quarantined,
                "duration_ms": duration_ms,
            },
        )
        if self.on_progress is not None:
            next_offset_total = sum(row.next_offset for row in rows.values())
            self.on_progress(
                ProgressEvent(
                    batch_id=batch_id,
                    records_read=read,
                    offsets_read=next_offset_total - self.progress.reported_offset_total,
                    records_read_total=sum(row.records_read for row in rows.values()),
                    records_quarantined=quarantined,
                    records_unaccounted_total=sum(row.records_unaccounted for row in rows.values()),
                    next_offset_total=next_offset_total,
                    high_watermark_total=sum(row.high_watermark for row in rows.values()),
                    duration_ms=duration_ms,
                    states={p: row.state for p, row in sorted(rows.items())},
                    rows_merged=merged,
                )
            )
            self.progress.reported_offset_total = next_offset_total


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause Python's search for reference cycles.

    The changes of a micro-batch have none, and they are many objects that live for long: the search
    takes a third of the time of a micro-batch of group records.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _query_id(session: SparkSession) -> str:
    """The id of the query, from its checkpoint: it stays the same after a restart."""
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if query_id is None:
        raise RuntimeError(f"Spark did not set {QUERY_ID_PROPERTY} for the micro-batch")
    return str(query_id)
