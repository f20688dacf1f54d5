"""Conversion of rows to the columns and types of a table, and back."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from streaming.tables.schemas import TIMESTAMP, TIMESTAMP_MS

_MS = pa.timestamp("ms", tz="UTC")


def with_timestamps(rows: pa.Table) -> pa.Table:
    """Turn every `<name>_ms` column of milliseconds into a timestamp column `<name>`.

    A time before year 1 or after year 9999 becomes the nearest time that every reader supports.
    """
    for index, name in enumerate(rows.schema.names):
        if name.endswith(TIMESTAMP_MS):
            clamped = pc.min_element_wise(
                pc.max_element_wise(rows[name], MIN_TIMESTAMP_MS, skip_nulls=False),
                MAX_TIMESTAMP_MS,
                skip_nulls=False,
            )
            times = clamped.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)
            rows = rows.set_column(index, name.removesuffix("_ms"), times)
    return rows


def in_ms(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a table in the columns of a schema with times in milliseconds."""
    columns = [
        pc.cast(rows[field.name.removesuffix("_ms")], _MS, safe=False).cast(pa.int64())
        if field.name.endswith(TIMESTAMP_MS)
        else rows[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def stored_names(schema: pa.Schema) -> list[str]:
    """The columns of a table that `in_ms` needs for a schema."""
    return [
        name.removesuffix("_ms") if name.endswith(TIMESTAMP_MS) else name for name in schema.names
    ]
