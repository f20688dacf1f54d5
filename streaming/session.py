"""The Spark session: the only place that knows its settings and its jars."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.jars import delta_jars
from streaming.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A MERGE writes as many files as there are shuffle partitions, and a micro-batch is small.
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # The source of every MERGE is built on the driver, so a second evaluation gives the same rows.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    # The query of samples has no checkpoint that anybody needs.
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    # A commit timestamp may lie before 1900 in hostile input; it is stored as it is.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "50",
}

_SPARK_CONF = Path(__file__).with_name("spark_conf")


def build_session(
    *, master: str = "local[2]", app_name: str = "coordinator-state", warehouse: Path | None = None
) -> SparkSession:
    """Start (or get) the session that runs the query.

    The Delta jars come from the project's own cache, so a second start needs no network. In local
    mode everything binds to the loopback address. A SPARK_HOME or SPARK_CONF_DIR of the user's
    stands; without one Spark logs errors only.

    Raises:
        ConfigurationError: no JDK that Spark can run on, or the jars cannot be had.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not {"SPARK_CONF_DIR", "SPARK_HOME"} & os.environ.keys():
        os.environ["SPARK_CONF_DIR"] = str(_SPARK_CONF)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.jars", ",".join(str(jar) for jar in delta_jars()))
    if master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config(
            "spark.driver.host", "127.0.0.1"
        )
    if warehouse is not None:
        builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    return builder.getOrCreate()
