"""The function for `foreachBatch`: it applies one micro-batch of log rows to the tables.

An engine computes the changes of all tables with `coordinator_state.apply`, and writes them.
`topic_progress` is written next to last, and `load_progress` last: it commits the snapshot. A table
without changes is not written.

After a crash between any two writes, `load_progress` still names the snapshot before the
micro-batch. The next start rolls the tables back to it (`streaming.tables.unfinished`) and applies
the records again, possibly in other micro-batches and with another engine. Rows below the next
offset of their log partition are skipped, and every MERGE has a guard offset.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic

from streaming.engine.engine import Engine, Outcome, Outcomes, Rows
from streaming.engine.progress import OnProgress, ProgressEvent
from streaming.tables.clock import confirm, utc_now
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import LOAD_PROGRESS, TOPIC_PROGRESS
from streaming.tables.unfinished import compacted_versions
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN_EVERY = timedelta(minutes=1)

QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""Spark sets it on the thread that runs a query's micro-batches."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class MicroBatchApply(Generic[Rows]):
    """Applies micro-batches, one after the other, to one tables folder.

    `progress` is that of the newest snapshot; no table has rows after it. `require_awake` raises if
    the machine was suspended for too long to go on. `clock` is the virtual clock of a scenario.
    `compacted_versions` returns the newer versions of tables with the same rows.
    """

    engine: Engine[Rows]
    progress: LoadProgress
    on_progress: OnProgress | None = None
    require_awake: Callable[[], None] = lambda: None
    clock: Callable[[], datetime] | None = None
    compacted_versions: Callable[[str, Mapping[str, int]], Mapping[str, int]] = compacted_versions
    _follows_at_s: float = field(init=False, default_factory=time.monotonic)

    @property
    def writer(self) -> Writer:
        """The writer of the folder."""
        return self.engine.writer

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch of a query; its rows are packed."""
        started = time.monotonic()
        rows = self.engine.rows_of(batch)
        self.apply(rows, batch_id, _query_id(batch.sparkSession), started=started)

    def apply(
        self, rows: Rows, batch_id: int, query_id: str, *, started: float | None = None
    ) -> None:
        """Apply the rows of a micro-batch that began at `started`."""
        started = time.monotonic() if started is None else started
        read_at = utc_now() if self.clock is None else self.clock()
        self.require_awake()
        outcomes = self.engine.apply(rows, self.progress)
        # Its rows were read until now. Without the write below, the next start undoes it.
        self.require_awake()
        newest_timestamps = outcomes[self.progress.topic].newest_timestamps
        if newest_timestamps and self.clock is None:
            confirm(max(newest_timestamps.values()))
        read = self._advance(outcomes, read_at)
        self.progress.query_id = query_id
        self.progress.batch_id = batch_id
        self._follow_compactions()
        self.progress.write(self.writer, now=None if self.clock is None else self.clock())
        self.writer.on_table(LOAD_PROGRESS.name)
        self._report(batch_id, outcomes.values(), read, started)

    def _follow_compactions(self) -> None:
        """Name the newest files of tables that this micro-batch has not written, once a minute."""
        now_s = time.monotonic()
        if now_s >= self._follows_at_s:
            versions = self.progress.table_versions
            versions.update(self.compacted_versions(self.writer.tables, versions))
            self._follows_at_s = now_s + _WRITTEN_EVERY.total_seconds()

    def _advance(self, outcomes: Outcomes, read_at: datetime) -> int:
        """Advance the topics, and write `topic_progress`; return the number of records read.

        Of topics without new records the time of the last micro-batch is written once a minute.
        """
        read, is_due = 0, False
        for topic, outcome in outcomes.items():
            topic_progress = self.progress.by_topic[topic]
            before = topic_progress.places()
            topic_progress.finish_reload(outcome.replaced, read_at)
            read += topic_progress.advance(
                outcome.reports,
                outcome.counts,
                newest_timestamps=outcome.newest_timestamps,
                read_at=read_at,
            )
            if topic_progress is not self.progress:
                is_due |= topic_progress.places() != before
                is_due |= read_at - topic_progress.updated_at > _WRITTEN_EVERY
        if is_due:
            self.progress.write_others(self.writer, read_at)
            self.writer.on_table(TOPIC_PROGRESS.name)
        return read

    def _report(
        self, batch_id: int, outcomes: Collection[Outcome], read: int, started: float
    ) -> None:
        duration_ms = round((time.monotonic() - started) * 1000)
        rows = self.progress.rows
        quarantined = sum(sum(outcome.counts.quarantined.values()) for outcome in outcomes)
        merged = Counter[str]()
        for outcome in outcomes:
            merged.update(outcome.rows)
        logger.info(
            "micro-batch %(batch_id)s: %(records_read)s records read, %(rows_merged)s rows merged, "
            "%(quarantined)s quarantined, %(duration_ms)s ms",
            {
                "batch_id": batch_id,
                "records_read": read,
                "rows_merged": merged.total(),
                "quarantined": quarantined,
                "duration_ms": duration_ms,
            },
        )
        if self.on_progress is not None:
            every_row = self.progress.every_row
            next_offset_total = sum(row.next_offset for row in every_row)
            self.on_progress(
                ProgressEvent(
                    batch_id=batch_id,
                    records_read=read,
                    offsets_read=next_offset_total - self.progress.reported_offset_total,
                    records_read_total=sum(row.records_read for row in every_row),
                    records_quarantined=quarantined,
                    records_unaccounted_total=sum(row.records_unaccounted for row in every_row),
                    next_offset_total=next_offset_total,
                    high_watermark_total=sum(row.high_watermark for row in every_row),
                    duration_ms=duration_ms,
                    states={p: row.state for p, row in sorted(rows.items())},
                    rows_merged=dict(merged),
                )
            )
            self.progress.reported_offset_total = next_offset_total


def _query_id(session: SparkSession) -> str:
    """The id of the query, from its checkpoint: it stays the same after a restart."""
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if query_id is None:
        raise RuntimeError(f"Spark did not set {QUERY_ID_PROPERTY} for the micro-batch")
    return str(query_id)
