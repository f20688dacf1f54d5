"""The rows between the tasks that plan a micro-batch, the stored state and the writes.

Rows of several tables are in one data frame: each row has the columns of its table in the struct
that is named after the table; the other structs are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import columns_of, nullable, stored_names
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.group_rows import MEMBER_STATE_COLUMNS, RAW_RECORD_COLUMNS
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from streaming.engine.written_tables import MERGED, WRITTEN_TABLES
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    PENDING_OFFSETS,
    Table,
)

STATE_COLUMNS: Mapping[Table, list[str]] = {
    GROUP_OFFSETS: stored_names(COMMITTED_SCHEMA),
    PENDING_OFFSETS: PENDING_OFFSETS.schema.names,
    GROUPS: GROUPS.schema.names,
    GROUP_MEMBERS: MEMBER_STATE_COLUMNS,
    COORDINATOR_RECORDS: [*RAW_RECORD_COLUMNS, "record_type", "is_tombstone"],
}
"""The columns of the tables that a micro-batch depends on."""

REPORT_COLUMNS = (
    *("log_partition", "record_offset", "from_offset", "high_watermark", "log_leader_epoch"),
    *("log_epoch_entries", "records_read", "records_superseded", "bytes_read"),
)
"""The columns of a `progress` row of the source that are set."""

KEYED_SCHEMA = pa.schema(
    [
        ("log_topic", pa.string()),
        ("log_partition", pa.int32()),
        ("rows", pa.binary()),
        ("groups", pa.list_(pa.string())),
        ("report", pa.struct([LOG_ROW_SCHEMA.field(name) for name in REPORT_COLUMNS])),
    ]
)
"""Packed rows of one log partition, the groups that they are about, and its `progress` row.

A row of another topic has the packed rows of all its log partitions, `progress` rows included.
"""

COUNTS = "counts"
COUNTED = tuple(field.name for field in fields(RecordCounts))
COUNTS_SCHEMA = pa.schema(
    [
        ("log_partition", pa.int32()),
        *((name, pa.int64()) for name in COUNTED),
        ("newest_timestamp", pa.timestamp("us", tz="UTC")),
        ("is_pending_changed", pa.bool_()),
        ("unnamed_topic_ids", pa.list_(pa.string())),
        *((table.name, pa.int64()) for table in WRITTEN_TABLES),
    ]
)
"""One row for each log partition: its records by outcome, and the number of rows by table."""


def planned_columns(table: Table) -> pa.Schema:
    """The columns of a table's planned rows: its own, and those that guide a MERGE."""
    merge = MERGED.get(table)
    guiding = [] if merge is None else [(merge.guard, pa.int64()), (merge.deletes, pa.bool_())]
    own = nullable(table.schema)
    added = [pa.field(name, kind) for name, kind in guiding if name and name not in own.names]
    return pa.schema([*own, *added])


PLANNED_SCHEMA = pa.schema(
    [
        ("table", pa.string()),
        (COUNTS, pa.struct(list(COUNTS_SCHEMA))),
        *((table.name, pa.struct(list(planned_columns(table)))) for table in WRITTEN_TABLES),
    ]
)


def planned_rows(table: Table, rows: pa.Table) -> pa.Table:
    """Rows of a micro-batch as planned rows of a table."""
    return in_struct(PLANNED_SCHEMA, table.name, columns_of(rows, planned_columns(table)))


def in_struct(schema: pa.Schema, name: str, rows: pa.Table) -> pa.Table:
    """Rows as a struct of this name, beside null structs; the column `table` has the name."""
    structs = pa.chunked_array(
        [batch.to_struct_array() for batch in rows.to_batches()], schema.field(name).type
    )
    columns = {"table": pa.array([name] * rows.num_rows, pa.string()), name: structs}
    return pa.table(
        [columns.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in schema],
        schema=schema,
    )


def of_struct(rows: pa.Table, name: str) -> pa.Table:
    """The rows whose struct of this name is set, as the struct's columns."""
    structs = rows[name].filter(pc.is_valid(rows[name]))
    return pa.Table.from_batches(_batches(structs), pa.schema(list(rows.schema.field(name).type)))


def _batches(structs: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    return (pa.RecordBatch.from_struct_array(chunk) for chunk in structs.chunks)
