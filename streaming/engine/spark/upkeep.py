"""Upkeep of the tables that the engine `spark` changes by MERGE, with Delta Lake on Spark.

`streaming.tables.maintenance` does the rest with delta-rs, for both engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.written_tables import MERGED
from streaming.tables import deletion_vectors, delta
from streaming.tables.replacing import MOST_FILES, SMALL_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES = 16
"""Compaction leaves about this number of files."""
_SETTING = "spark.databricks.delta"


def enable_deletion_vectors(session: SparkSession, tables: SparkTables) -> None:
    """Set the table property for deletion vectors where it is not set.

    Raises:
        TablesUnavailable: a table cannot be read.
    """
    for table in MERGED:
        properties = delta.open_table(tables.folder, table).metadata().configuration
        if properties.get(deletion_vectors.PROPERTY) != "true":
            session.sql(
                f"ALTER TABLE {tables.in_sql(table)} "
                f"SET TBLPROPERTIES ('{deletion_vectors.PROPERTY}' = 'true')"
            )


def needs_compaction(opened: DeltaTable) -> bool:
    """Whether a table has too many files."""
    return len(opened.file_uris()) > MOST_FILES


def compact(session: SparkSession, table_in_sql: str, opened: DeltaTable) -> None:
    """Compact the small files of a table, and those with many deleted rows.

    It runs between two commits of the query: beside them, one of the two would always conflict.

    Args:
        session: a session for this table alone; the sizes of files are settings of it.
        table_in_sql: the table in a statement of SQL.
        opened: the table at its newest version.
    """
    sizes = pc.sum(pa.table(opened.get_add_actions())["size_bytes"]).as_py() or 0
    largest = max(SMALL_BYTES, sizes // _FILES)
    session.conf.set(f"{_SETTING}.optimize.maxFileSize", str(largest))
    session.conf.set(f"{_SETTING}.optimize.minFileSize", str(largest // 2))
    session.sql(f"OPTIMIZE {table_in_sql}")
