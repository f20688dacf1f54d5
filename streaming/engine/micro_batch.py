"""What `foreachBatch` does: one micro-batch of log rows into the tables.

The rows are collected once, planned in memory (`apply_offsets`, `apply_groups`) and written table
by table: `group_offsets`, `coordinator_records`, `groups`, `group_members`, `offset_commits`,
`group_events`, `quarantine`, `pending_offsets`, last `load_progress`. A table without changes is
left alone.

A log partition that is reloaded is held back until all of its log is read (`reloading`). Its rows
then replace those of the tables, in the same one commit per table.

After a crash between any two writes, `load_progress` still names the snapshot before the
micro-batch. The next start rolls the tables back to it (`streaming.tables.unfinished`) and applies
the records again, possibly in other micro-batches. Rows below `next_offset` of their log partition
are left out, and every MERGE is guarded by record offsets.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.exact_replay import PendingOffset, RecordCounts
from coordinator_state.log.log_rows import (
    ROW_KIND_PROGRESS,
    ROW_KIND_UNDECODABLE,
    unpack,
)
from coordinator_state.replay.group_replay import AskTopicNames, GroupState
from coordinator_state.replay.offsets import Semantics
from streaming.engine.committed_offsets import CommittedOffsets
from streaming.engine.group_events import EventPlan
from streaming.engine.group_tables import GroupTables
from streaming.engine.groups import GroupId, plan_groups, plan_records
from streaming.engine.offsets import by_log_partition, is_below, plan_offsets
from streaming.engine.pending_rows import pending_rows, read_pending
from streaming.engine.progress import OnProgress, ProgressEvent
from streaming.engine.reloading import Reloading, Taken
from streaming.engine.table_writes import TableWrites
from streaming.tables import delta
from streaming.tables.columns import with_timestamps
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import (
    DEFAULT_OFFSETS_RETENTION_MS,
    GROUP_EVENTS,
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
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

    `progress` is that of the folder's newest snapshot; no table has rows after it. `topic_names`
    gives the names of the cluster's topics by topic id, as far as it can. `offsets_retention_ms` is
    the brokers' `offsets.retention.minutes`: by it an event says that an offset expired. `fault` is
    called with the name of each table right after it is written; tests crash there.
    """

    writer: Writer
    semantics: Semantics
    history: str
    progress: LoadProgress
    on_progress: OnProgress | None = None
    topic_names: AskTopicNames = lambda _topic_ids: {}
    offsets_retention_ms: int = DEFAULT_OFFSETS_RETENTION_MS
    fault: Callable[[str], None] = lambda _table: None
    _pending: list[PendingOffset] = field(default_factory=list)
    _groups: dict[GroupId, GroupState] = field(default_factory=dict)
    _committed: CommittedOffsets = field(default_factory=CommittedOffsets)
    _query_id: str = ""
    _reloading: Reloading = field(init=False)

    def __post_init__(self) -> None:
        self._reloading = Reloading(compacts=self.history != "all")

    def load(self, query_id: str) -> None:
        """Read pending offsets, groups and committed offsets of the snapshot."""
        self._query_id = query_id
        tables, versions = self.writer.tables, self.progress.table_versions
        self._pending = read_pending(
            delta.read(tables, PENDING_OFFSETS, version=versions[PENDING_OFFSETS.name])
        )
        self._groups = GroupTables(tables).groups(versions)
        if self._with_history:
            columns, version = CommittedOffsets.columns(), versions[GROUP_OFFSETS.name]
            self._committed.load(delta.read(tables, GROUP_OFFSETS, columns, version=version))
        self.progress.query_id = query_id

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Apply one micro-batch of a query, whose rows are packed."""
        started = time.monotonic()
        rows = unpack(batch.toArrow())
        self.apply(rows, batch_id, _query_id(batch.sparkSession), started=started)

    def apply(
        self, rows: pa.Table, batch_id: int, query_id: str, *, started: float | None = None
    ) -> None:
        """Apply the rows (`LOG_ROW_SCHEMA`) of a micro-batch that began at `started`."""
        started = time.monotonic() if started is None else started
        read_at = datetime.now(timezone.utc)
        is_first = not self._query_id
        if is_first:
            self.load(query_id)
        reports = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_PROGRESS)).to_pylist()
        self.progress.require_no_gap(reports)
        rows = rows.filter(pc.not_equal(rows["row_kind"], ROW_KIND_PROGRESS))
        taken = self._reloading.take(rows, reports, self.progress)
        rows = self._not_applied(taken)
        counts = RecordCounts()
        writes = TableWrites(self.writer, self.progress, frozenset(taken.replaced), self.fault)
        self._forget(taken)
        self._write(writes, rows, taken, counts, is_first)
        self.progress.begin_anew(taken.replaced, read_at)
        read = self.progress.advance(
            taken.reports,
            counts,
            kept=by_log_partition(rows),
            waiting=Counter(entry.log_partition for entry in self._pending),
            newest=_newest_timestamps(rows),
            read_at=read_at,
        )
        self.progress.batch_id = batch_id
        self.progress.updated_at = datetime.now(timezone.utc)
        self.progress.write(self.writer)
        self.fault(LOAD_PROGRESS.name)
        self._report(batch_id, counts, read, writes.rows, started)

    def _not_applied(self, taken: Taken) -> pa.Table:
        """Leave out records below the next offset of their log partition."""
        applied = is_below(
            taken.rows,
            "record_offset",
            {
                p: row.next_offset
                for p, row in self.progress.rows.items()
                if p not in taken.replaced
            },
        )
        return taken.rows.filter(pc.invert(applied)) if pc.any(applied).as_py() else taken.rows

    def _forget(self, taken: Taken) -> None:
        """What was known of log partitions whose rows are replaced."""
        if taken.replaced:
            self._pending = [e for e in self._pending if e.log_partition not in taken.replaced]
            self._groups = {i: g for i, g in self._groups.items() if i[0] not in taken.replaced}
            self._committed.forget(taken.replaced)

    def _write(
        self,
        writes: TableWrites,
        rows: pa.Table,
        taken: Taken,
        counts: RecordCounts,
        is_first: bool,
    ) -> None:
        plan = plan_offsets(
            rows, self._pending, self.semantics, counts, with_history=self._with_history
        )
        writes.merge(
            GROUP_OFFSETS,
            with_timestamps(plan.changes),
            guard="position",
            deletes="is_tombstone",
        )
        records = plan_records(rows, counts)
        writes.records(records)
        planned = self._event_plan()
        events = planned.events(rows, plan.history, records if self._with_history else [])
        changes = plan_groups(
            rows,
            records,
            self._groups,
            self.semantics,
            plan,
            GroupTables(self.writer.tables),
            replayed=planned.replayed,
            always=is_first,
        )
        writes.groups(changes, self.topic_names)
        for identity, change in changes.items():
            if change.group is None:
                self._groups.pop(identity, None)
            else:
                self._groups[identity] = change.group
        for table, history, column in (
            (OFFSET_COMMITS, plan.history, "outcome_record_offset"),
            (GROUP_EVENTS, events, "record_offset"),
        ):
            writes.append(table, _history_rows(_lacking(history, column, taken)))
        writes.quarantine(
            _quarantine_rows(rows, counts),
            {r["log_partition"]: r["from_offset"] for r in taken.reports},
        )
        if plan.pending != self._pending or is_first or taken.replaced:
            writes.overwrite(PENDING_OFFSETS, pending_rows(plan.pending))
        self.fault(PENDING_OFFSETS.name)
        self._pending = plan.pending
        if self._with_history:
            self._committed.update(plan.changes)

    @property
    def _with_history(self) -> bool:
        return self.history != "off"

    def _event_plan(self) -> EventPlan:
        """From what the groups were before the micro-batch."""
        return EventPlan(
            committed=self._committed,
            groups=self._groups,
            semantics=self.semantics,
            topic_names=self.topic_names,
            retention_ms=self.offsets_retention_ms,
        )

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


def _newest_timestamps(rows: pa.Table) -> dict[int, datetime]:
    """The newest timestamp of the records of each log partition."""
    found = with_timestamps(rows.select(["log_partition", "record_timestamp_ms"]))
    newest = found.group_by("log_partition").aggregate([("record_timestamp", "max")])
    columns = [newest[name].to_pylist() for name in ("log_partition", "record_timestamp_max")]
    return {log_partition: at for log_partition, at in zip(*columns, strict=True) if at is not None}


def _query_id(session: SparkSession) -> str:
    """The id of the running query: its checkpoint's, the same after every restart on it."""
    query_id = session.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
    if query_id is None:
        raise RuntimeError(f"a micro-batch without {QUERY_ID_PROPERTY}")
    return str(query_id)


def _lacking(history: pa.Table, column: str, taken: Taken) -> pa.Table:
    """What the tables of history lack of log partitions that were loaded again."""
    return history.filter(pc.invert(is_below(history, column, taken.replaced)))


def _history_rows(history: pa.Table) -> pa.Table:
    rows = with_timestamps(history)
    return rows.append_column("day", rows["record_timestamp"].cast(pa.date32()))


def _quarantine_rows(rows: pa.Table, counts: RecordCounts) -> pa.Table:
    undecodable = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_UNDECODABLE))
    counts.quarantined.update(by_log_partition(undecodable))
    return with_timestamps(
        undecodable.select(
            [
                "log_partition",
                "record_offset",
                "record_timestamp_ms",
                "record_type",
                "reason",
                "raw_key",
                "raw_value",
                "producer_id",
            ]
        )
    )
