"""The tables as Spark opens them, by names in a catalog or by addresses, and its sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.tables.locations import local_path
from streaming.tables.schemas import Table

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import DataFrame, SparkSession


_SETTINGS = {
    # delta-rs and DuckDB read Spark's older type without its time zone, and not all years of it.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Hostile input may have commit timestamps before 1900; they are stored unchanged.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.session.timeZone": "UTC",
    # Databricks refuses plain reads of files in the folder of a Delta table, such as staged rows.
    "spark.databricks.delta.formatCheck.enabled": "false",
    # The files of old versions are kept by maintenance, as long as a snapshot names them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # The rows of a MERGE are in files, which do not change.
    "spark.databricks.delta.merge.materializeSource": "none",
    # Only Spark reads the files with checksums of versions, and maintenance does not delete them.
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
}
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def configure(session: SparkSession) -> None:
    """Configure a session that reads or writes the tables."""
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    context = session.sparkContext
    if not context.getConf().contains(_SHUFFLE_PARTITIONS):
        # Spark's default of 200 tasks is for far more rows.
        session.conf.set(_SHUFFLE_PARTITIONS, str(context.defaultParallelism))


def spark_location(tables: str) -> str:
    """The address of a tables folder for Spark, which would look for a path on its own store."""
    path = local_path(tables)
    # Not `as_uri`: Hadoop takes an address literally, without percent-encoding.
    return tables.rstrip("/") if path is None else f"file://{path}"


@dataclass(frozen=True, slots=True)
class SparkTables:
    """The tables of a folder, which may have names in a catalog.

    A catalog checks its access rules only for names, so tables with names are read and written by
    name.

    Attributes:
        folder: the tables folder.
        schema: the schema of the tables as in a statement of SQL; None without a catalog.
    """

    folder: str
    schema: str | None = None

    def read(self, session: SparkSession, table: Table) -> DataFrame:
        """The rows of the newest version of a table."""
        if self.schema is None:
            return session.read.format("delta").load(self._address(table))
        return session.table(self._name(table))

    def opened(self, session: SparkSession, table: Table) -> DeltaTable:
        """A table for a MERGE."""
        from delta.tables import DeltaTable

        if self.schema is None:
            return DeltaTable.forPath(session, self._address(table))
        return DeltaTable.forName(session, self._name(table))

    def append(self, rows: DataFrame, table: Table) -> None:
        """Append rows to a table."""
        if self.schema is None:
            rows.write.format("delta").mode("append").save(self._address(table))
        else:
            rows.writeTo(self._name(table)).append()

    def replace(self, rows: DataFrame, table: Table, condition: str) -> None:
        """Replace the rows of a table that meet a condition."""
        from pyspark.sql import functions as f

        if self.schema is None:
            writer = rows.write.format("delta").mode("overwrite")
            writer.option("replaceWhere", condition).save(self._address(table))
        else:
            # saveAsTable would make the table anew.
            rows.writeTo(self._name(table)).overwrite(f.expr(condition))

    def in_sql(self, table: Table) -> str:
        """A table in a statement of SQL.

        `delta.tables.DeltaTable` (4.4) does not escape a backtick of an address in the statements
        that it makes, such as OPTIMIZE.
        """
        if self.schema is None:
            escaped = self._address(table).replace("`", "``")
            return f"delta.`{escaped}`"
        return self._name(table)

    def _address(self, table: Table) -> str:
        return table.path(spark_location(self.folder))

    def _name(self, table: Table) -> str:
        return f"{self.schema}.{table.name}"
