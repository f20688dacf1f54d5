"""The settings of the sessions in which the engine `spark` reads and writes the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
