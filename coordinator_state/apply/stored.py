"""Columns as the tables store them.

Rows of a micro-batch have times as `<name>_timestamp_ms`, in milliseconds since the epoch. Tables
have timestamps named `<name>_timestamp`, and tables of history also have the `day` of a record.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

_MS: Final = pa.timestamp("ms", tz="UTC")
_TIMESTAMP_MS: Final = "_timestamp_ms"


def columns_of(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of a table; null for columns that the rows lack.

    Times before year 1 or after 9999 become the nearest time that every reader can show.
    """
    return pa.table([column_of(rows, field) for field in schema], schema=schema)


def column_of(rows: pa.Table, field: pa.Field) -> Any:
    """One column of a table; all null if the rows lack it."""
    if field.name in rows.column_names:
        return rows[field.name].cast(field.type)
    name_ms = "record_timestamp_ms" if field.name == "day" else f"{field.name}_ms"
    if name_ms.endswith(_TIMESTAMP_MS) and name_ms in rows.column_names:
        return timestamps(rows[name_ms]).cast(field.type)
    return pa.nulls(rows.num_rows, field.type)


def in_ms(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a table in the columns of a schema, which has times in milliseconds."""
    columns = [
        pc.cast(rows[field.name.removesuffix("_ms")], _MS, safe=False).cast(pa.int64())
        if field.name.endswith(_TIMESTAMP_MS)
        else rows[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def stored_names(schema: pa.Schema) -> list[str]:
    """The columns of a table that `in_ms` needs for a schema."""
    return [stored_name(name) for name in schema.names]


def stored_name(name: str) -> str:
    """The name under which a table stores a column of a micro-batch."""
    return name.removesuffix("_ms") if name.endswith(_TIMESTAMP_MS) else name


def timestamps(times_ms: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times in milliseconds as timestamps; the nearest possible one outside years 1 to 9999."""
    clamped = pc.min_element_wise(
        pc.max_element_wise(times_ms, MIN_TIMESTAMP_MS, skip_nulls=False),
        MAX_TIMESTAMP_MS,
        skip_nulls=False,
    )
    return clamped.cast(_MS)
