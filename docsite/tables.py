"""Every table, view and column: docs/tables.md, and tables in docs/lag.md and docs/alerts.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from coordinator_state.apply.columns import nullable, schema_of
from docsite.markdown import Parts, anchor, blocks, code, paragraph, table
from streaming.tables.descriptions import column_description, table_description, table_note
from streaming.tables.schemas import ALERTS, ALL_TABLES, Table
from streaming.views.definitions import (
    SCHEMAS,
    VIEWS,
    ExpiringOffsetRow,
    OpenTransactionRow,
    PartitionStatusRow,
    SimpleGroupRow,
    TopicRow,
)

ROWS_OF_VIEWS: Final[Mapping[str, type]] = {
    "partition_status": PartitionStatusRow,
    "topics": TopicRow,
    "expiring_offsets": ExpiringOffsetRow,
    "simple_groups": SimpleGroupRow,
    "open_transactions": OpenTransactionRow,
    "hanging_transactions": OpenTransactionRow,
}
KEYS_OF_VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    "partition_status": ("group_id", "topic", "partition"),
    "topics": ("topic",),
    "expiring_offsets": ("group_id", "topic", "partition", "log_partition"),
    "simple_groups": ("log_partition", "group_id"),
    "open_transactions": ("log_partition", "producer_id", "group_id"),
    "hanging_transactions": ("log_partition", "producer_id", "group_id"),
}
"""The columns that identify a row of a view."""

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Current state": (
        *("groups", "group_members", "group_offsets", "pending_offsets", "coordinator_records"),
        *("transactions", "share_partitions"),
    ),
    "History": (
        *("offset_commits", "group_events", "group_records", "transaction_events"),
        *("log_offsets", "external_offsets"),
    ),
    "Lag and status": ("group_lag", "group_status", "status_changes"),
    "Progress, errors and alerts": ("load_progress", "topic_progress", "quarantine", "alerts"),
    "Computed views": tuple(ROWS_OF_VIEWS),
}
_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.float64(): "double",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
}
_TABLES: Final[Mapping[str, Table]] = {
    delta_table.name: delta_table for delta_table in (*ALL_TABLES, ALERTS)
}


def _overview() -> str:
    parts = []
    if sorted(name for names in _KINDS.values() for name in names) != sorted({**_TABLES, **VIEWS}):
        raise AssertionError("a table or view is missing from _KINDS")
    for kind, names in _KINDS.items():
        parts.append(f"**{kind}**")
        rows = [(f"[{code(name)}](#{anchor(name)})", table_description(name)) for name in names]
        parts.append(table(["table" if kind != "Computed views" else "view", "rows"], rows))
    return blocks(parts)


def _section(name: str) -> str:
    rows = [
        (
            f"**{code(column.name)}**" if column.name in key_of(name) else code(column.name),
            code(type_name(column.type)),
            "yes" if column.nullable else "no",
            column_description(name, column.name),
        )
        for column in schema_with_nulls(name)
    ]
    description = paragraph(table_description(name))
    columns = table(["column", "type", "null", "description"], rows)
    return blocks([f"## {code(name)}", description, table_note(name), columns])


def key_of(name: str) -> tuple[str, ...]:
    """The columns that identify a row of a table or view."""
    return _TABLES[name].key if name in _TABLES else KEYS_OF_VIEWS[name]


def schema_with_nulls(name: str) -> pa.Schema:
    """The schema of a table or view: a column of a view is nullable only if its values may be."""
    if name in _TABLES:
        return _TABLES[name].schema
    schema = schema_of(ROWS_OF_VIEWS[name])
    if nullable(schema) != VIEWS[name]:
        raise AssertionError(f"{name} has other rows")
    return schema


def type_name(data_type: pa.DataType) -> str:
    """The name of a type in Spark SQL.

    >>> type_name(pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())])))
    'array<struct<topic: string, partition: int>>'
    """
    if pa.types.is_timestamp(data_type):
        return "timestamp"
    if pa.types.is_list(data_type):
        return f"array<{type_name(data_type.value_type)}>"
    if pa.types.is_map(data_type):
        return f"map<{type_name(data_type.key_type)}, {type_name(data_type.item_type)}>"
    if pa.types.is_struct(data_type):
        fields = (data_type.field(number) for number in range(data_type.num_fields))
        return f"struct<{', '.join(f'{field.name}: {type_name(field.type)}' for field in fields)}>"
    return _TYPES[data_type]


def _columns(name: str) -> str:
    rows = [(column, column_description(name, column)) for column in SCHEMAS[name].names]
    return table(["column", "meaning"], rows)


TABLES: Final[Parts] = {
    "overview": _overview,
    "columns": lambda: blocks(_section(name) for names in _KINDS.values() for name in names),
}
LAG: Final[Parts] = {"columns of group_lag": partial(_columns, "group_lag")}
ALERT: Final[Parts] = {"columns of alerts": partial(_columns, "alerts")}
