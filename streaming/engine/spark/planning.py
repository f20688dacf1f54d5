"""The work of Spark's Python workers: `coordinator_state.apply`, some log partitions at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.collected import Collected, collect, distinct_groups
from coordinator_state.apply.columns import in_ms, is_below
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.counts import by_log_partition
from coordinator_state.apply.group_rows import (
    group_tombstones,
    restored_groups,
    unnamed_topics,
)
from coordinator_state.apply.log_partitions import Applied, apply_collected
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.apply.state import ApplyContext, ApplyState
from coordinator_state.log.log_rows import ROW_KIND_PROGRESS, pack, unpack
from coordinator_state.replay.releases import Release
from streaming.engine.spark.planned_rows import (
    COUNTED,
    COUNTS,
    COUNTS_SCHEMA,
    KEYED_SCHEMA,
    PLANNED_SCHEMA,
    REPORT_COLUMNS,
    in_struct,
    of_struct,
    planned_rows,
)
from streaming.engine.written_tables import HISTORY, WRITTEN_TABLES
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    PENDING_OFFSETS,
    Table,
)


def key_by_log_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut packed rows (`PACKED_ROW_SCHEMA`) by log partition (`KEYED_SCHEMA`)."""
    for batch in batches:
        for index in range(batch.num_rows):
            rows = unpack(pa.Table.from_batches([batch.slice(index, 1)]))
            is_of_offsets = pc.is_null(rows["log_topic"])
            of_offsets, others = rows.filter(is_of_offsets), rows.filter(pc.invert(is_of_offsets))
            keyed = [_keyed(of_offsets, p.as_py()) for p in pc.unique(of_offsets["log_partition"])]
            keyed += [_of_topic(others, topic.as_py()) for topic in pc.unique(others["log_topic"])]
            yield pa.RecordBatch.from_pylist(keyed, KEYED_SCHEMA)


def _of_topic(rows: pa.Table, topic: str) -> dict[str, Any]:
    (own,) = rows.filter(pc.equal(rows["log_topic"], topic)).combine_chunks().to_batches()
    (packed,) = pack(own)["rows"].to_pylist()
    return {"log_topic": topic, "rows": packed}


def _keyed(rows: pa.Table, log_partition: int) -> dict[str, Any]:
    own = rows.filter(pc.equal(rows["log_partition"], log_partition))
    is_report = pc.equal(own["row_kind"], ROW_KIND_PROGRESS)
    reports = own.filter(is_report).select(REPORT_COLUMNS).to_pylist()
    records = own.filter(pc.invert(is_report))
    (whole,) = records.combine_chunks().to_batches() or [_no_rows(records.schema)]
    (packed,) = pack(whole)["rows"].to_pylist()
    groups = pc.drop_null(pc.unique(records["group_id"])).to_pylist()
    # A range has one `progress` row.
    report = reports[0] if reports else None
    return {"log_partition": log_partition, "rows": packed, "groups": groups, "report": report}


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """Plans the changes of a bucket of log partitions; Spark calls it for each bucket.

    Attributes:
        context: the rules of the micro-batch.
        applied_below: the next offset of each log partition that is not being reloaded; rows below
            it are applied already.
        replaced: the first record offset that the tables of history lack, for each log partition
            whose reload is complete. It has no state before.
    """

    context: ApplyContext
    applied_below: Mapping[int, int]
    replaced: Mapping[int, int]

    def planned(self, keyed: pa.Table, stored: pa.Table) -> pa.Table:
        """The planned rows (`PLANNED_SCHEMA`) of a bucket of log partitions.

        Args:
            keyed: their rows of the micro-batch or of complete reloads (`KEYED_SCHEMA`).
            stored: the state before, of the groups that these rows touch.
        """
        if not keyed.num_rows:
            return PLANNED_SCHEMA.empty_table()
        rows = unpack(keyed.select(["rows"]))
        is_applied = is_below(rows, "record_offset", self.applied_below)
        collected = collect(rows.filter(pc.invert(is_applied)))
        before = _state(stored, collected, self.context.release)
        applied = apply_collected(collected, before, self.context)
        tables = {table.name: getattr(applied, table.name) for table in WRITTEN_TABLES}
        for table, column in HISTORY.items():
            is_known = is_below(tables[table.name], column, self.replaced)
            tables[table.name] = tables[table.name].filter(pc.invert(is_known))
        planned = [planned_rows(table, tables[table.name]) for table in WRITTEN_TABLES]
        log_partitions = sorted(set(keyed["log_partition"].to_pylist()))
        numbers = {name: by_log_partition(rows) for name, rows in tables.items()}
        numbers.update({name: getattr(applied.counts, name) for name in COUNTED})
        unnamed = sorted(self._unnamed(collected, before, applied))
        counts = [
            {
                "log_partition": p,
                "newest_timestamp": applied.newest_timestamps.get(p),
                "is_pending_changed": not _is_same(
                    _of(applied.pending_offsets, p), _of(before.pending, p)
                ),
                # Those of the bucket are in one of its rows.
                "unnamed_topic_ids": unnamed if p == log_partitions[0] else [],
                **{name: by_partition.get(p, 0) for name, by_partition in numbers.items()},
            }
            for p in log_partitions
        ]
        counted = pa.Table.from_pylist(counts, COUNTS_SCHEMA)
        return pa.concat_tables([in_struct(PLANNED_SCHEMA, COUNTS, counted), *planned])

    def _unnamed(self, collected: Collected, before: ApplyState, applied: Applied) -> set[str]:
        """The topic ids of the micro-batch and of its groups that have no known name."""
        changed = (change.group for change in applied.group_changes.changes.values())
        topic_ids = unnamed_topics([*before.groups.values(), *changed]) | collected.topic_ids
        return topic_ids - self.context.topic_names.keys()


def _state(stored: pa.Table, collected: Collected, release: Release) -> ApplyState:
    """The state before, from stored rows; a table that is not needed has no column."""
    records = of_struct(stored, COORDINATOR_RECORDS.name)

    def rows_of(table: Table, schema: pa.Schema) -> pa.Table:
        is_there = table.name in stored.column_names
        return in_ms(of_struct(stored, table.name), schema) if is_there else schema.empty_table()

    pending = rows_of(PENDING_OFFSETS, PENDING_OFFSET_ROW)
    state = ApplyState(
        committed=rows_of(GROUP_OFFSETS, COMMITTED_SCHEMA),
        pending=pending,
        groups=restored_groups(
            of_struct(stored, GROUPS.name),
            of_struct(stored, GROUP_MEMBERS.name),
            records,
            release,
        ),
    )
    with_pending = distinct_groups(pending) | collected.transactional_groups
    tombstones = group_tombstones(records)
    return replace(
        state, tombstones={group: tombstones[group] for group in with_pending & tombstones.keys()}
    )


def _of(rows: pa.Table, log_partition: int) -> pa.Table:
    return rows.filter(pc.equal(rows["log_partition"], log_partition))


def _is_same(rows: pa.Table, others: pa.Table) -> bool:
    """Whether two tables have the same pending offsets, in any order."""
    if rows.num_rows != others.num_rows:
        return False
    order = [(name, "ascending") for name in PENDING_OFFSETS.key]
    return bool(rows.sort_by(order).equals(others.sort_by(order)))
