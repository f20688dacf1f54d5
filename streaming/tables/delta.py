"""Writes to Delta tables, and the little of Delta's own state that a micro-batch needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log_decoder import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from streaming.tables.schemas import ALL_TABLES, TIMESTAMP, Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LAST_COMMIT_VERSION = "spark.databricks.delta.lastCommitVersionInSession"


def with_timestamps(rows: pa.Table) -> pa.Table:
    """Turn every `<name>_ms` column of milliseconds into a timestamp column `<name>`.

    Times before year 1 or after 9999 become the nearest that every reader can show.
    """
    for index, name in enumerate(rows.schema.names):
        if name.endswith("_timestamp_ms"):
            clamped = pc.min_element_wise(
                pc.max_element_wise(rows[name], MIN_TIMESTAMP_MS, skip_nulls=False),
                MAX_TIMESTAMP_MS,
                skip_nulls=False,
            )
            times = clamped.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)
            rows = rows.set_column(index, name.removesuffix("_ms"), times)
    return rows


def create_tables(
    session: SparkSession,
    tables: str,
    properties: Mapping[str, str],
    *,
    change_data_feed: bool = False,
) -> None:
    """Create the tables that do not exist; `properties` are those of `load_progress`.

    `load_progress` comes last, so that a folder with it has every table.
    """
    from delta.tables import DeltaTable
    from pyspark.sql.pandas.types import from_arrow_schema

    for table in ALL_TABLES:
        builder = DeltaTable.createIfNotExists(session).location(table.path(tables))
        for column in from_arrow_schema(table.schema):
            builder = builder.addColumn(
                column.name, dataType=column.dataType, nullable=column.nullable
            )
        if table.partition_by:
            builder = builder.partitionedBy(*table.partition_by)
        if change_data_feed:
            builder = builder.property("delta.enableChangeDataFeed", "true")
        for name, value in properties.items() if table.name == "load_progress" else ():
            builder = builder.property(name, value)
        builder.execute()


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows as a DataFrame.

    In one chunk: `createDataFrame` of Spark 4.2 drops, without a word, what follows an empty chunk.
    """
    return session.createDataFrame(rows.combine_chunks())


def read(session: SparkSession, tables: str, table: Table, version: int | None = None) -> DataFrame:
    """A table, as it was at a version where one is given."""
    reader = session.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(table.path(tables))


def current_version(session: SparkSession, tables: str, table: Table) -> int:
    """The newest version of a table."""
    from delta.tables import DeltaTable

    history = DeltaTable.forPath(session, table.path(tables)).history(1)
    return int(history.select("version").collect()[0][0])


def merge(
    session: SparkSession,
    tables: str,
    table: Table,
    source: pa.Table,
    *,
    deletes: str,
    guard: str,
) -> int:
    """MERGE rows into a table by its key; give the version after it.

    Args:
        session: the micro-batch's session.
        tables: the tables folder.
        table: the table.
        source: at most one row per key, with the table's columns and those the conditions name;
            columns of the table that it lacks become null.
        deletes: condition under which a source row (`s`) takes the row of its key away.
        guard: condition between `s` and `t` under which a matched row is replaced or taken away.
    """
    from delta.tables import DeltaTable

    values: dict[str, str | Column] = dict.fromkeys(table.schema.names, "NULL")
    values |= {name: f"s.{name}" for name in source.schema.names if name in values}
    same_key = " AND ".join(f"t.{name} = s.{name}" for name in table.key)
    target = DeltaTable.forPath(session, table.path(tables)).alias("t")
    merging = (
        target.merge(frame_of(session, source).alias("s"), same_key)
        .whenMatchedDelete(f"({deletes}) AND ({guard})")
        .whenMatchedUpdate(f"NOT ({deletes}) AND ({guard})", set=values)
        .whenNotMatchedInsert(f"NOT ({deletes})", values=values)
    )
    return _commit(session, tables, table, merging.execute)


def append(
    session: SparkSession,
    tables: str,
    table: Table,
    rows: pa.Table,
    *,
    transaction: tuple[str, int] | None = None,
) -> int:
    """Append rows once per `transaction` (application id and version); give the version written.

    Delta skips an append whose transaction it has seen, so a micro-batch that runs again adds
    nothing.
    """
    writer = _frame(session, table, rows).write.format("delta").mode("append")
    if transaction is not None:
        application, version = transaction
        writer = (
            writer.option("txnAppId", application)
            .option("txnVersion", version)
            .option("userMetadata", application)
        )
    return _commit(session, tables, table, lambda: writer.save(table.path(tables)))


def overwrite(session: SparkSession, tables: str, table: Table, rows: pa.Table) -> int:
    """Replace all rows of a small table; give the version after it."""
    writer = _frame(session, table, rows).write.format("delta").mode("overwrite")
    return _commit(session, tables, table, lambda: writer.save(table.path(tables)))


def set_property(session: SparkSession, tables: str, table: Table, name: str, value: str) -> None:
    """Set a table property."""
    path = table.path(tables).replace("`", "``")
    session.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")


def last_writer(session: SparkSession, tables: str, table: Table) -> str:
    """The application id of the append that made the newest version, "" if it was none."""
    from delta.tables import DeltaTable

    history = DeltaTable.forPath(session, table.path(tables)).history(1)
    return str(history.select("userMetadata").collect()[0][0] or "")


def delete_from(
    session: SparkSession, tables: str, table: Table, next_offsets: Mapping[int, int]
) -> int:
    """Delete the rows at or past each log partition's next offset; give the version written."""
    from delta.tables import DeltaTable

    past = " OR ".join(
        f"(log_partition = {log_partition} AND {column} >= {next_offset})"
        for log_partition, next_offset in sorted(next_offsets.items())
        for column in _progress_columns(table)
    )
    known = ", ".join(str(log_partition) for log_partition in sorted(next_offsets))
    unknown = f"log_partition NOT IN ({known})" if known else "true"
    DeltaTable.forPath(session, table.path(tables)).delete(
        f"{past} OR {unknown}" if past else unknown
    )
    return current_version(session, tables, table)


def _progress_columns(table: Table) -> Sequence[str]:
    """The column that says how far the log was read when a row was appended."""
    return (
        ("outcome_record_offset",)
        if "outcome_record_offset" in table.schema.names
        else ("record_offset",)
    )


def _frame(session: SparkSession, table: Table, rows: pa.Table) -> DataFrame:
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    return frame_of(session, pa.table(columns, schema=table.schema))


def _commit(session: SparkSession, tables: str, table: Table, write: Callable[[], object]) -> int:
    """Run a write and give the table's version after it.

    A write that changes nothing commits nothing; then the version is that of the commit before,
    which may be of an attempt that crashed after it.
    """
    session.conf.unset(LAST_COMMIT_VERSION)
    write()
    version = session.conf.get(LAST_COMMIT_VERSION, None)
    return current_version(session, tables, table) if version is None else int(version)
