"""Upkeep of the tables that the engine `spark` changes by MERGE, with Delta Lake on Spark.

`streaming.tables.maintenance` does the rest with delta-rs, for both engines.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from py4j.protocol import Py4JError

from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.written_tables import MERGED
from streaming.errors import TablesUnavailable
from streaming.tables import deletion_vectors, delta
from streaming.tables.maintenance import kept_for
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
        found = delta.open_table(tables.folder, table).metadata().configuration
        if found.get(deletion_vectors.PROPERTY) != "true":
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


def delete_deletion_vectors(session: SparkSession, tables: SparkTables) -> None:
    """Delete the files with deletion vectors, and other files, that no kept version needs.

    `streaming.tables.maintenance` leaves these files: delta-rs does not know which of them a table
    needs.

    Raises:
        TablesUnavailable: a table cannot be read, or Spark cannot delete the files.
    """
    from pyspark.errors import PySparkException

    own = session.newSession()
    own.conf.set(f"{_SETTING}.retentionDurationCheck.enabled", "false")
    own.conf.set(f"{_SETTING}.vacuum.logging.enabled", "false")
    for table in MERGED:
        opened = delta.open_table(tables.folder, table)
        if deletion_vectors.may_have_deletion_vectors(opened):
            hours = math.ceil(kept_for(opened) / timedelta(hours=1))
            try:
                own.sql(f"VACUUM {tables.in_sql(table)} RETAIN {hours} HOURS")
            except (PySparkException, Py4JError) as error:
                first, *_ = str(error).splitlines()
                path = table.path(tables.folder)
                raise TablesUnavailable(f"cannot delete old files of {path}: {first}") from error
