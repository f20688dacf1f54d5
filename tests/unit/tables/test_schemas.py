"""The columns of the Delta tables. Folders that exist have them, and other programs read them."""

from __future__ import annotations

from pathlib import Path

from streaming.tables.schemas import ALERTS, ALL_TABLES

COLUMNS = Path(__file__).parents[2] / "golden" / "table_columns.txt"


def test_columns_change_only_with_a_migration() -> None:
    columns = [
        f"{table.name}.{field.name}: {field.type}{'' if field.nullable else ' not null'}"
        for table in (*ALL_TABLES, ALERTS)
        for field in table.schema
    ]

    assert columns == COLUMNS.read_text().splitlines()
