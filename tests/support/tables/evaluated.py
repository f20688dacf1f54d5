"""Evaluations at given moments, with either engine, and the rows that they write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from streaming.lag.paces import KnownPaces
from streaming.run.evaluation import Evaluated, StatusEvaluation
from streaming.run.spark_evaluation import SparkEvaluation
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS, STATUS_CHANGES, Table
from tests.support.tables.tables_folder import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITTEN: Final = (STATUS_CHANGES, GROUP_LAG, GROUP_STATUS)


def reader_at(tables: str, at: datetime) -> TableReader:
    """The newest tables; ages end at the moment."""
    reader = TableReader(tables)
    reader._as_of = at
    return reader


def start_evaluation(tables: str, spark: SparkSession | None = None) -> StatusEvaluation:
    """Open a folder as a start of `run` does; with a session the engine is `spark`."""
    writer = open_for_writing(tables, "test")
    tasks = None if spark is None else SparkEvaluation(writer, spark.newSession())
    return StatusEvaluation(writer, tasks=tasks)


def evaluate(tables: str, at: datetime, spark: SparkSession | None = None) -> Evaluated:
    """Evaluate once at a moment, after a start."""
    return start_evaluation(tables, spark).evaluate(reader_at(tables, at), KnownPaces())


def evaluated_rows(tables: str) -> Mapping[Table, list[Row]]:
    """The rows that evaluations have written."""
    rows_by_table = {}
    for table in WRITTEN:
        rows = TableReader(tables).read(table.name)
        rows_by_table[table] = rows.sort_by([(n, "ascending") for n in table.key]).to_pylist()
    return rows_by_table
